"""Checkpoints: a loaded state gives the rest of the epoch, at every batch, and with another world or batch size."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from conftest import RANDOM, SAMPLES, copied, indices, same

from imgfeed import DataLoader, StateError

Load = Callable[..., DataLoader]
OPTIONS: dict[str, Any] = {"shuffle": True, "seed": 5, "transform": RANDOM, "with_params": True}


@pytest.mark.parametrize("policy", [{}, {"drop_last": True}, {"even_batches": False}])
def test_resume_at_every_batch(load: Load, policy: dict[str, bool]) -> None:
    options = {**OPTIONS, **policy, "rank": 1, "world": 2}
    loader, resumed = load(8, **options), load(8, **options)
    loader.set_epoch(3)
    states, batches = [loader.state_dict()], []
    for batch in loader:
        batches.append(copied(batch))
        states.append(json.loads(json.dumps(loader.state_dict())))
    for done, state in enumerate(states):
        resumed.load_state_dict(state)
        resumed.set_epoch(state["epoch"])
        rest = [copied(b) for b in resumed]
        following = batches[done:] if done < len(batches) else [copied(b) for b in loader]
        assert all(same(a, b) for a, b in zip(following, rest, strict=True))
    assert (state["epoch"], state["consumed"]) == (4, 0)
    assert all(same(a, b) for a, b in zip(map(copied, loader), resumed, strict=True))


def test_state_counts_what_the_caller_has_had(load: Load) -> None:
    loader = load(8, rank=0, world=2)
    assert loader.state_dict()["consumed"] == 0
    for n, _ in enumerate(loader, 1):
        state = loader.state_dict()
        assert (state["epoch"], state["consumed"]) == ((0, 16 * n) if n < len(loader) else (1, 0))
    assert loader.state_dict() == state
    loader.load_state_dict({**state, "epoch": 0, "consumed": 16})
    loader.set_epoch(2)  # another epoch than the state's begins at its start
    assert len(indices(loader)) == len(loader.sampler)


@pytest.mark.parametrize(
    ("policy", "end"),
    [({}, SAMPLES), ({"drop_last": True}, SAMPLES // 16 * 16), ({"even_batches": False}, SAMPLES), ({"order": range}, SAMPLES)],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_an_old_state_of_an_epochs_end_is_the_start_of_the_next(load: Load, policy: Any, end: int, rank: int) -> None:
    """Up to fe78ee5 a state counted the samples of the epoch until its iteration had ended."""
    if "order" in policy:
        policy = {"order": lambda epoch: [*range(epoch, SAMPLES), *range(epoch)]}
    options = {**OPTIONS, "shuffle": "order" not in policy, **policy, "rank": rank, "world": 2}
    loader, resumed = load(8, **options), load(8, **options)
    list(loader)
    resumed.load_state_dict({**loader.state_dict(), "epoch": 0, "consumed": end})
    assert all(same(a, b) for a, b in zip(map(copied, loader), resumed, strict=True))
    assert resumed.state_dict() == loader.state_dict()


def test_a_rank_without_the_last_batch_is_not_ahead_of_the_others(load: Load) -> None:
    ranks = [load(8, rank=rank, world=2, even_batches=False, subset=range(33), **OPTIONS) for rank in range(2)]
    states = [[loader.state_dict() for _ in loader] for loader in ranks]
    assert len(states[0]) == 3 and states[1] == states[0][:2]
    assert ranks[0].state_dict() == ranks[1].state_dict() == states[0][2]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fingerprint": "0" * 64}, "other data"),
        ({"content": "0" * 64}, "other content"),
        ({"seed": 6}, "another seed's"),
        ({"shuffle": False}, "order"),
        ({"split": "val"}, "split"),
        ({"version": 2}, "version 2"),
        ({"consumed": -1}, "consumed is -1"),
        ({"consumed": True}, "consumed is True"),
        ({"epoch": None}, "epoch is None"),
        ({"epoch": 2**63}, "epoch is 9223372036854775808"),
    ],
)
def test_foreign_states_are_refused(load: Load, change: dict[str, Any], reason: str) -> None:
    loader = load(8, **OPTIONS)
    with pytest.raises(StateError, match=reason):
        loader.load_state_dict({**loader.state_dict(), **change})


def test_no_state_is_refused(load: Load) -> None:
    with pytest.raises(StateError, match="state is None, want the dictionary"):
        load(8).load_state_dict(None)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, "state holds nothing, and no version"),
        ({"epoch": 1, 2: 3}, "state holds epoch, 2, and no version"),
        ({"version": 1, "split": "train", "epoch": 0}, "state holds version, split, epoch, and no fingerprint"),
    ],
)
def test_a_state_of_something_else_is_refused(load: Load, state: Any, words: str) -> None:
    with pytest.raises(StateError, match=f"^imgfeed: {words}: want the dictionary that a loader's state_dict"):
        load(8).load_state_dict(state)


def test_a_position_beyond_the_end_of_its_epoch_is_refused(load: Load) -> None:
    loader = load(8)
    for consumed in (SAMPLES + 1, 10**12):
        with pytest.raises(StateError, match=f"state whose consumed is {consumed}: epoch 0 has {SAMPLES} samples"):
            loader.load_state_dict({**loader.state_dict(), "consumed": consumed})
    assert len(list(loader)) == len(loader)  # its position is what it was
