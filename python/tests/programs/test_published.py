"""Training programs as published, with the patches in examples/: on one process and two, and resumed.

None is part of this repository or of a package. `make published` brings them, from GitHub or from Debian's sources.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import needs
import pytest
from conftest import SAMPLES, imgshard
from test_detection_data import coco  # noqa: F401 - it is a fixture, as the next one
from test_from_torch_targets import voc  # noqa: F401

from programs.conftest import plain, run

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = Path(os.environ.get("IMGFEED_TEST_PUBLISHED", ROOT / "build/published"))
EPOCHS = 2
TRAIN = ("--epochs", str(EPOCHS), "--batch-size", "8", "--workers", "1", "--device", "cpu")


@pytest.fixture
def data(images: Path, shards: Path, tmp_path: Path) -> Path:
    """A dataset as both programs want it, with the sets that the patches want beside."""
    folder = tmp_path / "data"
    folder.mkdir()
    for split in ("train", "val"):
        (folder / split).symlink_to(images)
        (folder / f"{split}-shards").symlink_to(shards)
    return folder


def patched(program: str, patch: str, tmp_path: Path) -> str:
    """Return the path of a published program with an example's patch applied; skips the test where it is not there."""
    source = PUBLISHED / program
    if not source.is_file():
        pytest.skip(f"needs {program}: make published")
    folder = tmp_path / "program"
    shutil.copytree(source.parent, folder, ignore=lambda _, names: [n for n in names if not n.endswith(".py")])
    subprocess.run([needs.program("git"), "apply", str(ROOT / "examples" / patch)], cwd=folder, check=True)
    return str(folder / source.name)


def noted_of(shards: Path, rank: int, processes: int, first: int = 0) -> list[list[list[Any]]]:
    """Return what the loaders of a rank note that train in any order, and validate each sample once."""
    order = plain(shards, rank, processes, EPOCHS, shuffle=True)
    val = plain(shards, rank, processes, EPOCHS - first, even_batches=False)
    return [whole_epochs(order, first), whole_epochs(val)]


def whole_epochs(batches: list[list[list[int]]], first: int = 0) -> list[list[Any]]:
    """Return what a loader notes that gives these epochs."""
    return [[epoch, batch] for epoch, of in enumerate(batches) if epoch >= first for batch in of]


@pytest.mark.parametrize("processes", [1, 2])
def test_torchvisions_reference(data: Path, shards: Path, tmp_path: Path, processes: int) -> None:
    program = patched("vision/references/classification/train.py", "torchvision/train.patch", tmp_path)
    sizes = ("--train-crop-size", "32", "--val-resize-size", "40", "--val-crop-size", "32")
    arguments = (program, "--data-path", "{data}", "--output-dir", "{out}", "--model", "squeezenet1_1", *TRAIN, *sizes)
    ranks = run("published.py", data, tmp_path / "whole", processes, *arguments)
    for rank, noted in enumerate(ranks):
        assert noted["loaders"] == noted_of(shards, rank, processes)
        assert not [
            said for said in noted["warnings"] if "It looks like the dataset has" in said
        ]  # as when not all are counted
    validated = sorted(i for noted in ranks for epoch, batch in noted["loaders"][1] if epoch == 0 for i in batch)
    assert validated == list(range(len(validated)))
    if processes == 2:
        checkpoint = str(tmp_path / "whole" / "model_0.pth")
        again = run("published.py", data, tmp_path / "resumed", processes, *arguments, "--resume", checkpoint)
        for rank, rest in enumerate(again):
            assert rest["loaders"] == noted_of(shards, rank, processes, 1)


@pytest.mark.parametrize("processes", [1, 2])
def test_main_of_pytorchs_examples(data: Path, shards: Path, tmp_path: Path, processes: int) -> None:
    program = patched("examples/imagenet/main.py", "imagenet/main.patch", tmp_path)
    arguments = (program, "{data}", "--arch", "squeezenet1_1", "--epochs", str(EPOCHS), "--batch-size", "8", "--workers", "1")
    arguments += ("--no-accel", *(("--dist-url", "env://") if processes == 2 else ()))
    ranks = run("published.py", data, tmp_path / "whole", processes, *arguments)
    for rank, noted in enumerate(ranks):
        assert noted["loaders"] == noted_of(shards, rank, processes)
    validated = sorted(i for noted in ranks for epoch, batch in noted["loaders"][1] if epoch == 0 for i in batch)
    assert validated == list(range(SAMPLES))
    checkpoint = tmp_path / "whole" / "checkpoint.pth.tar"
    again = run("published.py", data, tmp_path / "resumed", processes, *arguments, "--resume", str(checkpoint), "--epochs", "3")
    assert [epoch for epoch, _ in again[0]["loaders"][0]] == [EPOCHS] * len(plain(shards, 0, processes, 1)[0])


@pytest.mark.parametrize("processes", [1, 2])
def test_torchvisions_detection(coco: Path, tmp_path: Path, processes: int) -> None:  # noqa: F811
    """SSDlite learns boxes of imgfeed, and COCO's own evaluation knows its labels."""
    pytest.importorskip("pycocotools")
    program = patched("vision/references/detection/train.py", "detection/train.patch", tmp_path)
    data = tmp_path / "coco"
    shutil.copytree(coco, data)
    imgshard("build", data, "--drop-crowd", "--drop-empty", "-o", f"{data}-shards")
    for file in (data / "annotations").glob("instances_*.json"):  # torchvision's own loader, which evaluates, wants polygons
        said = json.loads(file.read_text())
        for one in said["annotations"]:
            x, y, w, h = one["bbox"]
            one["segmentation"] = [[x, y, x + w, y, x + w, y + h]]
        file.write_text(json.dumps(said))
    model = ("--model", "ssdlite320_mobilenet_v3_large", "--aspect-ratio-group-factor", "-1", "--lr", "0.01")
    arguments = (program, "--data-path", "{data}", "--output-dir", "{out}", *model, *TRAIN[:2], "--batch-size", "3", *TRAIN[4:])
    for rank, noted in enumerate(run("published.py", data, tmp_path / "whole", processes, *arguments)):
        order = plain(Path(f"{data}-shards"), rank, processes, EPOCHS, 3, split="train", shuffle=True, drop_last=True)
        assert noted["loaders"] == [whole_epochs(order)] and order[0]
    assert (tmp_path / "whole" / "model_1.pth").is_file()


@pytest.mark.parametrize("processes", [1, 2])
def test_torchvisions_segmentation(voc: Path, tmp_path: Path, processes: int) -> None:  # noqa: F811
    """LR-ASPP learns masks of imgfeed."""
    pytest.importorskip("pycocotools")  # the program imports it
    program = patched("vision/references/segmentation/train.py", "segmentation/train.patch", tmp_path)
    data = tmp_path / "voc"
    shutil.copytree(voc, data)
    lists = data / "VOCdevkit" / "VOC2012" / "ImageSets" / "Segmentation"
    shutil.copy(lists / "train.txt", lists / "val.txt")
    imgshard("build", data / "VOCdevkit", "--targets", "masks", "-o", data / "VOCdevkit-shards")
    model = ("--dataset", "voc", "--model", "lraspp_mobilenet_v3_large", "--lr", "0.01", "--batch-size", "3")
    arguments = (program, "--data-path", "{data}", "--output-dir", "{out}", *model, *TRAIN[:2], *TRAIN[4:])
    for rank, noted in enumerate(run("published.py", data, tmp_path / "whole", processes, *arguments)):
        shards = data / "VOCdevkit-shards"
        order = plain(shards, rank, processes, EPOCHS, 3, split="train", shuffle=True, drop_last=True)
        val = plain(shards, rank, processes, EPOCHS, 1, split="val", even_batches=False)
        assert noted["loaders"] == [whole_epochs(order), whole_epochs(val)] and order[0]
    assert (tmp_path / "whole" / "model_1.pth").is_file()


@pytest.mark.parametrize("processes", [1, 2])
def test_timms_train(data: Path, shards: Path, tmp_path: Path, processes: int) -> None:
    pytest.importorskip("timm")
    program = patched("pytorch-image-models/train.py", "timm/train.patch", tmp_path)
    given = ("--aa", "rand-m9-mstd0.5-inc1", "--input-size", "3", "32", "32", "--warmup-epochs", "0")
    arguments = (program, "--data-dir", "{data}", "--output", "{out}", "--model", "test_resnet", "--num-classes", "5", *given)
    arguments += (*TRAIN, "--experiment", "it", "--cooldown-epochs", "0")
    ranks = run("published.py", data, tmp_path / "whole", processes, *arguments)
    checkpoint = str(tmp_path / "whole" / "it" / "checkpoint-0.pth.tar")
    again = run("published.py", data, tmp_path / "resumed", processes, *arguments, "--resume", checkpoint)
    for rank, (noted, rest) in enumerate(zip(ranks, again, strict=True)):
        order = plain(shards, rank, processes, EPOCHS, shuffle=True, seed=42, drop_last=True)
        val = plain(shards, rank, processes, EPOCHS)
        assert noted["loaders"] == [whole_epochs(order), whole_epochs(val)]
        assert rest["loaders"] == [whole_epochs(order, 1), whole_epochs(val[:1])]
