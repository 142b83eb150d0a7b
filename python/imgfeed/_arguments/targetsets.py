"""Datasets of torchvision for detection and segmentation to pack: images with boxes, a mask or a label for each."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .packing import Source
from .torchsets import Images, module, refuse_code

_CATEGORY_MAX = (1 << 16) - 1  # COCO's ids reach 90
#: The names of PASCAL VOC's labels, as torchvision's wrapper numbers them.
_VOC = (
    "__background__", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
#: Keys of wrap_dataset_for_transforms_v2 that imgfeed's dictionaries have.
_KEYS = {"CocoDetection": {"image_id", "boxes", "labels", "area", "iscrowd"}, "VOCDetection": {"boxes", "labels"}}


class Targets(Images):
    """Images of files, each with objects as JSON, a mask or a label beside it."""

    def __init__(self, dataset: Any, rows: Sequence[int] | None, pairs: Iterable[tuple[Any, Any]], **of: Any) -> None:
        """Take rows of all pairs of an image's path and what stands beside it: a function that returns objects, or the path of
        a mask, or a label. of has the names of the classes, the kind of targets, and flags of imgshard.
        """
        every = list(pairs)
        chosen = every if rows is None else [every[i] for i in rows]
        self.targets, self._paths, self._beside = of["targets"], [path for path, _ in chosen], [beside for _, beside in chosen]
        name, labels = type(dataset).__name__, [-1] * len(chosen) if self.targets else self._beside
        flags = ["--targets", self.targets, *of.get("flags", ())] if self.targets else []
        what = f"{name} of {len(chosen):,} images at {dataset.root}"
        super().__init__(name, what, labels, of["classes"], flags)

    def identify(self, digest: Any) -> None:
        """Update a hash with each image's path, size and time of change, and what stands beside it."""
        for i, path in enumerate(self._paths):
            stat = os.stat(path)
            digest.update(os.fsencode(os.path.abspath(path)) + f"\0{stat.st_size} {stat.st_mtime_ns}\0".encode())
            digest.update(self.beside(i)[1])

    def files(self) -> Iterator[bytes]:
        return (Path(path).read_bytes() for path in self._paths)

    def beside(self, i: int) -> tuple[str, bytes]:
        if self.targets == "objects":
            return "json", json.dumps(self._beside[i]()).encode()
        return ("mask.png", Path(self._beside[i]).read_bytes()) if self.targets else super().beside(i)


def with_targets(dataset: Any, rows: Sequence[int] | None, label: str | None) -> Source | None:
    """Return a dataset of torchvision for detection or segmentation. Raises ValueError for targets that imgfeed lacks."""
    sets = module("torchvision.datasets")
    of = next((name for name in _SOURCES if sets is not None and isinstance(dataset, getattr(sets, name))), None)
    if of is None:
        return None
    refuse_code(dataset, getattr(sets, of), label)
    return _SOURCES[of](dataset, rows)


def without_wrapper(dataset: Any) -> Any:
    """Return the dataset in wrap_dataset_for_transforms_v2. Raises ValueError for keys of targets that imgfeed lacks."""
    wrappers = module("torchvision.tv_tensors._dataset_wrapper")
    if wrappers is None or not isinstance(dataset, wrappers.VisionDatasetTVTensorWrapper):
        return dataset
    keys, inner = dataset._target_keys or (), dataset._dataset
    for name, given in _KEYS.items():
        if isinstance(inner, getattr(module("torchvision.datasets"), name)):
            others = ["all"] if keys == "all" else sorted({*keys} - given)
            if others:
                raise ValueError(
                    f"imgfeed: from_torch: the {name} is wrapped with target_keys that imgfeed does not give: "
                    f"{', '.join(others)}: take those of {', '.join(sorted(given))}"
                )
    return inner


def _coco(dataset: Any, rows: Sequence[int] | None) -> Source:
    coco, names = dataset.coco, {number: one["name"] for number, one in dataset.coco.cats.items()}
    last = max(names, default=-1)
    if min(names, default=0) < 0 or last > _CATEGORY_MAX:
        raise ValueError(f"imgfeed: from_torch: the CocoDetection has category ids up to {last}, want 0 to {_CATEGORY_MAX}")

    def objects(number: int) -> dict[str, Any]:
        found = coco.loadAnns(coco.getAnnIds(number))
        keys = [key for key in ("bbox", "category_id", "area", "iscrowd") if all(key in one for one in found)]
        return {"image_id": number, "objects": {key: [one[key] for one in found] for key in keys}}

    paths = [os.path.join(dataset.root, coco.imgs[number]["file_name"]) for number in dataset.ids]
    classes = [names.get(i, f"no category {i}") for i in range(last + 1)]  # labels are the ids
    each = [partial(objects, number) for number in dataset.ids]
    flags = ("--field", "image_id=json.image_id:int64")
    return Targets(dataset, rows, zip(paths, each, strict=True), classes=classes, targets="objects", flags=flags)


def _voc_objects(dataset: Any, rows: Sequence[int] | None) -> Source:
    parse = importlib.import_module("xml.etree.ElementTree").parse

    def objects(path: str) -> dict[str, Any]:
        found = dataset.parse_voc_xml(parse(path).getroot())["annotation"]["object"]
        boxes = [[float(one["bndbox"][side]) for side in ("xmin", "ymin", "xmax", "ymax")] for one in found]
        return {"objects": {"bbox": boxes, "category": [one["name"] for one in found]}}

    pairs = [(path, partial(objects, xml)) for path, xml in zip(dataset.images, dataset.targets, strict=True)]
    return Targets(dataset, rows, pairs, classes=_VOC, targets="objects", flags=("--box-format", "xyxy"))


def _voc_masks(dataset: Any, rows: Sequence[int] | None) -> Source:
    return Targets(dataset, rows, zip(dataset.images, dataset.masks, strict=True), classes=_VOC, targets="masks")


def _cityscapes(dataset: Any, rows: Sequence[int] | None) -> Source:
    _type_of(dataset, "target_type", dataset.target_type, "semantic")
    names = {one.id: one.name for one in dataset.classes}
    classes = [names[i] for i in range(max(names) + 1)]
    pairs = [(path, masks[0]) for path, masks in zip(dataset.images, dataset.targets, strict=True)]
    return Targets(dataset, rows, pairs, classes=classes, targets="masks")


def _pets(dataset: Any, rows: Sequence[int] | None) -> Source:
    of = _type_of(dataset, "target_types", dataset._target_types, "category", "binary-category", "segmentation")
    beside, classes = {
        "category": (dataset._labels, dataset.classes),
        "binary-category": (dataset._bin_labels, dataset.bin_classes),
        "segmentation": (dataset._segs, ()),
    }[of]
    pairs = zip(dataset._images, beside, strict=True)
    return Targets(dataset, rows, pairs, classes=classes, targets="masks" if of == "segmentation" else "")


def _type_of(dataset: Any, name: str, given: Sequence[str], *taken: str) -> str:
    """Return the type of a dataset's targets. Raises ValueError for one that imgfeed does not give, and for several."""
    if len(given) != 1 or given[0] not in taken:
        raise ValueError(
            f"imgfeed: from_torch: the {type(dataset).__qualname__} has {name}={list(given)}, and imgfeed gives one of "
            f"{', '.join(taken)}: make it with {name}={taken[-1]!r}"
        )
    return given[0]


_SOURCES = {
    "CocoDetection": _coco,
    "VOCDetection": _voc_objects,
    "VOCSegmentation": _voc_masks,
    "Cityscapes": _cityscapes,
    "OxfordIIITPet": _pets,
}
