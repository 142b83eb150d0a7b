"""Sets whose images were resized when they were packed: the same batches, and a word where they can't be the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import RANDOM, copied, imgshard, same

import imgfeed
from imgfeed import DataLoader

Load = Callable[..., DataLoader]
REUSABLE: list[dict[str, Any]] = [
    {"op": "Resize", "size": 64},
    {"op": "RandomCrop", "size": 48},
    {"op": "RandomHorizontalFlip"},
]


@pytest.fixture(scope="module")
def pixels(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The common set, repacked as pixels of short side 64."""
    out = tmp_path_factory.mktemp("pixels") / "train-pixels"
    imgshard("repack", shards, "-o", out, "--resize", "64")
    return out


def test_pixels_give_the_batches_of_the_originals(load: Load, pixels: Path) -> None:
    options: dict[str, Any] = {"transform": REUSABLE, "shuffle": True, "seed": 9, "with_params": True, "bit_exact": True}
    originals = load(8, **options)
    with DataLoader(pixels, 8, framework="numpy", with_index=True, num_workers=1, **options) as loader:
        assert loader.dataset.fingerprint == originals.dataset.fingerprint
        want = [copied(b) for b in originals]
        assert all(same(a, b) for a, b in zip(want, loader, strict=True))
        originals.set_epoch(0)  # a checkpoint of the one goes on with the other
        for _ in zip(range(3), originals, strict=False):
            loader.load_state_dict(originals.state_dict())
        assert all(same(a, b) for a, b in zip(want[3:], loader, strict=True))


def test_a_transform_that_pixels_cannot_serve_exactly(pixels: Path, caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, Any] = {"framework": "numpy", "transform": RANDOM, "num_workers": 1}
    with DataLoader(pixels, 8, **options) as loader:
        assert len(list(loader)) == len(loader)
    assert "stored with Resize(64" in caplog.text
    with pytest.raises(imgfeed.BadRequestError, match="stored with Resize"):
        DataLoader(pixels, 8, bit_exact=True, **options)
