"""Datasets of torchvision and Hugging Face to pack: each sample's stored image, its label or targets, and its key.

A dataset with code of its own, beyond the file's image as RGB and the transform, is refused. A library that the program has
not imported has made none of its datasets.
"""

import csv
import importlib
import io
import json
import os
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .numbers import kind_of
from .packing import Source, Stage

#: Which samples of a dataset a Subset has, in order; None: all.
Rows = Sequence[int] | None

ORIENTATION = 0x0112  # EXIF's tag for the side of an image that is up
_ROWS_HASHED = 100  # of a table's images, evenly spread, for its digest

_CATEGORY_MAX = (1 << 16) - 1  # COCO's ids reach 90
#: The names of PASCAL VOC's labels, as torchvision's wrapper numbers them.
_VOC = (
    "__background__", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
#: Keys of wrap_dataset_for_transforms_v2 that imgfeed's dictionaries have.
_KEYS = {"CocoDetection": {"image_id", "boxes", "labels", "area", "iscrowd"}, "VOCDetection": {"boxes", "labels"}}
_KEY = "{:09d}".format  # of a sample that has a number alone
HOW = (
    "Pack its images once, as class folders or as a list of path and label in each line, with imgshard build, and give the "
    "set's path to imgfeed.DataLoader, with the operations on images as transform="
)


def listed(root: str, samples: Sequence[tuple[str, int]], classes: Sequence[str], what: str) -> Source:
    """Return images that lie in files below one folder."""
    above, labels = os.path.join(root, ""), [label for _, label in samples]
    outside = next((path for path, _ in samples if not path.startswith(above)), None)
    if outside is not None:
        raise refused(f"the {what} at {root} has {outside}, which does not lie below it. {HOW}")
    keys = [path[len(above) :] for path, _ in samples]

    def identify(digest: Any) -> None:
        """Update a hash with each file's size and time of change."""
        digest.update(os.fsencode(os.path.abspath(root)))
        stats = (os.stat(path) for path, _ in samples)
        digest.update(np.array([(s.st_size, s.st_mtime_ns) for s in stats], dtype="<i8").tobytes())

    def stage(folder: Path) -> list[str]:
        images = folder / "images.csv"
        with images.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerows([("path", "label"), *zip(keys, labels, strict=True)])
        return [str(images), "--images", root, *_classes_flag(folder, classes)]

    return Source(Path(root).name, f"{what} of {len(samples):,} images at {root}", keys, labels, classes, identify, stage)


def _in_tar(samples: Callable[[], Iterable[dict[str, bytes]]], classes: Sequence[str], *flags: str) -> Stage:
    """Return what writes samples out one after the other, as WebDataset has them: each one's files by their extensions."""

    def stage(folder: Path) -> list[str]:
        images = folder / "images.tar"
        with tarfile.open(images, "w", format=tarfile.USTAR_FORMAT) as tar:
            for i, sample in enumerate(samples()):
                for extension, content in sample.items():  # an image's content tells its format, not the name
                    member = tarfile.TarInfo(f"{_KEY(i)}.{extension}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        return [str(images), *flags, *_classes_flag(folder, classes)]

    return stage


def files(dataset: Any, rows: Rows, label: str | None) -> Source | None:
    folder = sys.modules.get("torchvision.datasets.folder")
    if folder is None or not isinstance(dataset, folder.DatasetFolder):
        return None
    _refuse_code(dataset, folder.DatasetFolder, label)
    loaders = [folder.pil_loader]
    if sys.modules["torchvision"].get_image_backend() == "PIL":
        loaders.append(folder.default_loader)
    if dataset.loader not in loaders:
        raise refused(
            f"the {type(dataset).__name__} has loader={dataset.loader!r:.80}: imgfeed gives the "
            "images that torchvision's pil_loader does. Leave out loader=, or pack the images by themselves"
        )
    samples = dataset.samples if rows is None else [dataset.samples[i] for i in rows]
    # ImageNet's root is the folder of both splits, and its classes are lists of synonyms.
    root, classes = getattr(dataset, "split_folder", dataset.root), getattr(dataset, "wnids", dataset.classes)
    return listed(os.fspath(root), samples, list(classes), type(dataset).__name__)


def arrays(dataset: Any, rows: Rows, label: str | None) -> Source | None:
    cifar = sys.modules.get("torchvision.datasets.cifar")
    if cifar is None or not isinstance(dataset, cifar.CIFAR10):
        return None
    _refuse_code(dataset, cifar.CIFAR10, label)
    data, labels = dataset.data, list(map(int, dataset.targets))
    if rows is not None:
        data, labels = data[list(rows)], [labels[i] for i in rows]
    data, image = np.ascontiguousarray(data), importlib.import_module("PIL.Image")

    def identify(digest: Any) -> None:
        digest.update(str(data.shape).encode())
        digest.update(data)

    def samples() -> Iterator[dict[str, bytes]]:
        for pixels, number in zip(data, labels, strict=True):
            yield {"jpg": _encoded(image.fromarray(pixels), "BMP"), "cls": str(number).encode()}

    name, classes = f"{type(dataset).__name__}-{'train' if dataset.train else 'test'}", list(dataset.classes)
    stage = _in_tar(samples, classes, "--encoding", "pixels", "--resize", "none")
    return Source(name, f"{name} of {len(labels):,} images", [*map(_KEY, range(len(labels)))], labels, classes, identify, stage)


def table(dataset: Any, rows: Rows, label: str | None) -> Source | None:
    """Return a Dataset of Hugging Face. Its transform is a function of whole rows, which can't be looked into."""
    tables = sys.modules.get("datasets.arrow_dataset")
    if tables is None or type(dataset) is not tables.Dataset:
        return None
    if rows is not None:
        dataset = dataset.select(rows)
    features = dataset.features
    images = [name for name, kind in features.items() if type(kind).__name__ == "Image"]
    if len(images) != 1:
        raise refused(f"the dataset has {len(images)} columns of images, {images}: select one with the labels")
    kinds = {name: kind for name, kind in features.items() if type(kind).__name__ == "ClassLabel"}
    names = list(kinds) or [name for name in ("label", "labels") if name in features]
    if label is not None:
        if label not in features:
            raise refused(f"label is {label!r}, and the dataset has {', '.join(features)}")
        names = [label]
    if len(names) != 1:
        raise refused(f"the dataset has {len(names)} columns of labels ({', '.join(features)}): name one with label=")
    labels = dataset.with_format(None)[names[0]][:]
    if not all(isinstance(value, int) and value >= 0 for value in labels):
        raise refused(f"not all values of the column {names[0]!r} are labels, whole numbers from 0")
    kind = kinds.get(names[0])
    classes = list(kind.names) if kind else [str(i) for i in range(max(labels, default=0) + 1)]
    return _of_table(dataset, images[0], labels, classes)


def _of_table(dataset: Any, column: str, labels: Sequence[int], classes: Sequence[str]) -> Source:
    """Return images of a dataset of Hugging Face, with the bytes that they have there."""

    def identify(digest: Any) -> None:
        """Update a hash with each image's name and bytes in number, some images, and which rows are taken in what order."""
        rows, compute = dataset.data.column(column), importlib.import_module("pyarrow.compute")
        data, paths = (compute.struct_field(rows, field) for field in ("bytes", "path"))
        digest.update(compute.binary_length(data).fill_null(-1).to_numpy().astype("<i8"))
        names = [os.fsencode(name or "") for name in paths.to_pylist()]
        digest.update(b"\0".join(names))
        for i in np.unique(np.linspace(0, len(names) - 1, _ROWS_HASHED, dtype=np.int64)).tolist():
            digest.update(_bytes_of(rows[i].as_py()))
        if dataset._indices is not None:
            digest.update(dataset._indices.column(0).to_numpy().astype("<i8"))

    def samples() -> Iterator[dict[str, bytes]]:
        """Yield each as it is stored. One that EXIF turns, which the dataset does and imgfeed does not, comes turned."""
        images = importlib.import_module("datasets").Image(decode=False)
        stored = dataset.with_format(None).select_columns([column]).cast_column(column, images)
        for row, label in zip(stored, labels, strict=True):
            yield {"jpg": _upright(_bytes_of(row[column])), "cls": str(label).encode()}

    name, keys = f"{dataset.builder_name or 'dataset'}-{dataset.split or 'all'}", [*map(_KEY, range(len(labels)))]
    what = f"Dataset {name} of {len(labels):,} images"
    return Source(name, what, keys, labels, classes, identify, _in_tar(samples, classes))


def _refuse_code(dataset: Any, base: Any, label: str | None) -> None:
    """Raise ValueError where a dataset does more to a sample than its base and a transform."""
    kind = type(dataset)
    own = [
        name
        for name in ("__getitem__", "__getitems__", "__len__", "_load_image", "_load_target", "_load_json", "parse_voc_xml")
        if getattr(kind, name, None) is not getattr(base, name, None)
    ]
    if own:
        raise refused(f"{kind.__qualname__} has code of its own in {own[0]}, which imgfeed can't run. {HOW}")
    if label is not None:
        raise refused(f"label= names a column of a dataset of Hugging Face, and this is {kind_of(dataset)}")


def _upright(data: bytes) -> bytes:
    """Return an image's file as it is, unless EXIF says that it lies on its side: then the turned pixels as PNG."""
    with importlib.import_module("PIL.Image").open(io.BytesIO(data)) as picture:
        if picture.getexif().get(ORIENTATION, 1) == 1:
            return data
        turned = importlib.import_module("PIL.ImageOps").exif_transpose(picture)
        return _encoded(turned.convert("RGB"), "PNG")


def _bytes_of(image: dict[str, Any]) -> bytes:
    """Return the file of an image that a table has, or names."""
    data: bytes | None = image["bytes"]
    return Path(image["path"]).read_bytes() if data is None else data


def refused(text: str) -> ValueError:
    """Return from_torch's error for what imgfeed can't do."""
    return ValueError(f"imgfeed: from_torch: {text}")


def _encoded(picture: Any, kind: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


def _classes_flag(folder: Path, classes: Iterable[str]) -> list[str]:
    """Write the names of the classes where imgshard finds them, if there are any, and return the flag."""
    if not classes:
        return []
    names = folder / "classes"
    names.write_text("".join(f"{name}\n" for name in classes), encoding="utf-8")
    return ["--classes", str(names)]


def _beside(dataset: Any, rows: Rows, pairs: Iterable[tuple[Any, Any]], classes: Sequence[str], *targets: str) -> Source:
    """Return images of files, by rows of all pairs of an image's path and its label or, with targets, a function that returns
    its objects, or the path of its mask. targets are objects or masks, and further flags of imgshard.
    """
    every = list(pairs)
    chosen = every if rows is None else [every[i] for i in rows]

    def beside(one: Any) -> dict[str, bytes]:
        if not targets:
            return {"cls": str(one).encode()}
        return {"json": json.dumps(one()).encode()} if callable(one) else {"mask.png": Path(one).read_bytes()}

    def identify(digest: Any) -> None:
        """Update a hash with each image's path, size and time of change, and what stands beside it."""
        for path, one in chosen:
            stat = os.stat(path)
            digest.update(os.fsencode(os.path.abspath(path)) + f"\0{stat.st_size} {stat.st_mtime_ns}\0".encode())
            digest.update(*beside(one).values())

    def samples() -> Iterator[dict[str, bytes]]:
        return ({"jpg": Path(path).read_bytes(), **beside(one)} for path, one in chosen)

    name, labels = type(dataset).__name__, [-1 if targets else one for _, one in chosen]
    what, keys = f"{name} of {len(chosen):,} images at {dataset.root}", [*map(_KEY, range(len(chosen)))]
    stage = _in_tar(samples, classes, *(("--targets", *targets) if targets else ()))
    return Source(name, what, keys, labels, classes, identify, stage, *targets[:1])


def with_targets(dataset: Any, rows: Rows, label: str | None) -> Source | None:
    """Return a dataset of torchvision for detection or segmentation. Raises ValueError for targets that imgfeed lacks."""
    sets = sys.modules.get("torchvision.datasets")
    of = next((name for name in _SOURCES if sets is not None and isinstance(dataset, getattr(sets, name))), None)
    if of is None:
        return None
    _refuse_code(dataset, getattr(sets, of), label)
    return _SOURCES[of](dataset, rows)


def without_wrapper(dataset: Any) -> Any:
    """Return the dataset in wrap_dataset_for_transforms_v2. Raises ValueError for keys of targets that imgfeed lacks."""
    wrappers = sys.modules.get("torchvision.tv_tensors._dataset_wrapper")
    if wrappers is None or not isinstance(dataset, wrappers.VisionDatasetTVTensorWrapper):
        return dataset
    keys, inner = dataset._target_keys or (), dataset._dataset
    for name, given in _KEYS.items():
        if isinstance(inner, getattr(sys.modules.get("torchvision.datasets"), name)):
            others = ["all"] if keys == "all" else sorted({*keys} - given)
            if others:
                raise refused(
                    f"the {name} is wrapped with target_keys that imgfeed does not give: "
                    f"{', '.join(others)}: take those of {', '.join(sorted(given))}"
                )
    return inner


def _coco(dataset: Any, rows: Rows) -> Source:
    coco, names = dataset.coco, {number: one["name"] for number, one in dataset.coco.cats.items()}
    last = max(names, default=-1)
    if min(names, default=0) < 0 or last > _CATEGORY_MAX:
        raise refused(f"the CocoDetection has category ids up to {last}, want 0 to {_CATEGORY_MAX}")

    def objects(number: int) -> dict[str, Any]:
        found = coco.loadAnns(coco.getAnnIds(number))
        keys = [key for key in ("bbox", "category_id", "area", "iscrowd") if all(key in one for one in found)]
        return {"image_id": number, "objects": {key: [one[key] for one in found] for key in keys}}

    paths = [os.path.join(dataset.root, coco.imgs[number]["file_name"]) for number in dataset.ids]
    classes = [names.get(i, f"no category {i}") for i in range(last + 1)]  # labels are the ids
    each = [partial(objects, number) for number in dataset.ids]
    pairs = zip(paths, each, strict=True)
    return _beside(dataset, rows, pairs, classes, "objects", "--field", "image_id=json.image_id:int64")


def _voc_objects(dataset: Any, rows: Rows) -> Source:
    parse = importlib.import_module("xml.etree.ElementTree").parse

    def objects(path: str) -> dict[str, Any]:
        found = dataset.parse_voc_xml(parse(path).getroot())["annotation"]["object"]
        boxes = [[float(one["bndbox"][side]) for side in ("xmin", "ymin", "xmax", "ymax")] for one in found]
        return {"objects": {"bbox": boxes, "category": [one["name"] for one in found]}}

    pairs = [(path, partial(objects, xml)) for path, xml in zip(dataset.images, dataset.targets, strict=True)]
    return _beside(dataset, rows, pairs, _VOC, "objects", "--box-format", "xyxy")


def _cityscapes(dataset: Any, rows: Rows) -> Source:
    _type_of(dataset, "target_type", dataset.target_type, "semantic")
    names = {one.id: one.name for one in dataset.classes}
    classes = [names[i] for i in range(max(names) + 1)]
    pairs = [(path, masks[0]) for path, masks in zip(dataset.images, dataset.targets, strict=True)]
    return _beside(dataset, rows, pairs, classes, "masks")


def _pets(dataset: Any, rows: Rows) -> Source:
    of = _type_of(dataset, "target_types", dataset._target_types, "category", "binary-category", "segmentation")
    sidecars, classes = {
        "category": (dataset._labels, dataset.classes),
        "binary-category": (dataset._bin_labels, dataset.bin_classes),
        "segmentation": (dataset._segs, ()),
    }[of]
    pairs = zip(dataset._images, sidecars, strict=True)
    return _beside(dataset, rows, pairs, classes, *(["masks"] if of == "segmentation" else []))


def _type_of(dataset: Any, name: str, given: Sequence[str], *taken: str) -> str:
    """Return the type of a dataset's targets. Raises ValueError for one that imgfeed does not give, and for several."""
    if len(given) != 1 or given[0] not in taken:
        raise refused(
            f"the {type(dataset).__qualname__} has {name}={list(given)}, and imgfeed gives one of "
            f"{', '.join(taken)}: make it with {name}={taken[-1]!r}"
        )
    return given[0]


_SOURCES = {
    "CocoDetection": _coco,
    "VOCDetection": _voc_objects,
    "VOCSegmentation": lambda sets, rows: _beside(sets, rows, zip(sets.images, sets.masks, strict=True), _VOC, "masks"),
    "Cityscapes": _cityscapes,
    "OxfordIIITPet": _pets,
}
