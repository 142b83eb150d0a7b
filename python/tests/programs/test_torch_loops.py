"""Loops that know torch alone: DistributedDataParallel as in its tutorials, and what torchdata's StatefulDataLoader gives."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from imgfeed import DataLoader
from programs.conftest import SMALL, plain, run

pytest.importorskip("torch", minversion="2.0")

EPOCHS = 3
SAVED_AT = (1, 2)  # epoch, and batches of it: as in the program


def test_the_loop_of_torchs_tutorials_on_two_ranks(shards: Path, tmp_path: Path) -> None:
    ranks = run("ddp_loop.py", shards, tmp_path / "whole", 2)
    samples = sorted(i for epoch in plain(shards, 0, 1, 1) for batch in epoch for i in batch)
    want = [plain(shards, rank, 2, EPOCHS, shuffle=True, seed=3) for rank in range(2)]
    for rank, noted in enumerate(ranks):
        with_set_epoch, without = noted["runs"]
        assert with_set_epoch["trained"] == [[e, batch] for e, epoch in enumerate(want[rank]) for batch in epoch]
        assert with_set_epoch["sizes"] == [8] * EPOCHS
        assert without["trained"] == with_set_epoch["trained"]
        assert with_set_epoch["counted"] == without["counted"] == [len(samples)] * EPOCHS
    validated = [i for noted in ranks for i in noted["runs"][0]["validated"]]
    assert sorted(validated) == sorted(samples * EPOCHS)

    snapshot = str(tmp_path / "whole" / "snapshot-True.pt")
    done = SAVED_AT[0] * len(want[0][0]) + SAVED_AT[1]
    for noted, again in zip(ranks, run("ddp_loop.py", shards, tmp_path / "resumed", 2, "--snapshot", snapshot), strict=True):
        (rest,) = again["runs"]
        assert rest["trained"] == noted["runs"][0]["trained"][done:]
        assert rest["weights"] == noted["runs"][0]["weights"]


def _stateful(make: Callable[[], Any]) -> list[list[list[int]]]:
    """Do with a loader what torchdata says of a StatefulDataLoader; return the batches of every iteration."""
    seen: list[list[list[int]]] = []

    def take(loader: Any, count: int | None = None) -> Any:
        seen.append([list(map(int, batch)) for batch in itertools.islice(loader, count)])
        return loader

    fresh = make()
    begin = fresh.state_dict()  # before an iteration
    half = take(fresh, 4).state_dict()
    other = make()
    other.load_state_dict(half)
    assert other.state_dict() == half
    end = take(other).state_dict()  # what is left of the epoch
    take(other, 2)  # then the one after, whole
    for state in (begin, half, end):
        again = make()
        again.load_state_dict(state)
        take(again)
        take(again, 1)
    fresh.load_state_dict(half)  # into a loader that has been used
    take(fresh)
    for _ in fresh:  # and is left within an iteration
        break
    fresh.load_state_dict(half)
    take(fresh)
    return seen


def test_the_protocol_of_torchdatas_stateful_dataloader(shards: Path) -> None:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    with DataLoader(shards, 8, num_workers=1, transform=SMALL) as loader:
        samples = len(loader.dataset)
    made: list[DataLoader] = []

    def feed() -> DataLoader:
        made.append(
            DataLoader(shards, 8, num_workers=1, transform=SMALL, with_index=True, collate_fn=lambda s: [i for *_, i in s])
        )
        return made[-1]

    want = _stateful(lambda: torchdata.StatefulDataLoader(range(samples), 8, num_workers=0, collate_fn=list))
    assert _stateful(feed) == want
    for loader in made:
        loader.close()
