"""Datasets for detection and segmentation, packed and read back, beside torchvision's own reading of the same files."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import imgshard

from imgfeed import DataLoader

torch = pytest.importorskip("torch", minversion="2.0")
v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")
Image = pytest.importorskip("PIL.Image")

CATEGORIES = [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}, {"id": 3, "name": "car"}]


def picture(path: Path, size: tuple[int, int], seed: int) -> None:
    """Write a smooth image of noise as a JPEG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    small = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(small).resize(size, Image.Resampling.BICUBIC).save(path, quality=92)


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dataset as COCO lays it out, with crowds, images without objects and annotations in any order."""
    root, draw = tmp_path_factory.mktemp("coco"), random.Random(5)
    (root / "annotations").mkdir()
    for split, count in (("train2017", 9), ("val2017", 4)):
        images: list[dict[str, Any]] = []
        objects: list[dict[str, Any]] = []
        for i in range(count):
            w, h, number = draw.randint(40, 200), draw.randint(40, 200), 7 * i + 9
            picture(root / split / f"{number:012d}.jpg", (w, h), number)
            images.append({"id": number, "file_name": f"{number:012d}.jpg", "width": w, "height": h})
            for _ in range(i % 4):
                x, y = round(draw.uniform(0, w - 10), 2), round(draw.uniform(0, h - 10), 2)
                box = [x, y, round(draw.uniform(2, w - x), 2), round(draw.uniform(2, h - y), 2)]
                of = {"id": len(objects) + 1, "image_id": number, "category_id": draw.choice([1, 3, 90])}
                objects.append({**of, "bbox": box, "area": box[2] * box[3], "iscrowd": len(objects) % 3 // 2})
        draw.shuffle(objects)
        said = {"info": {}, "images": images, "annotations": objects, "categories": CATEGORIES}
        (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(said))
        (root / "annotations" / f"captions_{split}.json").write_text(json.dumps({"images": images, "annotations": []}))
    return root


def in_order(path: Path, transform: Any, **options: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield each image with its target, in the order of the set."""
    with DataLoader(path, 3, transform=transform, **options) as loader:
        for images, targets in loader:
            yield from zip(images, targets, strict=True)


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "in its files"])
def test_coco_is_as_torchvision_has_it(coco: Path, tmp_path: Path, packed: bool) -> None:
    """Boxes, labels, numbers and pixels after a flip and a resize are torchvision's, packed or in the files."""
    source = coco
    if packed:
        imgshard("build", coco, "-o", tmp_path / "sets")
        source = tmp_path / "sets"
    said = json.loads((coco / "annotations" / "instances_train2017.json").read_text())
    moves = v2.Compose([v2.RandomHorizontalFlip(p=1), v2.Resize((48, 64))])
    seen = set()
    for image, target in in_order(source, moves, split="train", boxes="xyxy"):
        one = next(one for one in said["images"] if one["id"] == int(target["image_id"]))
        objects = [a for a in said["annotations"] if a["image_id"] == one["id"]]
        xywh = torch.tensor([a["bbox"] for a in objects], dtype=torch.float32).reshape(-1, 4)
        boxes = tv_tensors.BoundingBoxes(xywh, format="XYWH", canvas_size=(one["height"], one["width"]))
        want, wanted = moves(Image.open(coco / "train2017" / one["file_name"]), v2.ConvertBoundingBoxFormat("XYXY")(boxes))
        assert np.array_equal(np.asarray(image), np.asarray(want).transpose(2, 0, 1))
        assert torch.equal(torch.as_tensor(target["boxes"]), torch.as_tensor(wanted))
        assert target["labels"].tolist() == [[1, 3, 90].index(a["category_id"]) for a in objects]
        assert target["iscrowd"].tolist() == [a["iscrowd"] for a in objects]
        assert target["area"].tolist() == torch.tensor([a["area"] for a in objects], dtype=torch.float32).tolist()
        seen.add(one["id"])
    assert seen == {one["id"] for one in said["images"]}


def test_voc_is_as_torchvision_has_it(tmp_path: Path) -> None:
    """Boxes of XML, labels and masks with a palette are those of torchvision's wrapped datasets."""
    root, draw = tmp_path / "VOCdevkit" / "VOC2012", random.Random(3)
    for folder in ("Annotations", "SegmentationClass", "ImageSets/Main", "ImageSets/Segmentation"):
        (root / folder).mkdir(parents=True)
    names = ["aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"]
    names += ["diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"]
    for i in range(5):
        w, h = draw.randint(40, 90), draw.randint(40, 90)
        picture(root / "JPEGImages" / f"2007_{i:06d}.jpg", (w, h), i)
        objects = ""
        for name in names[4 * i : 4 * i + 4]:
            x, y = draw.randint(1, w - 5), draw.randint(1, h - 5)
            box = (x, y, draw.randint(x + 1, w), draw.randint(y + 1, h))
            edges = "".join(f"<{k}>{v}</{k}>" for k, v in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
            objects += f"<object><name>{name}</name><difficult>{i % 2}</difficult><bndbox>{edges}</bndbox></object>"
        said = f"<annotation><size><width>{w}</width><height>{h}</height></size>{objects}</annotation>"
        (root / "Annotations" / f"2007_{i:06d}.xml").write_text(said)
        labels = np.random.default_rng(i).choice(np.array([0, 1, 15, 255], np.uint8), (h, w))
        mask = Image.fromarray(labels, mode="P")
        mask.putpalette(np.random.default_rng(7).integers(0, 256, 768, dtype=np.uint8).tobytes())
        mask.save(root / "SegmentationClass" / f"2007_{i:06d}.png")
    for kind in ("Main", "Segmentation"):
        (root / "ImageSets" / kind / "train.txt").write_text("".join(f"2007_{i:06d}\n" for i in range(5)))
    datasets = pytest.importorskip("torchvision.datasets")
    moves = v2.Compose([v2.RandomVerticalFlip(p=1), v2.Resize((37, 51))])
    wrapped = datasets.wrap_dataset_for_transforms_v2(datasets.VOCDetection(tmp_path, image_set="train"))
    masks = datasets.wrap_dataset_for_transforms_v2(datasets.VOCSegmentation(tmp_path, image_set="train", transforms=moves))
    imgshard("build", tmp_path / "VOCdevkit", "--targets", "both", "-o", tmp_path / "set")
    keys = [line.split("\t")[1] for line in imgshard("ls", tmp_path / "set").splitlines()]
    for key, (image, target) in zip(keys, in_order(tmp_path / "set", moves, boxes="xyxy", shuffle=False), strict=True):
        i = int(Path(key).stem[5:])
        read, said_by_torch = wrapped[i]
        whole = said_by_torch["boxes"]  # int64, which a resize would round down
        want, boxes = moves(read, tv_tensors.wrap(whole.float(), like=whole))
        assert np.array_equal(np.asarray(image), np.asarray(want).transpose(2, 0, 1))
        assert torch.equal(torch.as_tensor(target["boxes"]), torch.as_tensor(boxes))
        assert torch.equal(target["labels"] + 1, said_by_torch["labels"])  # torchvision's 0 is the background
        assert torch.equal(torch.as_tensor(target["mask"]), torch.as_tensor(masks[i][1])[0])
