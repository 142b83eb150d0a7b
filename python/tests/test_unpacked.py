"""A loader of a dataset that is not packed: it is indexed once, into the user's cache, and served from where it is."""

import logging
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from imgfeed import DataLoader, ServerError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two splits of numbered classes, and a cache that is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for split, each in ("train", 3), ("val", 2):
        for number, name in enumerate(["10", "2"]):
            (tmp_path / "data" / split / name).mkdir(parents=True)
            for i in range(each):
                Image.new("RGB", (9, 9), (number * 100, i, 0)).save(tmp_path / "data" / split / name / f"{i}.png")
    return tmp_path / "data"


def load(data: Path, split: str | None = None) -> dict[str, int]:
    """Return the key and label of every sample, and check the pixels."""
    found = {}
    crop = [{"op": "CenterCrop", "size": 9}]
    with DataLoader(data, 4, split=split, transform=crop, with_index=True, framework="numpy") as loader:
        for images, labels, indices in loader:
            assert np.array_equal(images[:, 0, 0, 0], labels * 100)
            found.update({loader.dataset.key(int(i)): int(label) for i, label in zip(indices, labels, strict=True)})
    return found


def test_a_folder_of_images(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Labels are ImageFolder's, a split is chosen by its name, and the index is made once."""
    with caplog.at_level(logging.WARNING):
        assert load(folder, "val") == {f"{name}/{i}.png": label for label, name in enumerate(["10", "2"]) for i in range(2)}
    assert f"{folder} is not packed" in caplog.text
    indexes = folder.parent / "cache" / "imgfeed" / "indexes"
    made = {path: path.stat().st_mtime_ns for path in indexes.rglob("*")}
    assert len(load(folder, "train")) == 6
    assert {path: path.stat().st_mtime_ns for path in indexes.rglob("*")} == made
    assert len(load(folder / "val")) == 4


def test_a_file_that_is_no_image(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is left out. The log of each start says so, with the list, and the fingerprint of the rest. Once whole, it is read."""
    broken = folder / "val" / "2" / "broken.png"
    broken.write_text("text")
    for _ in range(2):
        caplog.clear()
        with DataLoader(folder / "val", 4, transform="eval", framework="numpy") as loader:
            assert len(loader.dataset) == 4
            listed = next((folder.parent / "cache" / "imgfeed" / "indexes").glob("*/rejects.jsonl"))
            assert caplog.text.count(f"1 file is not readable as an image, and left out: {listed}; the samples of val ") == 1
            assert loader.dataset.fingerprint in caplog.text
    Image.new("RGB", (9, 9), (100, 0, 0)).save(broken)
    assert len(load(folder / "val")) == 5


def test_a_dataset_that_cannot_be_indexed(folder: Path) -> None:
    """The error says why, and what to do."""
    archive = folder / "images.tar"
    archive.write_bytes(b"nothing")
    with pytest.raises(ServerError, match=r"images\.tar is not packed, and cannot be indexed: "):
        load(archive)
