"""Training programs as published, with the patches in examples/: on one process and two, and resumed.

None is part of this repository or of a package. `make published` brings them, from GitHub or from Debian's sources.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import needs
import pytest
from conftest import SAMPLES

from programs.conftest import plain, run

pytest.importorskip("timm")
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
def test_timms_train(data: Path, shards: Path, tmp_path: Path, processes: int) -> None:
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
