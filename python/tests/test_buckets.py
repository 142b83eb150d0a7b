"""Buckets: every batch has images of one size, and holds for the rest what all loaders hold."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import imgshard, installed_resampler

import imgfeed
from imgfeed import DataLoader, ServerError, StateError
from imgfeed._arguments.kinds import BUCKETS

SIZES = [(40, 20), (30, 30), (28, 32), (20, 40)]
CROP = [{"op": "RandomResizedCrop", "size": 224, "scale": [1, 1]}, {"op": "RandomHorizontalFlip"}]
RANDOM = [{"op": "RandomResizedCrop", "size": 224, "scale": [0.5, 1]}, {"op": "RandomHorizontalFlip"}]
OPTIONS: dict[str, Any] = {
    "transform": CROP, "framework": "numpy", "num_workers": 1, "with_index": True, "shuffle": True, "seed": 3,
    "buckets": SIZES, "fields": ["height", "width"],
}  # fmt: skip


@pytest.fixture(scope="module")
def various(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of images of many aspect ratios."""
    pillow = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("various")
    rng = np.random.default_rng(1)
    for i in range(83):
        (folder / "images" / f"c{i % 3}").mkdir(parents=True, exist_ok=True)
        height, width = (int(n) for n in rng.integers(24, 90, 2))
        pixels = rng.integers(0, 256, (height // 4 + 1, width // 4 + 1, 3), np.uint8)
        pillow.fromarray(pixels).resize((width, height)).save(folder / "images" / f"c{i % 3}" / f"{i}.jpg")
    imgshard("build", folder / "images", "-o", folder / "shards")
    return folder / "shards"


def nearest(height: int, width: int) -> tuple[int, int]:
    return min(SIZES, key=lambda size: abs(np.log(size[1] / size[0]) - np.log(width / height)))


def batches(loader: DataLoader) -> list[tuple[tuple[int, ...], list[int], bytes]]:
    """Return shape, indices and pixels of the batches."""
    return [(images.shape, indices.tolist(), images.tobytes()) for images, _, _, _, indices in loader]


@pytest.mark.parametrize("transport", ["shm", "socket"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_batch_has_one_size_and_each_sample_comes_once(various: Path, transport: str, layout: str) -> None:
    with DataLoader(various, 6, **OPTIONS, even_batches=False, transport=transport, layout=layout) as loader:
        orders = []
        for _ in range(2):
            order = []
            lengths: dict[tuple[int, ...], list[int]] = {}
            for images, labels, heights, widths, indices in loader:
                size = images.shape[1:3] if layout == "NHWC" else images.shape[2:]
                assert {nearest(h, w) for h, w in zip(heights.tolist(), widths.tolist(), strict=True)} == {size}
                assert len(images) == len(labels) == len(indices) <= 6
                lengths.setdefault(size, []).append(len(images))
                order += indices.tolist()
            assert sorted(order) == list(range(83)) and len(lengths) == 4
            assert all(sum(n < 6 for n in of) <= 1 for of in lengths.values())
            orders.append(order)
            assert order == list(loader.sampler) or loader.sampler.epoch > len(orders) - 1
        assert orders[0] != orders[1] and len(loader) == sum(map(len, lengths.values()))
        loader.set_epoch(0)
        assert list(loader.sampler) == orders[0] and len(loader.sampler) == 83
        with pytest.raises(TypeError, match="can't list batches of buckets"):
            next(iter(loader.batch_sampler))


def test_pixels_are_those_of_the_largest_crop(various: Path) -> None:
    functional = pytest.importorskip("torchvision.transforms.functional")
    options = {**OPTIONS, "resampler": installed_resampler(), "transform": CROP[:1], "with_params": True}
    with DataLoader(various, 8, **options) as loader:
        for images, _, heights, widths, indices, params in loader:
            size = images.shape[1:3]
            for image, index, h, w, drawn in zip(images, indices, heights, widths, params, strict=True):
                original, _ = loader.dataset[int(index)]
                assert original.size == (w, h)
                top, left, height, width = drawn[:4].tolist()
                assert (height, width) == pytest.approx((min(h, w * size[0] / size[1]), min(w, h * size[1] / size[0])), abs=1)
                want = functional.resized_crop(original, top, left, height, width, list(size))
                assert np.array_equal(np.asarray(want), image)


@pytest.mark.parametrize("world", [1, 2, 3, 5, 8])
def test_any_world_has_the_same_batches_and_goes_on_at_each(various: Path, world: int) -> None:
    options = {**OPTIONS, "transform": RANDOM}
    with DataLoader(various, 5, **options, even_batches=False) as loader:
        whole = batches(loader)
    ranks = [DataLoader(various, 5, **options, even_batches=False, rank=rank, world=world) for rank in range(world)]
    try:
        assert sum(map(len, ranks)) == len(whole)
        dealt: list[Any] = [None] * len(whole)
        for rank, loader in enumerate(ranks):
            dealt[rank::world] = batches(loader)
        assert dealt == whole
        ranks[0].set_epoch(0)
        states = [(world * n, ranks[0].state_dict()) for n, _ in enumerate(ranks[0], 1)]
        with DataLoader(various, 5, **options, even_batches=False) as other:
            for done, state in states[:-1:2]:
                other.load_state_dict(state)
                assert batches(other) == whole[done:]
            other.set_epoch(0)
            iteration = iter(other)
            next(iteration)
            other.skip(3)
            assert [indices.tolist() for *_, indices in iteration] == [indices for _, indices, _ in whole[4:]]
    finally:
        for loader in ranks:
            loader.close()


def test_remainders(various: Path) -> None:
    with DataLoader(various, 6, **OPTIONS, even_batches=False) as loader:
        whole = batches(loader)
    full = [b for b in whole if len(b[1]) == 6]
    for world in (1, 2, 3):
        for policy in ({"drop_last": True}, {}):
            seen: Counter[int] = Counter()
            lengths = []
            for rank in range(world):
                with DataLoader(various, 6, **OPTIONS, **policy, rank=rank, world=world) as loader:
                    got = batches(loader)
                    assert len(got) == len(loader)
                    seen.update(i for _, indices, _ in got for i in indices)
                    lengths.append([len(indices) for _, indices, _ in got])
            if policy:
                assert set(map(len, lengths)) == {len(full) // world} and {n for of in lengths for n in of} == {6}
                assert max(seen.values()) == 1
            else:
                assert set(map(len, lengths)) == {-(-len(whole) // world)} and len(seen) == 83
                assert sum(seen.values()) - 83 <= 6 * world


def test_views_a_lost_server_and_unshuffled(various: Path) -> None:
    views = {"views": [CROP, {"repeat": 2, "ops": RANDOM}]}
    with DataLoader(various, 6, **{**OPTIONS, "shuffle": False, "transform": views, "slots": 3}) as loader:
        want = [([image.tobytes() for image in images], indices.tolist()) for images, *_, indices in loader]
        assert sorted(i for _, indices in want for i in indices) == list(range(83))
        loader.set_epoch(0)
        got = []
        for n, (images, *_, indices) in enumerate(loader):
            got.append(([image.tobytes() for image in images], indices.tolist()))
            assert len({image.shape for image in images}) == 1
            if n == 5:
                loader._service.server.kill()
        assert [indices for _, indices in got] == [indices for _, indices in want]
        assert [pixels[0] for pixels, _ in got] == [pixels[0] for pixels, _ in want]
        loader.set_transform({"views": [RANDOM, CROP, CROP]})
        assert len(batches_of_views(loader)) == len(want)
        with pytest.raises(ValueError, match="batch_size can't be changed with buckets="):
            loader.set_batch_size(3)


def batches_of_views(loader: DataLoader) -> list[Any]:
    return [[image.shape for image in images] for images, *_ in loader]


def test_what_does_not_go_together_is_refused(various: Path) -> None:
    for given, words in [
        ({"weights": "balanced"}, "buckets say which samples make a batch, and their size: leave out weights="),
        ({"size": 32, "map": np.copy}, "leave out size, map="),
        ({"with_params": "records"}, "leave out with_params="),
        ({"buckets": "sd15"}, "buckets is 'sd15', want pairs of height and width, 'sdxl', or None"),
        ({"buckets": [(20, 20), (40, 40)]}, "same aspect ratio"),
        ({"transform": "eval"}, "only size is that of a RandomResizedCrop"),
        ({"buckets": [(0, 3)]}, "height is 0"),
        ({"buckets": []}, "want pairs"),
    ]:
        with pytest.raises(ValueError, match=words):
            DataLoader(various, 4, **{**OPTIONS, **given})
    with DataLoader(various, 4, **OPTIONS) as loader:
        next(iter(loader))
        state = loader.state_dict()
        with pytest.raises(imgfeed.BadRequestError, match="with buckets only a batch knows its images' size"):
            loader.records([0], 0)
    for other in ({"buckets": SIZES[:3]}, {"buckets": None, "transform": "eval"}):
        with DataLoader(various, 4, **{**OPTIONS, **other}) as loader, pytest.raises(StateError):
            loader.load_state_dict(state)
    with DataLoader(various, 5, **OPTIONS) as loader, pytest.raises(StateError):
        loader.load_state_dict(state)
    with pytest.raises(ValueError, match="no bucket has the 80 samples of a batch"):
        DataLoader(various, 80, **OPTIONS, drop_last=True)


def test_sdxls_sizes(various: Path) -> None:
    assert len(BUCKETS["sdxl"]) == 40 and all(h * w <= 1 << 20 and h % 64 == w % 64 == 0 for h, w in BUCKETS["sdxl"])
    with DataLoader(various, 4, **{**OPTIONS, "buckets": "sdxl"}, slots=3) as loader:
        assert {images.shape[1:3] for images, *_ in loader} < set(BUCKETS["sdxl"])
        assert not issubclass(ServerError, ValueError)
