"""What an epoch holds: which samples, in which order, for which rank."""

import itertools
import os
import shutil
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CLASSES, PATIENCE, RANDOM, SAMPLES, SMALL, copied, indices, same

from imgfeed import DataLoader, MissingError
from imgfeed._server import ranks

Load = Callable[..., DataLoader]


def test_batches_have_the_documented_shapes(load: Load, listing: list[dict[str, Any]]) -> None:
    loader = load(8, with_params=True)
    batches = list(loader)
    assert len(batches) == len(loader) == -(-SAMPLES // 8)
    images, labels, index, params = batches[0]
    assert images.shape == (8, 32, 32, 3) and images.dtype == np.uint8
    assert labels.shape == (8,) and labels.dtype == np.int64
    assert index.shape == (8,) and index.dtype == np.int64
    assert params.shape == (8, 5) and params.dtype == np.int32
    assert len(batches[-1][0]) == SAMPLES % 8
    assert len(np.unique(np.concatenate([b[0].reshape(len(b[0]), -1) for b in batches]), axis=0)) > SAMPLES * 0.9
    for batch in batches:
        for label, i in zip(batch[1], batch[2], strict=True):
            assert listing[i]["label"] == label


def test_unshuffled_is_index_order(load: Load) -> None:
    assert indices(load()) == list(range(SAMPLES))


@pytest.mark.parametrize("world", [1, 2, 3, 4])
@pytest.mark.parametrize("shuffle", [False, True])
def test_ranks_are_disjoint_and_complete(load: Load, world: int, shuffle: bool) -> None:
    loaders = [load(8, rank=r, world=world, shuffle=shuffle, seed=3) for r in range(world)]
    got = [indices(loader) for loader in loaders]
    assert len({len(g) for g in got}) == 1 and len(got[0]) == -(-SAMPLES // world) == len(loaders[0].sampler)
    assert {len(loader) for loader in loaders} == {-(-len(got[0]) // 8)}
    counts = Counter(i for g in got for i in g)
    assert set(counts) == set(range(SAMPLES))
    assert sum(counts.values()) - SAMPLES == -SAMPLES % world  # the padding, and nothing else, comes twice
    assert shuffle == (got[0] != sorted(got[0]))


@pytest.mark.parametrize("world", [1, 2, 3])
def test_drop_last_gives_full_batches(load: Load, world: int) -> None:
    loaders = [load(8, rank=r, world=world, shuffle=True, drop_last=True) for r in range(world)]
    got = []
    for loader in loaders:
        batches = list(loader)
        assert len(batches) == len(loader) == SAMPLES // world // 8
        assert {len(b[0]) for b in batches} == {8}
        got += indices(batches)
    assert len(set(got)) == len(got)


def test_epochs_differ_and_repeat(load: Load) -> None:
    loader, other = (load(8, shuffle=True, seed=7, transform=RANDOM, with_params=True) for _ in range(2))
    first = [copied(b) for b in loader]
    second = [copied(b) for b in loader]  # an epoch that came to its end makes the next one the next epoch
    assert indices(first) != indices(second) and sorted(indices(first)) == sorted(indices(second))
    other.set_epoch(1)
    assert all(same(a, b) for a, b in zip(second, other, strict=True))
    other.sampler.set_epoch(0)
    assert all(same(a, b) for a, b in zip(first, other, strict=True))
    assert indices(load(8, shuffle=True, seed=8)) != indices(first)


def _until_the_last(loader: DataLoader) -> Iterator[Any]:
    for number, batch in enumerate(loader):
        yield batch
        if number + 1 == len(loader):
            break


def _nexts(loader: DataLoader) -> Iterator[Any]:
    iteration = iter(loader)
    for _ in range(len(loader)):
        yield next(iteration)


#: Loops that take every batch of an epoch, and never ask for one more.
LOOPS: dict[str, Callable[[DataLoader], Any]] = {
    "next": _nexts,
    "islice": lambda loader: itertools.islice(loader, len(loader)),
    "zip": lambda loader: (batch for _, batch in zip(range(len(loader)), loader, strict=False)),
    "break": _until_the_last,
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("policy", [{}, {"drop_last": True}, {"even_batches": False}])
def test_a_loop_that_asks_for_no_batch_more_ends_its_epoch(
    load: Load, loop: str, policy: dict[str, bool], caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {**policy, "shuffle": True, "transform": RANDOM, "with_params": True}
    want, loader = load(8, **options), load(8, **options)
    for epoch in range(3):
        assert all(same(a, b) for a, b in zip(want, map(copied, LOOPS[loop](loader)), strict=True))
        assert loader.state_dict() == want.state_dict() and loader.state_dict()["epoch"] == epoch + 1
    assert not caplog.records


def test_an_epoch_that_is_left_early_is_followed_by_the_next(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    loader = load(8, shuffle=True)
    whole = [indices(loader) for _ in range(4)]
    left = load(8, shuffle=True)
    for epoch in range(3):
        assert indices(itertools.islice(left, 2)) == whole[epoch][:16]
        assert (left.state_dict()["epoch"], left.state_dict()["consumed"], left.sampler.epoch) == (epoch, 16, epoch + 1)
    (record,) = caplog.records
    assert "epoch 0 was left after 16 samples, and this iteration begins epoch 1" in record.getMessage()
    left.set_epoch(1)
    assert indices(left) == whole[1]
    assert indices(left) == whole[2]


def test_an_iteration_without_a_batch_counts_for_nothing(load: Load) -> None:
    loader, resumed = load(8, shuffle=True), load(8, shuffle=True)
    for _ in range(3):
        assert len(iter(loader)) == len(loader)
    first = indices(itertools.islice(loader, 3))
    resumed.load_state_dict(loader.state_dict())
    for _ in range(2):
        assert len(iter(resumed)) == len(resumed) - 3
    loader.set_epoch(0)
    assert first + indices(resumed) == indices(loader)


def test_an_epoch_set_while_one_runs_is_the_next(load: Load) -> None:
    loader = load(8, shuffle=True)
    for number, _ in enumerate(loader):
        if number == 3:
            loader.set_epoch(7)
    order = list(loader.sampler)
    assert indices(loader) == order and loader.state_dict()["epoch"] == 8


def test_the_length_is_that_of_the_running_epoch(load: Load) -> None:
    loader = load(8, order=lambda epoch: range(40 + 16 * epoch))
    for epoch in range(3):
        assert [len(loader) for _ in itertools.islice(loader, 4)] == [5 + 2 * epoch] * 4


def test_an_epoch_without_a_batch_is_an_error(load: Load) -> None:
    loader = load(64, rank=0, world=2, drop_last=True)
    with pytest.raises(ValueError, match=r"epoch 0 has no batch: its 105 samples .*64 on each of 2 ranks.* smaller batch_size"):
        iter(loader)
    loader.set_batch_size(8)
    assert len(list(loader)) == len(loader)
    assert list(load(8, rank=1, world=2, order=[3], even_batches=False)) == []  # the other rank has one


def test_a_new_iteration_ends_the_one_before(load: Load) -> None:
    loader = load(8)
    old = iter(loader)
    next(old)
    assert len(indices(loader)) == SAMPLES
    with pytest.raises(Exception, match="newer iteration"):
        next(old)


def test_an_iteration_that_goes_late_stops_no_newer_one(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was broken off may be collected at any moment, such as between the next one's request and its first batch."""
    loader = load(8, timeout=PATIENCE)
    late = [iter(loader)]
    next(late[0])
    session = loader._service.session()
    start = session.start

    def start_and_collect(*position: Any) -> Any:
        running = start(*position)
        late.clear()
        return running

    monkeypatch.setattr(session, "start", start_and_collect)
    assert indices(loader) == list(range(SAMPLES))


def test_an_epoch_set_once_an_iteration_of_a_state_has_begun(load: Load) -> None:
    """Lightning's order of calls. Its CombinedLoader begins a shorter loader several times in one of its own epochs."""
    whole, loader = load(8, shuffle=True), load(8, shuffle=True)
    epochs = [indices(whole) for _ in range(6)]
    loader.load_state_dict({**whole.state_dict(), "epoch": 2, "consumed": 24})
    state = loader.state_dict()
    for trainers in (0, 2):
        loader.load_state_dict(state)
        iteration = iter(loader)
        loader.set_epoch(trainers)
        assert loader.state_dict() == state
        assert indices(iteration) == epochs[2][24:] and indices(loader) == epochs[3]
        loader.set_epoch(trainers)  # no state was loaded since
        assert indices(loader) == epochs[trainers]
    loader.load_state_dict(state)
    iteration = iter(loader)
    loader.set_epoch(5)
    assert indices(iteration) == epochs[2][24:] and indices(loader) == epochs[5]
    loader.load_state_dict(state)
    loader.set_epoch(0)  # no iteration has begun: the caller goes back
    assert indices(loader) == epochs[0]


def test_workers_of_torch_say_that_each_gives_every_sample(
    load: Load, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pytest.importorskip("torch.utils.data")

    class Batches(data.IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            return map(copied, loader)

    loader, worker = load(), data.get_worker_info
    assert len(indices(data.DataLoader(Batches(), batch_size=None, num_workers=2))) == 2 * SAMPLES
    assert not caplog.records  # here; each worker has a log of its own
    for number in range(2):
        monkeypatch.setattr(data, "get_worker_info", lambda number=number: types.SimpleNamespace(id=number, num_workers=2))
        assert len(indices(loader)) == SAMPLES
    (record,) = caplog.records
    assert "num_workers=2) gives every sample" in record.getMessage()
    monkeypatch.setattr(data, "get_worker_info", worker)


def test_transport_layout_and_threads_change_nothing(load: Load, shards: Path) -> None:
    options: dict[str, Any] = {"shuffle": True, "seed": 1, "transform": RANDOM, "with_params": True}
    want = [copied(b) for b in load(7, **options)]
    assert all(same(a, b) for a, b in zip(want, load(7, transport="socket", **options), strict=True))
    for a, b in zip(want, load(7, layout="NCHW", **options), strict=True):
        assert b[0].shape == (len(a[0]), 3, 32, 32)
        assert same(a, (b[0].transpose(0, 2, 3, 1), *b[1:]))
    with DataLoader(shards, 7, framework="numpy", with_index=True, num_workers=1, **options) as own:
        assert all(same(a, b) for a, b in zip(want, own, strict=True))


def test_dataset(load: Load, listing: list[dict[str, Any]]) -> None:
    loader = load()
    dataset = loader.dataset
    assert len(dataset) == SAMPLES
    assert len(dataset.classes) == CLASSES and dataset.classes == sorted(dataset.classes)
    assert dataset.class_to_idx == {name: i for i, name in enumerate(dataset.classes)}
    assert dataset.targets.tolist() == [row["label"] for row in listing]
    iteration = iter(loader)  # asking in the middle of an epoch disturbs nothing
    next(iteration)
    assert [dataset.key(i) for i in range(SAMPLES)] == [row["key"] for row in listing]
    stats = loader.stats()
    assert stats["waiting_for"] in loader._service.ask(lambda session: session.waits)
    assert stats["verdict"] and isinstance(stats["advice"], str)
    assert indices(iteration) == list(range(8, SAMPLES))


def test_rank_and_world_come_from_torchrun(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert indices(load()) == indices(load(rank=1, world=2))


def test_processors_are_shared_by_the_ranks_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = ranks.threads_default()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert ranks.threads_default() == max(1, alone // 2)


@pytest.mark.parametrize(("limit", "want"), [("150000 100000\n", 2), ("50000 100000\n", 1), ("max 100000\n", 3), (None, 3)])
def test_a_containers_limit_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str | None, want: int) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    if limit is not None:
        (tmp_path / "cpu.max").write_text(limit)
    monkeypatch.setattr(ranks, "_CPU_LIMIT", str(tmp_path / "cpu.max"))
    assert ranks.threads_default() == want


def test_a_rank_needs_only_its_own_partition(load: Load, shards: Path, tmp_path: Path) -> None:
    part = tmp_path / "train-shards"
    shutil.copytree(shards, part, ignore=shutil.ignore_patterns("rank-0001"))
    options: dict[str, Any] = {"framework": "numpy", "with_index": True, "transform": SMALL, "num_workers": 1, "shuffle": True}
    with DataLoader(part, 8, rank=0, world=2, **options) as loader:
        assert indices(loader) == indices(load(8, rank=0, world=2, shuffle=True))
        assert np.count_nonzero(loader.dataset.targets == -1) == SAMPLES // 2
    with pytest.raises(MissingError, match="rank-0001"), DataLoader(part, 8, rank=1, world=2, **options) as loader:
        list(loader)
