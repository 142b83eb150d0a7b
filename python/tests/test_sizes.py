"""Sizes that change with the epoch, transforms and batch sizes that change between them: by shapes, indices and pixels."""

import os
from pathlib import Path
from typing import Any

import pytest
from conftest import RANDOM as RANDOM_OPS
from conftest import SAMPLES, seen
from conftest import SMALL as SMALL_OPS

from imgfeed import BadRequestError, DataLoader

RANDOM: list[dict[str, Any]] = list(RANDOM_OPS)
SMALL: list[dict[str, Any]] = list(SMALL_OPS)
SIZES = {0: 32, 2: 48, 3: 40}
OPTIONS: dict[str, Any] = {
    "framework": "numpy",
    "with_index": True,
    "transform": RANDOM,
    "shuffle": True,
    "seed": 3,
    "num_workers": 1,
}


def side(epoch: int) -> int:
    return SIZES[max(begin for begin in SIZES if begin <= epoch)]


def resized(ops: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """The transform of RANDOM or SMALL written out for another size."""
    return [{**op, "size": round(op["size"] * size / 32)} if "size" in op else op for op in ops]


@pytest.fixture(scope="module")
def want(shards: Path) -> list[list[tuple[int, str]]]:
    """The samples of five epochs, from loaders that have one size each."""
    epochs = []
    for epoch in range(5):
        with DataLoader(shards, 7, **{**OPTIONS, "transform": resized(RANDOM, side(epoch))}) as loader:
            loader.set_epoch(epoch)
            epochs.append(seen(loader))
    return epochs


@pytest.mark.parametrize("size", [SIZES, side])
@pytest.mark.parametrize("transport", ["shm", "socket"])
def test_an_epoch_has_its_size(shards: Path, want: list[list[tuple[int, str]]], size: Any, transport: str) -> None:
    with DataLoader(shards, 7, size=size, transport=transport, **OPTIONS) as loader:
        for epoch in range(5):
            batches = list(loader)
            assert {batch[0].shape[1:] for batch in batches} == {(side(epoch), side(epoch), 3)}
            assert seen(batches) == want[epoch]
        loader.set_epoch(1)
        assert seen(loader) == want[1]


def test_all_sizes_of_a_transform_change_in_proportion(shards: Path) -> None:
    with (
        DataLoader(shards, 7, **{**OPTIONS, "transform": SMALL}, size=24) as loader,
        DataLoader(shards, 7, **{**OPTIONS, "transform": resized(SMALL, 24)}) as plain,
    ):
        assert seen(loader) == seen(plain)
    with DataLoader(
        shards, 7, transform={"views": [RANDOM, {"repeat": 2, "ops": resized(RANDOM, 16)}]}, framework="numpy", size=64
    ) as loader:
        images, _ = next(iter(loader))
        assert [view.shape[1] for view in images] == [64, 32, 32]


def test_a_state_goes_on_in_its_epochs_size_on_any_world(shards: Path, want: list[list[tuple[int, str]]]) -> None:
    with DataLoader(shards, 7, size=SIZES, **OPTIONS) as loader:
        for epoch in range(1, 3):
            loader.set_epoch(epoch)
            had = 0
            for batch in loader:
                had += len(batch[1])
                if had % 4:
                    continue
                dealt: list[Any] = [None] * (SAMPLES - had)
                for rank in range(3):
                    options = {**OPTIONS, "rank": rank, "world": 3, "even_batches": False}
                    with DataLoader(shards, 5, size=SIZES, **options) as resumed:
                        resumed.load_state_dict(loader.state_dict())
                        dealt[rank::3] = seen(resumed)
                        following = next(iter(resumed))[0]
                        assert following.shape[1] == side(epoch + 1)
                assert dealt == want[epoch][had:]


def test_a_server_that_dies_around_a_change(shards: Path, want: list[list[tuple[int, str]]]) -> None:
    with DataLoader(shards, 7, size=SIZES, **OPTIONS) as loader:
        for epoch in range(5):
            got = []
            for n, batch in enumerate(loader):
                got += seen([batch])
                if n == epoch or n == len(loader) - 1:
                    loader._service.server.kill()
            assert got == want[epoch]


def test_transform_and_batch_size_change_between_epochs(shards: Path) -> None:
    def counts(loader: DataLoader) -> list[int]:
        return [len(batch[1]) for batch in loader]

    with DataLoader(shards, 7, **OPTIONS) as loader:
        server = loader._service.server
        first = seen(loader)
        iteration = iter(loader)
        begun = seen([next(iteration)])
        loader.set_batch_size(5)
        loader.set_transform(SMALL)
        rest = seen(iteration)  # it goes on as it was
        assert len(loader) == len(loader.batch_sampler) == 21
        assert loader.batch_size == 5
        with DataLoader(shards, 7, **OPTIONS) as plain:
            plain.set_epoch(1)
            assert begun + rest == seen(plain)
        assert counts(loader) == [5] * 21
        loader.set_epoch(0)
        with DataLoader(shards, 5, **{**OPTIONS, "transform": SMALL}) as plain:
            assert seen(loader) == seen(plain)
        assert loader._service.server is server
        loader.set_batch_size(50)  # more than the ring has room for
        assert counts(loader) == [50, 50, 5]
        loader.set_transform(RANDOM)
        loader.set_batch_size(7)
        loader.set_epoch(0)
        assert seen(loader) == first
        with pytest.raises(ValueError, match="batch_size is 0"):
            loader.set_batch_size(0)
        with pytest.raises(TypeError, match="transform holds int"):
            loader.set_transform(7)
        loader.set_transform("nonsense")
        with pytest.raises(BadRequestError, match="unknown transform"):
            next(iter(loader))
        loader.set_transform(RANDOM)
        loader.set_epoch(0)
        assert seen(loader) == first


def test_changes_leave_nothing_behind(shards: Path) -> None:
    with DataLoader(shards, 7, **OPTIONS) as loader:
        list(loader)
        files = len(os.listdir("/proc/self/fd"))
        for n in range(20):
            loader.set_batch_size(3 + n)
            loader.set_transform(SMALL if n % 2 else RANDOM)
            next(iter(loader))
        assert len(os.listdir("/proc/self/fd")) <= files + 1


def test_a_function_of_ones_own_gets_each_size(shards: Path) -> None:
    with DataLoader(shards, 7, size=SIZES, map=lambda image: image[: len(image) // 2], **OPTIONS) as loader:
        for epoch in range(4):
            assert {batch[0].shape[1:] for batch in loader} == {(side(epoch) // 2, side(epoch), 3)}


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (0, ValueError, "size is 0"),
        ({1: 32}, ValueError, "want one for epoch 0 too"),
        ({0: 0}, ValueError, r"size\[0\] is 0"),
        ({"a": 32}, TypeError, "size's key"),
        (lambda epoch: 0, ValueError, "size is 0"),
        (16384, BadRequestError, "size is 20480"),
    ],
)
def test_sizes_that_cannot_be(shards: Path, size: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DataLoader(shards, 7, **{**OPTIONS, "transform": SMALL}, size=size).close()
