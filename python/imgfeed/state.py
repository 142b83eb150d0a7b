"""A loader's place in its data: where it is, where the next iteration begins, and how a checkpoint keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from . import errors
from .arguments import EPOCH, INT64_MAX

VERSION = 1


class Place(NamedTuple):
    """A place in the data: an epoch, and how many of its samples all ranks together have had."""

    epoch: int
    consumed: int


class Progress:
    """How far a loader has come. The loader moves it by hand, its running iteration with every batch."""

    def __init__(self) -> None:
        """Begin with epoch 0."""
        self.reached = Place(0, 0)  # after the last batch that the caller has had
        self.start = Place(0, 0)  # where the next iteration begins
        self.iteration = 0  # the number of the one that runs; a newer one has ended the others

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration is. Naming that of a state just loaded keeps the place in it."""
        epoch = EPOCH.check("epoch", epoch)
        if self.start.epoch != epoch:
            self.start = Place(epoch, 0)
        if self.reached.epoch != epoch:
            self.reached = Place(epoch, 0)

    def begin(self) -> int:
        """Note that an iteration has begun at start, and return its number."""
        self.reached, self.start = self.start, Place(self.start.epoch, 0)
        self.iteration += 1
        return self.iteration

    def end(self, epoch: int) -> None:
        """Note that an iteration has come to the end of its epoch: the next one is the next epoch, unless another was set."""
        self.reached = Place(epoch + 1, 0)
        if self.start.epoch == epoch:
            self.start = self.reached

    def load(self, place: Place) -> None:
        """Go on at place."""
        self.start = self.reached = place


def make(place: Place, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state. identity names the data and the order: split, fingerprint, seed, shuffle."""
    return {"version": VERSION, **identity, "epoch": place.epoch, "consumed": place.consumed}


def check(state: Mapping[str, Any], identity: Mapping[str, Any]) -> Place:
    """Return the place in state, which must name the same data and order as identity.

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
        if state.get(name) != identity[name]:
            raise errors.StateError(
                f"imgfeed: this state can't be resumed here: {reason} "
                f"({name} is {state.get(name)!r}, this loader's is {identity[name]!r})"
            )
    return Place(_count(state, "epoch"), _count(state, "consumed"))


def _count(state: Mapping[str, Any], name: str) -> int:
    number = state.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= INT64_MAX:
        raise errors.StateError(f"imgfeed: state whose {name} is {number!r:.80}: want a whole number, 0 or more")
    return number
