"""imgfeed.Dataset: a set's samples one by one, and in torch's DataLoader."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from conftest import SAMPLES, imgshard
from PIL import Image

import imgfeed


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image)


def test_samples_are_the_files(shards: Path, images: Path) -> None:
    dataset = imgfeed.Dataset(shards)
    assert len(dataset) == SAMPLES
    assert repr(dataset) == f"imgfeed.Dataset({str(shards)!r}, split='train'): {SAMPLES} samples"
    seen = set()
    for i in range(len(dataset)):
        image, label = dataset[i]
        path = images / dataset.key(i)
        assert dataset.file(i) == path.read_bytes()
        assert (pixels(image) == pixels(Image.open(path).convert("RGB"))).all()
        assert dataset.classes[label] == path.parent.name
        seen.add(path)
    assert len(seen) == SAMPLES
    assert (pixels(dataset[-1][0]) == pixels(dataset[SAMPLES - 1][0])).all()
    for wrong in (SAMPLES, -SAMPLES - 1):
        with pytest.raises(IndexError, match=str(wrong)):
            dataset[wrong]
    assert sum(1 for _ in dataset) == SAMPLES, "an iteration ends"
    dataset.close()
    assert dataset[0][1] == dataset.targets[0], "and starts again"
    dataset.close()


def test_transforms_and_pickle(shards: Path) -> None:
    dataset = imgfeed.Dataset(shards, transform=pixels, target_transform=str)
    again = pickle.loads(pickle.dumps(dataset))
    assert again[3][1] == dataset[3][1] == str(dataset.targets[3])
    assert (again[3][0] == dataset[3][0]).all()
    again.close()
    dataset.close()


def test_pixels_keep_no_files(shards: Path, tmp_path: Path) -> None:
    imgshard("repack", shards, "-o", tmp_path / "pixels", "--encoding", "pixels", "--resize", "32")
    dataset = imgfeed.Dataset(tmp_path / "pixels")
    assert min(dataset[0][0].size) == 32
    with pytest.raises(imgfeed.UnsupportedError, match="keeps no files"):
        dataset.file(0)
    dataset.close()


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_in_torchs_loader(shards: Path, start: str) -> None:
    data = pytest.importorskip("torch.utils.data")
    dataset = imgfeed.Dataset(shards, transform=_corner)
    loader = data.DataLoader(dataset, 8, shuffle=True, num_workers=2, multiprocessing_context=start)
    got = sorted(
        (tuple(c), label) for corners, labels in loader for c, label in zip(corners.tolist(), labels.tolist(), strict=True)
    )
    want = sorted((tuple(_corner(image).tolist()), label) for image, label in imgfeed.Dataset(shards))
    assert got == want


def _corner(image: Image.Image) -> np.ndarray:
    return np.asarray(image)[0, 0].astype(np.int64)
