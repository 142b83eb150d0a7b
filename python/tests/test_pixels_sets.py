"""Sets of the encoding pixels: the same batches as from the JPEGs, and a refusal where they can't be the same."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import copied, imgshard, same

import imgfeed
from imgfeed import DataLoader

STORED: list[dict[str, Any]] = [{"op": "Resize", "size": 48}, {"op": "RandomCrop", "size": 32}, {"op": "RandomHorizontalFlip"}]


@pytest.fixture(scope="module")
def pixels(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The JPEGs' set, repacked."""
    out = tmp_path_factory.mktemp("pixels") / "train-pixels"
    imgshard("repack", shards, "-o", out, "--resize", "48")
    return out


def epoch(source: Path, **options: Any) -> list[Any]:
    """Return copies of all arrays of an epoch."""
    with DataLoader(
        source, 16, shuffle=True, seed=3, framework="numpy", with_index=True, with_params=True, **options
    ) as loader:
        return [np.array(array) for batch in loader for array in batch]


def test_batches_are_those_of_the_jpegs(load: Callable[..., DataLoader], pixels: Path) -> None:
    options: dict[str, Any] = {"transform": STORED, "shuffle": True, "seed": 9, "with_params": True, "bit_exact": True}
    originals = load(8, **options)
    want = [copied(batch) for batch in originals]
    with DataLoader(pixels, 8, framework="numpy", with_index=True, num_workers=1, **options) as loader:
        assert loader.dataset.fingerprint == originals.dataset.fingerprint
        assert all(same(a, b) for a, b in zip(want, loader, strict=True))
        originals.set_epoch(0)  # a checkpoint of the one goes on with the other
        for _ in zip(range(3), originals, strict=False):
            loader.load_state_dict(originals.state_dict())
        assert all(same(a, b) for a, b in zip(want[3:], loader, strict=True))


def test_batches_of_another_resampler_are_refused(shards: Path, pixels: Path, tmp_path: Path) -> None:
    with pytest.raises(imgfeed.BadRequestError, match="by the resampler pillow-13"):
        DataLoader(pixels, 16, transform=STORED, bit_exact=True, resampler="pillow-12")
    older = tmp_path / "older"
    imgshard("repack", shards, "-o", older, "--resize", "48", "--resampler", "pillow-12")
    options: dict[str, Any] = {"transform": STORED, "resampler": "pillow-12"}
    want, got = epoch(shards, **options), epoch(older, bit_exact=True, **options)
    assert all(np.array_equal(a, b) for a, b in zip(want, got, strict=True))


def test_other_transforms_are_noted_or_refused(pixels: Path, caplog: pytest.LogCaptureFixture) -> None:
    train = [{"op": "RandomResizedCrop", "size": 32}]
    with caplog.at_level(logging.WARNING, logger="imgfeed"):
        epoch(pixels, transform=train)
    assert sum("Resize(48, bilinear)" in message for message in caplog.messages) == 1
    with pytest.raises(imgfeed.BadRequestError, match="RandomResizedCrop"):
        DataLoader(pixels, 16, transform=train, bit_exact=True)
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="imgfeed"):
        assert min(imgfeed.Dataset(pixels)[0][0].size) == 48
    assert caplog.messages == [], "of the crop that Dataset asks for, as it needs no images of batches"
