"""A loader's place in its data: where it is, where the next iteration begins, and how a checkpoint keeps it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import errors
from .kinds import EPOCH
from .numbers import INT64_MAX

log = logging.getLogger("imgfeed")

VERSION = 1


class Place(NamedTuple):
    """A place in the data: an epoch, how many of its samples all ranks together have had, and the order if it has a name."""

    epoch: int
    consumed: int
    order: str | None = None


class Progress:
    """How far a loader has come. The loader moves it by hand, its running iteration with every batch.

    Each iteration begins the next epoch, unless the last one gave no batch or the caller has chosen another place since.
    """

    def __init__(self) -> None:
        """Begin with epoch 0."""
        self.reached = Place(0, 0)  # after the last batch that the caller has had; never an epoch's end
        self.start = Place(0, 0)  # where the next iteration begins
        self.begun: Place | None = None  # the very start of the running iteration
        self.iteration = 0  # the number of the one that runs; a newer one has ended the others
        self.skips = 0  # how often the place was moved on by hand
        self._warned = False

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration is. Naming that of a state just loaded keeps the place in it."""
        epoch = EPOCH.check("epoch", epoch)
        if self.start.epoch != epoch:
            self.start = Place(epoch, 0)
        if self.reached.epoch != epoch:
            self.reached = Place(epoch, 0)

    def begin(self, place: Place) -> int:
        """Note that an iteration has begun at place, and return its number."""
        left = self.reached
        if left.consumed and left.epoch < self.start.epoch and not self._warned:
            self._warned = True
            log.warning(
                "imgfeed: epoch %d was left after %d samples, and this iteration begins epoch %d; set_epoch() chooses another",
                left.epoch,
                left.consumed,
                place.epoch,
            )
        self.resume(place)
        self.iteration += 1
        return self.iteration

    def resume(self, place: Place) -> None:
        """Note that the running iteration is at place, and has given no batch from there on."""
        self.reached = self.start = self.begun = place

    def moved(self, reached: Place) -> tuple[Place, Place]:
        """Return reached and start once the running iteration has given a batch, up to reached."""
        assert self.begun is not None
        return reached, Place(self.begun.epoch + 1, 0) if self.start is self.begun else self.start

    def skip(self, place: Place) -> None:
        """Continue at place, beyond the place reached; so does a running iteration."""
        self.load(place)
        self.skips += 1

    def end(self, epoch: int) -> None:
        """Note that the running iteration has come to the end of its epoch."""
        self.reached, self.start = self.moved(Place(epoch + 1, 0) if self.reached.epoch == epoch else self.reached)

    def load(self, place: Place) -> None:
        """Go on at place."""
        self.start = self.reached = place


def make(place: Place, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state. identity names data and order: split, fingerprint, content, encoding, seed, shuffle, selection."""
    order = {} if place.order is None else {"order": place.order}
    named = {name: value for name, value in identity.items() if value is not None}
    return {"version": VERSION, **named, "epoch": place.epoch, "consumed": place.consumed, **order}


def check(state: Mapping[str, Any], identity: Mapping[str, Any]) -> Place:
    """Return the place in state; raise StateError for other data or order. Batch size, world and encoding may differ."""
    if not isinstance(state, Mapping):
        raise errors.StateError(f"imgfeed: state is {state!r:.80}, want the dictionary that state_dict() gave")
    if missing := [name for name in make(Place(0, 0), identity) if name not in (*state, "content", "encoding", "selection")]:
        holds = ", ".join(map(str, state)) or "nothing"
        raise errors.StateError(
            f"imgfeed: state holds {holds:.80}, and no {missing[0]}: want the dictionary that a loader's state_dict() gave"
        )
    if state.get("version") != VERSION:
        raise errors.StateError(f"imgfeed: state of version {state.get('version')!r}; this package reads version {VERSION}")
    reasons = {
        "fingerprint": "it was made on other data",
        "split": "it was made on another split",
        "seed": "its order and its crops are another seed's",
        "shuffle": "its order is another one",
        "selection": "its samples were chosen in another way (subset, weights, repeats, num_samples, order, sampler)",
    }
    for name, reason in reasons.items():
        if state.get(name) != identity[name]:
            raise errors.StateError(
                f"imgfeed: this state can't be resumed here: {reason} "
                f"({name} is {state.get(name)!r}, this loader's is {identity[name]!r})"
            )
    content, here = state.get("content"), identity["content"]
    if state.get("encoding") == identity["encoding"] and content and here and content != here:
        raise errors.StateError(
            f"imgfeed: this state can't be resumed here: its samples had other content "
            f"(content is {content!r:.80}, this loader's is {here!r})"
        )
    order = state.get("order")
    if not isinstance(order, (str, type(None))):
        raise errors.StateError(f"imgfeed: state whose order is {order!r:.80}: want a name, or none")
    return Place(_count(state, "epoch"), _count(state, "consumed"), order)


def _count(state: Mapping[str, Any], name: str) -> int:
    number = state.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= INT64_MAX:
        raise errors.StateError(f"imgfeed: state whose {name} is {number!r:.80}: want a whole number, 0 or more")
    return number
