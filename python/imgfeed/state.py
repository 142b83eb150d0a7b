"""A loader's place in its data, as a checkpoint keeps it: small, readable, JSON-able."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import errors

VERSION = 1


def make(*, epoch: int, consumed: int, seed: int, shuffle: bool, fingerprint: str, split: str) -> dict[str, Any]:
    """Return a state. consumed counts the samples of this epoch that all ranks together have had."""
    return {
        "version": VERSION,
        "split": split,
        "fingerprint": fingerprint,
        "seed": seed,
        "shuffle": shuffle,
        "epoch": epoch,
        "consumed": consumed,
    }


def check(state: Mapping[str, Any], **want: Any) -> tuple[int, int]:
    """Return epoch and consumed of state, which must name the same data and order as want.

    Raises StateError with what differs. Batch size and world may differ from those of the loader that made the state.
    """
    if not isinstance(state, Mapping):
        raise errors.StateError(f"imgfeed: state is {state!r:.80}, want the dictionary that state_dict() gave")
    if state.get("version") != VERSION:
        raise errors.StateError(f"imgfeed: state of version {state.get('version')!r}; this package reads version {VERSION}")
    reasons = {
        "fingerprint": "it was made on other data",
        "split": "it was made on another split",
        "seed": "its order and its crops are another seed's",
        "shuffle": "its order is another one",
    }
    for name, reason in reasons.items():
        if state.get(name) != want[name]:
            raise errors.StateError(
                f"imgfeed: this state can't be resumed here: {reason} "
                f"({name} is {state.get(name)!r}, this loader's is {want[name]!r})"
            )
    epoch, consumed = state.get("epoch"), state.get("consumed")
    if not isinstance(epoch, int) or not isinstance(consumed, int) or epoch < 0 or consumed < 0:
        raise errors.StateError(f"imgfeed: state with epoch {epoch!r} and consumed {consumed!r}: want two numbers from 0 on")
    return epoch, consumed
