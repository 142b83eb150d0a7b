"""Weights, repeats and torch's own samplers beside torch's and timm's classes: who gets what, and how often."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from imgfeed import DataLoader
from programs.conftest import SMALL

torch = pytest.importorskip("torch")
data = torch.utils.data
SAMPLES = 105  # of the set of conftest.py
Order = Callable[..., list[int]]


@pytest.fixture(scope="module")
def order(socket: str) -> Iterator[Order]:
    """Give the indices that an epoch gives a rank."""
    loaders: list[DataLoader] = []

    def of(epoch: int = 0, **options: Any) -> list[int]:
        loaders.append(DataLoader(socket, 4, transform=SMALL, framework="numpy", **options))
        loaders[-1].set_epoch(epoch)
        return list(loaders[-1].sampler)

    yield of
    for loader in loaders:
        loader.close()


def chi2_of_two(a: Any, b: Any) -> tuple[float, int]:
    """Return χ² of two samples of counts, and its degrees of freedom."""
    met = (a + b) > 0
    a, b = a[met], b[met]
    return float((((b.sum() / a.sum()) ** 0.5 * a - (a.sum() / b.sum()) ** 0.5 * b) ** 2 / (a + b)).sum()), int(met.sum()) - 1


def test_weights_are_drawn_as_torchs_sampler_draws_them(order: Order) -> None:
    draws = 100_000
    for weights in (
        np.ones(SAMPLES),
        np.arange(SAMPLES),
        np.where(np.arange(SAMPLES) % 3, 0.0, 1.0),
        np.linspace(0, 1, SAMPLES) ** 4,
    ):
        mine = np.array(order(weights=weights, num_samples=draws))
        theirs = np.array(
            list(
                data.WeightedRandomSampler(
                    torch.from_numpy(weights.astype(float)), draws, generator=torch.Generator().manual_seed(1)
                )
            )
        )
        counts = [np.bincount(of, minlength=SAMPLES).astype(float) for of in (mine, theirs)]
        assert not counts[0][weights == 0].any()
        chi2, freedom = chi2_of_two(*counts)
        assert chi2 < freedom + 6 * (2 * freedom) ** 0.5
        # Draws do not depend on those before them: pairs are as frequent as two draws are.
        halves = [(of // 53)[::2] * 2 + (of // 53)[1::2] for of in (mine, theirs)]
        chi2, freedom = chi2_of_two(*[np.bincount(of, minlength=4).astype(float) for of in halves])
        assert chi2 < freedom + 6 * (2 * max(freedom, 1)) ** 0.5


@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_repeats_go_where_timms_sampler_sends_them(order: Order, world: int) -> None:
    samplers = pytest.importorskip("timm.data.distributed_sampler")
    for shuffle in (False, True):
        for repeats in (1, 3, 4):
            plain = order(epoch=2, shuffle=shuffle, seed=9)
            for rank in range(world):
                theirs = samplers.RepeatAugSampler(range(SAMPLES), world, rank, shuffle=False, num_repeats=repeats)
                mine = order(epoch=2, shuffle=shuffle, seed=9, repeats=repeats, rank=rank, world=world)
                # The order before it is dealt is each program's own: theirs are positions in ours. So is padding.
                assert mine[: SAMPLES // world] == [plain[i] for i in theirs][: SAMPLES // world]
                assert len(mine) == len(theirs)


@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_torchs_samplers_give_what_they_give_torch(order: Order, world: int) -> None:
    of: Any = range(SAMPLES)
    repeating = pytest.importorskip("timm.data.distributed_sampler").RepeatAugSampler

    def seeded(epoch: int) -> Any:
        return torch.Generator().manual_seed(epoch)

    for rank in range(world):
        for make in (
            lambda r=rank: data.DistributedSampler(of, world, r, seed=3),
            lambda r=rank: data.DistributedSampler(of, world, r, shuffle=False, drop_last=True),
            lambda r=rank: repeating(of, world, r, num_repeats=3),
            lambda: data.RandomSampler(of, generator=seeded(1)),
            lambda: data.RandomSampler(of, replacement=True, num_samples=30, generator=seeded(2)),
            lambda: data.SubsetRandomSampler([3, 1, 4, 15, 9, 2, 6], generator=seeded(3)),
            lambda: data.WeightedRandomSampler(torch.arange(SAMPLES).double(), 40, generator=seeded(4)),
            lambda: data.SequentialSampler(of),
        ):
            theirs = make()
            if hasattr(theirs, "set_epoch"):
                theirs.set_epoch(2)
            assert order(epoch=2, sampler=make(), rank=rank, world=world) == list(theirs)
