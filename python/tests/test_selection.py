"""What epochs hold besides each sample once: subset, weights, repeats, order, sampler; and skip, which goes on further."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CLASSES, RANDOM, SAMPLES, copied, indices, same

from imgfeed import BadRequestError, DataLoader, MissingError, StateError

Load = Callable[..., DataLoader]
RNG = np.random.default_rng(3)
ORDER = [int(i) for i in RNG.integers(0, SAMPLES, 50)]
OPTIONS: dict[str, Any] = {"seed": 5, "transform": RANDOM, "with_params": True}

CHOICES: dict[str, dict[str, Any]] = {
    "all": {},
    "indices": {"subset": [7, 3, 100, 55, 21, 2, 9, 11, 64, 1, 0]},
    "classes": {"subset": ["n90000001", "n90000003"]},
    "fraction": {"subset": (0.3, 2)},
    "weights": {"weights": np.arange(SAMPLES), "num_samples": 60},
    "balanced": {"subset": np.arange(40), "weights": "balanced", "repeats": 2},
    "repeats": {"repeats": 3},
    "all repeats": {"repeats": 2, "num_samples": 2 * SAMPLES},
    "order": {"order": ORDER},
    "function": {"order": lambda epoch: np.roll(ORDER, epoch), "repeats": 2},
}


def shuffles(choice: dict[str, Any]) -> list[bool]:
    return [False] if "order" in choice else [False, True]


@pytest.mark.parametrize("name", CHOICES)
def test_the_order_of_every_rank_resumed_at_every_batch(load: Load, name: str) -> None:
    choice = CHOICES[name]
    for shuffle in shuffles(choice):
        options = {**OPTIONS, **choice, "shuffle": shuffle, "even_batches": False}
        alone = load(8, **options)
        alone.set_epoch(2)
        whole = [np.concatenate(column) for column in zip(*map(copied, alone), strict=True)]  # images, labels, indices, params
        for world in (1, 2, 4, 8):
            for rank in range(world):
                loader = load(10, rank=rank, world=world, **options)
                loader.set_epoch(2)
                states, batches = [loader.state_dict()], []
                assert len(loader) == len(iter(loader))
                for batch in loader:
                    batches.append(copied(batch))
                    states.append(json.loads(json.dumps(loader.state_dict())))
                assert same(tuple(map(np.concatenate, zip(*batches, strict=True))), tuple(c[rank::world] for c in whole))
                loader.set_epoch(2)
                assert list(loader.sampler) == indices(batches)
                if rank:
                    loader.close()
                    continue
                for done, state in enumerate(states[:-1]):
                    loader.load_state_dict(state)
                    rest = [copied(b) for b in loader]
                    assert len(rest) == len(batches) - done
                    assert all(same(a, b) for a, b in zip(batches[done:], rest, strict=True))
                loader.close()


@pytest.mark.parametrize("name", CHOICES)
def test_ranks_are_even_and_another_world_goes_on(load: Load, name: str) -> None:
    choice, options = CHOICES[name], {**OPTIONS, **CHOICES[name]}
    for policy in ({}, {"drop_last": True}):
        loaders = [load(2, rank=rank, world=4, **options, **policy) for rank in range(4)]
        assert len({len(loader) for loader in loaders}) == 1
        assert [len(indices(loader)) for loader in loaders] == [len(loader.sampler) for loader in loaders]
    sequence = indices(load(8, **options))
    first = load(3, rank=1, world=2, **options)
    next(iter(first))
    state = first.state_dict()
    assert state["consumed"] == 6
    rest: list[list[int]] = []
    for rank in range(3):
        loader = load(2, rank=rank, world=3, even_batches=False, **options)
        loader.load_state_dict(state)
        rest.append(indices(loader))
    dealt: list[Any] = [None] * sum(map(len, rest))
    for rank, of in enumerate(rest):
        dealt[rank::3] = of
    assert dealt == sequence[6:], choice


def test_repetitions_have_draws_of_their_own(load: Load) -> None:
    drawn: dict[int, list[Any]] = {}
    for _, _, index, params in load(8, repeats=4, num_samples=4 * SAMPLES, **OPTIONS):
        for i, p in zip(index.tolist(), params.tolist(), strict=True):
            drawn.setdefault(i, []).append(tuple(p))
    assert len(drawn) == SAMPLES and {len(v) for v in drawn.values()} == {4}
    assert sum(len(set(v)) for v in drawn.values()) > 3.9 * SAMPLES
    plain = load(8, **OPTIONS)
    for _, _, index, params in plain:
        assert [drawn[i][0] for i in index.tolist()] == [tuple(p) for p in params.tolist()]


def test_what_a_subset_is(load: Load) -> None:
    labels = load().dataset.targets
    names = load().dataset.classes
    assert indices(load(subset=[5, 5, 2])) == [5, 5, 2]
    assert indices(load(subset=names[2])) == np.flatnonzero(labels == 2).tolist()
    assert sorted(indices(load(subset=(names[2], names[0]), shuffle=True))) == np.flatnonzero(np.isin(labels, [0, 2])).tolist()
    tenth, other, third = (set(indices(load(subset=of))) for of in (0.1, (0.1, 1), (0.3, 0)))
    assert len(tenth) == len(other) == round(0.1 * SAMPLES) and tenth != other and tenth < third
    assert indices(load(subset=1.0)) == list(range(SAMPLES)) and len(indices(load(subset=1e-9))) == 1
    assert tenth == set(indices(load(subset=0.1, seed=9)))  # whatever the loader's seed


def test_fractions_are_as_documented(load: Load) -> None:
    def mix(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    for seed in (7, -7):
        keys = {mix((mix(seed % 2**64) + index * 0x9E3779B97F4A7C15) % 2**64): index for index in range(SAMPLES)}
        assert indices(load(subset=(0.1, seed))) == sorted(keys[key] for key in sorted(keys)[:10])


def test_what_weights_are(load: Load) -> None:
    names, labels = load().dataset.classes, load().dataset.targets
    only = {name: float(i == 2) for i, name in enumerate(names)}
    assert set(labels[indices(load(weights=only))]) == {2}
    one = np.zeros(SAMPLES)
    one[[3, 8]] = 1, 3
    drawn = np.bincount(list(load(weights=one, num_samples=10_000).sampler))
    assert set(np.flatnonzero(drawn)) == {3, 8} and 2300 < drawn[3] < 2700
    few = [int(np.flatnonzero(labels == label)[0]) for label in range(CLASSES)] + np.flatnonzero(labels == 0).tolist()
    balanced = np.bincount(labels[list(load(subset=few, weights="balanced", num_samples=10_000).sampler)])
    assert len(balanced) == CLASSES and balanced.min() > 1800 and balanced.max() < 2200


def test_every_epoch_draws_anew(load: Load) -> None:
    loader = load(weights=np.ones(SAMPLES))
    first, second = indices(loader), indices(loader)
    assert first != second
    loader.set_epoch(0)
    assert indices(loader) == first


class Deal:
    """A sampler of one rank, as torch's DistributedSampler."""

    def __init__(self, rank: int, world: int, samples: int = 40, stateful: bool = False) -> None:
        self.rank, self.world, self.samples, self.stateful = rank, world, samples, stateful
        self.epoch = 0
        self.asked = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.samples // self.world

    def __iter__(self) -> Iterator[int]:
        self.asked += self.stateful
        order = np.random.default_rng([self.epoch, self.asked]).permutation(self.samples)
        return iter(order[self.rank :: self.world].tolist())


@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_a_sampler_of_each_rank(load: Load, world: int) -> None:
    for rank in range(world):
        options = {**OPTIONS, "rank": rank, "world": world}
        loader, mine = load(3, sampler=Deal(rank, world), **options), Deal(rank, world)
        assert (len(loader), len(loader.sampler)) == (-(-(40 // world) // 3), 40 // world)
        states, batches = [loader.state_dict()], []
        for batch in loader:
            batches.append(copied(batch))
            states.append(loader.state_dict())
        assert indices(batches) == list(mine)
        resumed = load(3, sampler=Deal(rank, world), **options)
        for done, state in enumerate(states[:-1]):
            resumed.load_state_dict(json.loads(json.dumps(state)))
            assert all(same(a, b) for a, b in zip(batches[done:], map(copied, resumed), strict=True))
        mine.set_epoch(1)
        assert indices(loader) == list(mine)  # of the next epoch


def test_the_epoch_of_a_sampler_is_the_loaders(load: Load) -> None:
    sampler, mine = Deal(0, 1), Deal(0, 1)
    loader = load(8, sampler=sampler)
    sampler.set_epoch(4)
    mine.set_epoch(4)
    assert indices(loader) == list(mine)
    assert loader.state_dict()["epoch"] == 5
    loader.set_epoch(7)
    mine.set_epoch(7)
    assert indices(loader) == list(mine) and sampler.epoch == 7


def test_another_order_than_the_states_is_refused(load: Load) -> None:
    loader = load(3, rank=1, world=2, sampler=Deal(1, 2, stateful=True))
    next(iter(loader))
    state = loader.state_dict()
    loader.load_state_dict(state)
    with pytest.raises(StateError, match="another order than the one that it was made in"):
        iter(loader)
    first = load(3, rank=0, world=2, sampler=Deal(0, 2))  # its list is another one, and its position the same
    first.load_state_dict(state)
    assert len(list(first)) == len(first) - 1
    other = load(3, rank=1, world=4, sampler=Deal(1, 4))
    other.load_state_dict(state)
    with pytest.raises(StateError, match=r"made by rank 1/2, and this is rank 1/4.*order="):
        iter(other)
    grows = {"n": 10}
    moving = load(3, order=lambda epoch: range(grows["n"]))
    next(iter(moving))
    state, grows["n"] = moving.state_dict(), 12
    changed = load(3, order=lambda epoch: range(grows["n"]))
    changed.load_state_dict(state)
    with pytest.raises(StateError, match="another order"):
        iter(changed)
    with pytest.raises(StateError, match="chosen in another way"):
        load(subset=[1, 2]).load_state_dict(state)
    with pytest.raises(StateError, match="chosen in another way"):
        load().load_state_dict(load(repeats=2).state_dict())


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"subset": [1, SAMPLES]}, BadRequestError, "1 of the list is 105: indices are 0 to 104"),
        ({"subset": [-1]}, BadRequestError, "0 of the list is -1"),
        ({"subset": "no-such"}, ValueError, "subset names 'no-such': the split has no such class; it has '.*' and 2 more"),
        ({"weights": [1, 2, 3]}, ValueError, "weights holds 3, and the split has 105 samples"),
        ({"weights": {"no-such": 1}}, ValueError, "weights names 'no-such'"),
        ({"weights": [1.0] * SAMPLES, "subset": [SAMPLES]}, ValueError, "position 0 of the samples chosen is 105"),
        ({"num_samples": SAMPLES + 1}, BadRequestError, "an epoch of 106 samples, and there are 105"),
        ({"order": [0, 1000]}, BadRequestError, "1 of the list is 1000"),
    ],
)
def test_what_the_split_does_not_have(load: Load, given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        load(**given)


def test_classes_without_a_weight(load: Load) -> None:
    names = load().dataset.classes
    with pytest.raises(ValueError, match=f"weights has none for '{names[1]}', '{names[2]}', '{names[3]}' and 1 more"):
        load(weights={names[0]: 1})
    assert set(load().dataset.targets[indices(load(weights={names[0]: 1}, subset=names[0]))]) == {0}


@pytest.mark.parametrize("listed", [[0, -1], ["a"], [[1], [2]], 7, [0.5]])
def test_what_functions_and_samplers_give(load: Load, listed: Any) -> None:
    loader = load(order=lambda epoch: listed)
    with pytest.raises((TypeError, ValueError), match=r"order is|1 of the list is -1"):
        iter(loader)


def test_partitions_that_are_not_here(shards: Path, tmp_path: Path) -> None:
    part = tmp_path / "train-shards"
    shutil.copytree(shards, part)
    shutil.rmtree(part / "rank-0001")
    options: dict[str, Any] = {"framework": "numpy", "num_workers": 1, "with_index": True, "rank": 0, "world": 2}
    with DataLoader(part, 4, order=[0, 1, 4, 3, 8], **options) as loader:
        assert indices(loader) == [0, 4, 8]
    with DataLoader(part, 4, repeats=2, **options) as loader, pytest.raises(MissingError, match=r"rank-0001; copy.*or select"):
        iter(loader)
    for given in ({"weights": "balanced"}, {"subset": "class"}):
        with pytest.raises((MissingError, ValueError), match=r"of 2 partitions only 1 are here|no such class"):
            DataLoader(part, 4, **given, **options)


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("policy", [{}, {"drop_last": True}, {"even_batches": False}])
def test_skip(load: Load, policy: dict[str, Any], running: bool) -> None:
    options = {**OPTIONS, **policy, "shuffle": True, "rank": 1, "world": 2, "subset": range(39)}
    whole = []
    loader = load(3, **options)
    for _ in range(4):
        whole.append([copied(b) for b in loader])
    per = len(whole[0])
    line = [(epoch, batch) for epoch in range(4) for batch in range(per)]
    for done in (0, 1, 3):
        for n in (0, 1, 2, per - done - 1, per - done, per - done + 1, 2 * per, 2 * per + 3):
            loader = load(3, **options)
            iteration = iter(loader)
            for batch in range(done):
                assert same(copied(next(iteration)), whole[0][batch])
            if not running:
                del iteration
            loader.skip(n)
            epoch, batch = line[done + n]
            state = loader.state_dict()
            assert (state["epoch"], state["consumed"]) == (epoch, 6 * batch)
            loader.set_epoch(epoch)  # as a loop does that counts; the position stays
            if running and epoch == 0:
                rest = [copied(b) for b in iteration]
            else:
                assert not running or next(iteration, None) is None
                rest = [copied(b) for b in loader]
            assert len(rest) == per - batch
            assert all(same(a, b) for a, b in zip(whole[epoch][batch:], rest, strict=True))
            assert loader.state_dict()["epoch"] == epoch + 1
            assert same(copied(next(iter(loader))), load_first(load, options, epoch + 1))
            resumed = load(3, **options)
            resumed.load_state_dict(state)
            assert len(list(resumed)) == per - batch
            for made in (loader, resumed):
                made.close()


def load_first(load: Load, options: dict[str, Any], epoch: int) -> Any:
    loader = load(3, **options)
    loader.set_epoch(epoch)
    first = copied(next(iter(loader)))
    loader.close()
    return first


def test_skip_is_cheap_however_far(load: Load) -> None:
    loader = load(8, repeats=2)
    loader.skip(10**15)
    per = len(loader)
    assert loader.state_dict()["epoch"] == 10**15 // per
    lengths = [8, 24, 16]
    varies = load(8, order=lambda epoch: range(lengths[epoch % 3]))
    varies.skip(5)
    assert (varies.state_dict()["epoch"], varies.state_dict()["consumed"]) == (2, 8)
    assert indices(varies) == list(range(8, 16))
    for wrong in (-1, 1.5, True):
        with pytest.raises((TypeError, ValueError), match="batches is"):
            loader.skip(wrong)
    none = load(100, subset=[1], drop_last=True)
    with pytest.raises(ValueError, match="has none"):
        none.skip(1)


def test_a_server_that_is_started_again_serves_the_same_order(shards: Path) -> None:
    """What was selected is told to the next server, too: the very list, were the sampler to give another one now."""
    options: dict[str, Any] = {"framework": "numpy", "num_workers": 1, "with_index": True, "slots": 3}
    sampler = Deal(0, 1, stateful=True)
    with DataLoader(shards, 4, sampler=sampler, transform=RANDOM, **options) as loader:
        want = np.random.default_rng([0, 1]).permutation(sampler.samples).tolist()
        got: list[int] = []
        for n, batch in enumerate(loader):
            got += batch[2].tolist()
            if n == 3:
                loader._service.server.kill()
        assert got == want and sampler.asked == 1 and loader.stats()["reconnects"] == 1
    with DataLoader(shards, 4, weights="balanced", num_samples=40, transform=RANDOM, **options) as loader:
        whole = [batch[2].tolist() for batch in loader]
        loader.set_epoch(0)
        iteration = iter(loader)
        first = [next(iteration)[2].tolist()]
        loader._service.server.kill()
        assert first + [batch[2].tolist() for batch in iteration] == whole
