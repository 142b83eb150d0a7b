"""from_torch takes torchvision's datasets for detection and segmentation: compared with what torch's loader gives of them."""

import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import installed_resampler

from imgfeed import DataLoader, from_torch

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision.tv_tensors")
from PIL import Image  # noqa: E402
from torch.utils import data  # noqa: E402
from torchvision import datasets, tv_tensors  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

COUNT = 7
#: Moves boxes and masks, draws nothing, and gives all images one size.
SIZED = v2.Compose([v2.RandomHorizontalFlip(1), v2.Resize((40, 56)), v2.ToImage()])
RNG = np.random.default_rng(5)
SIZES = [(int(w), int(h)) for w, h in RNG.integers(50, 90, (COUNT, 2))]


class Coco:
    """As much of pycocotools' COCO as torchvision asks for."""

    def __init__(self, file: str) -> None:
        read = json.loads(Path(file).read_text())
        self.imgs, self.cats = ({one["id"]: one for one in read[name]} for name in ("images", "categories"))
        self.anns = {one["id"]: one for one in read["annotations"]}

    def loadImgs(self, image: int) -> list[Any]:  # noqa: N802
        return [self.imgs[image]]

    def getAnnIds(self, image: int) -> list[int]:  # noqa: N802
        return [number for number, one in self.anns.items() if one["image_id"] == image]

    def loadAnns(self, numbers: list[int]) -> list[Any]:  # noqa: N802
        return [self.anns[number] for number in numbers]


def photographs(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True)
    for name, (width, height) in zip(names, SIZES, strict=True):
        (folder / name).parent.mkdir(exist_ok=True)
        Image.fromarray(RNG.integers(0, 256, (height, width, 3), np.uint8)).save(folder / name)


def masks(folder: Path, names: list[str], labels: int, mode: str = "L") -> None:
    folder.mkdir(parents=True)
    for name, (width, height) in zip(names, SIZES, strict=True):
        (folder / name).parent.mkdir(exist_ok=True)
        mask = Image.fromarray(RNG.integers(0, labels, (height, width), np.uint8))
        if mode == "P":
            mask.putpalette(list(range(256)) * 3)
        mask.save(folder / name)


def boxes(i: int) -> list[list[int]]:
    """The boxes of an image, from left and top to right and bottom."""
    return [[3 + k, 5, 20 + 2 * k, 30 + k] for k in range(1 + i % 3)]


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("coco")
    names = [f"{i}.jpg" for i in range(COUNT)]
    photographs(root / "train2017", names)
    images = [{"id": 100 - 9 * i, "file_name": name, "width": w, "height": h} for i, (name, (w, h)) in
              enumerate(zip(names, SIZES, strict=True))]  # fmt: skip
    of = [(image, box) for i, image in enumerate(images) for box in boxes(i)]
    anns = [{"id": k, "image_id": image["id"], "bbox": [x, y, r - x, b - y], "category_id": (1, 3, 9)[k % 3], "area": 7.5 * k,
             "iscrowd": int(k % 5 == 0), "segmentation": []} for k, (image, (x, y, r, b)) in enumerate(of)]  # fmt: skip
    categories = [{"id": 1, "name": "cat"}, {"id": 3, "name": "dog"}, {"id": 9, "name": "cow"}]
    (root / "instances.json").write_text(json.dumps({"images": images, "annotations": anns, "categories": categories}))
    if importlib.util.find_spec("pycocotools") is None:
        module = types.ModuleType("pycocotools.coco")
        module.COCO = Coco
        sys.modules.setdefault("pycocotools", types.ModuleType("pycocotools"))
        sys.modules["pycocotools.coco"] = module
    return lambda **given: datasets.CocoDetection(root / "train2017", str(root / "instances.json"), **given)


@pytest.fixture(scope="module")
def voc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("voc")
    base = root / "VOCdevkit" / "VOC2012"
    names = [f"2007_{i:06d}" for i in range(COUNT)]
    photographs(base / "JPEGImages", [f"{name}.jpg" for name in names])
    masks(base / "SegmentationClass", [f"{name}.png" for name in names], 21, "P")
    (base / "Annotations").mkdir()
    for i, name in enumerate(names):
        objects = "".join(
            f"<object><name>{('dog', 'tvmonitor', 'aeroplane')[k]}</name><bndbox><xmin>{x}</xmin><ymin>{y}</ymin>"
            f"<xmax>{r}</xmax><ymax>{b}</ymax></bndbox></object>"
            for k, (x, y, r, b) in enumerate(boxes(i))
        )
        (base / "Annotations" / f"{name}.xml").write_text(f"<annotation><filename>{name}.jpg</filename>{objects}</annotation>")
    for kind in ("Main", "Segmentation"):
        (base / "ImageSets" / kind).mkdir(parents=True)
        (base / "ImageSets" / kind / "train.txt").write_text("\n".join(names) + "\n")
    return root


@pytest.fixture(scope="module")
def cityscapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cityscapes")
    names = [f"{'ulm' if i % 2 else 'bonn'}/x_{i:06d}_000019" for i in range(COUNT)]
    photographs(root / "leftImg8bit" / "train", [f"{name}_leftImg8bit.png" for name in names])
    masks(root / "gtFine" / "train", [f"{name}_gtFine_labelIds.png" for name in names], 34)
    return root


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pets")
    base = root / "oxford-iiit-pet"
    names = [f"{('Abyssinian', 'beagle', 'Bengal')[i % 3]}_{i}" for i in range(COUNT)]
    photographs(base / "images", [f"{name}.jpg" for name in names])
    masks(base / "annotations" / "trimaps", [f"{name}.png" for name in names], 4)
    lines = [f"{name} {i % 3 + 1} {1 + (i % 3 == 1)} 1" for i, name in enumerate(names)]
    (base / "annotations" / "trainval.txt").write_text("\n".join(lines) + "\n")
    return root


def loader_of(dataset: Any, cache: Path, **given: Any) -> DataLoader:
    theirs = data.DataLoader(dataset, 3, collate_fn=lambda batch: tuple(zip(*batch, strict=True)))
    return from_torch(theirs, cache=cache, num_workers=1, resampler=installed_resampler(), **given)


def sample(dataset: Any, i: int) -> Any:
    """Return what the dataset gives with boxes in float32, as imgfeed has them: torchvision keeps whole numbers, and rounds."""
    if isinstance(dataset, data.Subset):
        return sample(dataset.dataset, dataset.indices[i])
    transforms, dataset.transforms = dataset.transforms, None
    image, target = dataset[i]
    dataset.transforms = transforms
    if isinstance(target, dict) and "boxes" in target:
        target["boxes"] = tv_tensors.wrap(target["boxes"].float(), like=target["boxes"])
    return transforms(image, target)


def alike(dataset: Any, cache: Path, **given: Any) -> list[Any]:
    """Compare every sample with the dataset's own, and return the targets."""
    with loader_of(dataset, cache, **given) as loader:
        samples = [one for images, targets in loader for one in zip(images, targets, strict=True)]
        assert len(samples) == len(dataset)
        for i, (image, target) in enumerate(samples):
            want_image, want = sample(dataset, i)
            assert torch.equal(image, want_image)
            if isinstance(want, dict):
                assert want.keys() <= target.keys()
                for name, value in want.items():
                    assert target[name] == value if name == "image_id" else torch.equal(target[name], value), name
                assert target["boxes"].format == want["boxes"].format
                assert target["boxes"].canvas_size == want["boxes"].canvas_size
            else:
                assert torch.equal(torch.as_tensor(target), torch.as_tensor(want).reshape(np.shape(target)))
        return [target for _, target in samples]


def test_coco(coco: Any, tmp_path: Path) -> None:
    """Labels are COCO's ids, and area and iscrowd come beside them."""
    wrapped = datasets.wrap_dataset_for_transforms_v2(coco(transforms=SIZED))
    targets = alike(wrapped, tmp_path)
    areas = [ann["area"] for i in wrapped.ids for ann in wrapped.coco.loadAnns(wrapped.coco.getAnnIds(i))]
    assert torch.cat([of["area"] for of in targets]).tolist() == areas
    alike(data.Subset(wrapped, [4, 0, 5]), tmp_path)
    keys = ["boxes", "labels", "image_id"]
    alike(datasets.wrap_dataset_for_transforms_v2(coco(transforms=SIZED), target_keys=keys), tmp_path)
    with loader_of(coco(), tmp_path, transform=SIZED) as loader:
        assert [of["labels"].tolist() for _, targets in loader for of in targets] == [of["labels"].tolist() for of in targets]
        assert loader.dataset.classes[1:4] == ["cat", "no category 2", "dog"] and len(loader.dataset.classes) == 10


def test_the_format_of_boxes_in_which_transforms_end(coco: Any, tmp_path: Path) -> None:
    ends = v2.Compose([SIZED, v2.ClampBoundingBoxes(), v2.ConvertBoundingBoxFormat("CXCYWH")])
    alike(datasets.wrap_dataset_for_transforms_v2(coco(transforms=ends)), tmp_path)
    with loader_of(datasets.wrap_dataset_for_transforms_v2(coco(transforms=ends)), tmp_path, boxes="xywh") as loader:
        assert next(iter(loader))[1][0]["boxes"].format.name == "XYWH"


def test_voc(voc: Path, tmp_path: Path) -> None:
    alike(datasets.wrap_dataset_for_transforms_v2(datasets.VOCDetection(voc, transforms=SIZED)), tmp_path)
    alike(datasets.wrap_dataset_for_transforms_v2(datasets.VOCSegmentation(voc, transforms=SIZED)), tmp_path)


def test_cityscapes(cityscapes: Path, tmp_path: Path) -> None:
    """Masks have torchvision's labelIds, not the trainIds."""
    dataset = datasets.Cityscapes(cityscapes, target_type="semantic", transforms=SIZED)
    alike(datasets.wrap_dataset_for_transforms_v2(dataset), tmp_path)
    with loader_of(dataset, tmp_path, transform=SIZED) as loader:
        assert loader.dataset.classes[7] == "road" and len(loader.dataset.classes) == 34


@pytest.mark.parametrize("of", ["category", "binary-category", "segmentation"])
def test_pets(pets: Path, tmp_path: Path, of: str) -> None:
    alike(datasets.wrap_dataset_for_transforms_v2(datasets.OxfordIIITPet(pets, target_types=of, transforms=SIZED)), tmp_path)
    if of != "segmentation":
        alike(datasets.OxfordIIITPet(pets, target_types=of, transform=SIZED), tmp_path)


def test_a_changed_mask_is_packed_anew(pets: Path, tmp_path: Path) -> None:
    dataset = datasets.OxfordIIITPet(pets, target_types="segmentation", transforms=SIZED)
    wrapped = datasets.wrap_dataset_for_transforms_v2(dataset)
    alike(wrapped, tmp_path)
    path = pets / "oxford-iiit-pet" / "annotations" / "trimaps" / "beagle_1.png"
    before = path.read_bytes()
    try:
        Image.new("L", SIZES[1], 2).save(path)
        assert set(alike(wrapped, tmp_path)[1].flatten().tolist()) == {2}
    finally:
        path.write_bytes(before)


def wrapped(dataset: Any, **given: Any) -> Any:
    return datasets.wrap_dataset_for_transforms_v2(dataset, **given)


VOC_DETECTION, VOC_MASKS, PETS = datasets.VOCDetection, datasets.VOCSegmentation, datasets.OxfordIIITPet


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda s: wrapped(s.coco(transforms=SIZED), target_keys=["masks", "boxes"]), "target_keys .*: masks: take those of"),
        (lambda s: wrapped(s.coco(transforms=SIZED), target_keys="all"), "does not give: all"),
        (lambda s: wrapped(VOC_DETECTION(s.voc, transforms=SIZED), target_keys=["annotation"]), "does not give: annotation"),
        (lambda s: datasets.Cityscapes(s.cityscapes, target_type="instance"), r"\['instance'\].*target_type='semantic'"),
        (lambda s: datasets.Cityscapes(s.cityscapes, target_type=["semantic", "color"]), r"\['semantic', 'color'\]"),
        (lambda s: PETS(s.pets, target_types=["category", "segmentation"]), "gives one of category, binary"),
        (lambda s: PETS(s.pets, target_types=[]), r"target_types=\[\]"),
        (lambda s: VOC_MASKS(s.voc, transform=SIZED), "has transform=, which leaves boxes and masks"),
        (lambda s: wrapped(VOC_MASKS(s.voc, transform=SIZED)), "has transform=, which leaves boxes and masks"),
        (lambda s: VOC_DETECTION(s.voc, target_transform=len), "target_transform"),
        (lambda s: s.coco(transforms=SIZED), "say with transform="),
        (lambda s: wrapped(s.coco(transforms=v2.Compose([SIZED, v2.RandomPerspective()]))), "objects follow imgfeed's own"),
    ],
)
def test_what_is_not_given_is_refused_by_name(
    make: Any, words: str, coco: Any, voc: Path, cityscapes: Path, pets: Path, tmp_path: Path
) -> None:
    sources = types.SimpleNamespace(coco=coco, voc=voc, cityscapes=cityscapes, pets=pets)
    with pytest.raises(ValueError, match=f"from_torch: .*{words}"):
        loader_of(make(sources), tmp_path)
    assert not list(tmp_path.iterdir())


def test_captions_have_code_of_their_own(coco: Any, tmp_path: Path) -> None:
    dataset = coco()
    dataset.__class__ = datasets.CocoCaptions
    with pytest.raises(ValueError, match="CocoCaptions has code of its own in _load_target"):
        loader_of(dataset, tmp_path, transform=SIZED)


def test_a_category_far_out_is_refused(coco: Any, tmp_path: Path) -> None:
    dataset = coco()
    dataset.coco.cats[10**7] = {"id": 10**7, "name": "far"}
    with pytest.raises(ValueError, match="category ids up to 10000000"):
        loader_of(dataset, tmp_path, transform=SIZED)


def test_a_wrapped_folder_of_images(images: Path, tmp_path: Path) -> None:
    alike(wrapped(datasets.ImageFolder(str(images), SIZED)), tmp_path)
