"""A loader's position in its data: where it is, where the next iteration begins, and how a checkpoint keeps it."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import errors
from .._arguments.kinds import EPOCH
from .._arguments.numbers import INT64_MAX

log = logging.getLogger("imgfeed")

VERSION = 1


class Position(NamedTuple):
    """An epoch, how many of its samples all ranks together have had, and the name of its order, if it has one."""

    epoch: int
    consumed: int
    order: str | None = None


class Mark(NamedTuple):
    """Where a loader is. Each move makes another mark, so that a thread knows whether another one has moved it meanwhile."""

    reached: Position = Position(0, 0)  # after the last batch that the caller has had; never an epoch's end
    start: Position = Position(0, 0)  # where the next iteration begins
    follows: bool = False  # start is where the running iteration is: its next batch makes start the next epoch
    owner: int = 0  # the number of the iteration whose batches move the mark; 0: none
    skips: int = 0  # how often the caller has moved it on; the owner's batches from before the last skip don't move it
    loaded: bool = False  # from a state, of which no batch has come yet

    def to(self, position: Position, **others: Any) -> "Mark":
        """Return the mark at another position, with other values."""
        return self._replace(reached=position, start=position, **others)

    def after(self, owner: int, skips: int, epoch: int, reached: Position | None) -> "Mark":
        """Return the mark after an iteration's batch of an epoch, or after its end. It is this one if it is not the owner's."""
        if (self.owner, self.skips) != (owner, skips):
            return self
        if reached is None:
            reached = Position(epoch + 1, 0) if self.reached.epoch == epoch else self.reached
        start = Position(epoch + 1, 0) if self.follows else self.start
        return self._replace(reached=reached, start=start, follows=False, loaded=False)


class Progress:
    """How far a loader has come. The loader moves it by hand, its running iteration with every batch.

    Each iteration begins the next epoch, unless the last one gave no batch or the caller has chosen another position since.
    """

    def __init__(self) -> None:
        #: Never changed, only replaced as a whole, and only if it is still the one that the change was made from.
        self.mark = Mark()
        self.iteration = 0  # the number of the newest one, which has ended the others
        self._warned = False

    def move(self, change: Callable[[Mark], Mark]) -> None:
        """Change the mark: anew if another thread has moved it before that, which none can between the last two lines."""
        while True:
            seen = self.mark
            changed = change(seen)
            if self.mark is seen:
                self.mark = changed
                return

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration is. Naming that of a state just loaded keeps the position in it.

        Once an iteration has begun at a loaded position, and before its first batch, an earlier epoch changes nothing either.
        """
        epoch = EPOCH.check("epoch", epoch)

        def change(mark: Mark) -> Mark:
            if mark.loaded and mark.follows and epoch < mark.start.epoch:
                return mark
            if mark.start.epoch != epoch:
                mark = mark._replace(start=Position(epoch, 0), follows=False)
            return mark if mark.reached.epoch == epoch else mark._replace(reached=Position(epoch, 0))

        self.move(change)

    def begin(self, seen: Mark, position: Position) -> Mark | None:
        """Note that an iteration has begun at position, and return its mark; None if the mark has moved since it was seen."""
        left, mark = seen.reached, seen.to(position, follows=True, owner=self.iteration + 1)
        if self.mark is not seen:
            return None
        self.mark, self.iteration = mark, mark.owner
        if left.consumed and left.epoch < seen.start.epoch and not self._warned:
            self._warned = True
            log.warning(
                "imgfeed: epoch %d was left after %d samples, and this iteration begins epoch %d; set_epoch() chooses another",
                left.epoch,
                left.consumed,
                position.epoch,
            )
        return mark

    def skip(self, beyond: Callable[[Position], Position]) -> None:
        """Continue at the position that beyond returns for the one reached; so does a running iteration."""
        self.move(lambda mark: mark.to(beyond(mark.reached), follows=True, skips=mark.skips + 1))

    def load(self, position: Position) -> None:
        """Go on at position, and let no running iteration move it."""
        self.move(lambda mark: mark.to(position, follows=False, owner=0, loaded=True))


def make(position: Position, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state. identity names data and order: split, fingerprint, content, encoding, seed, shuffle, selection."""
    order = {} if position.order is None else {"order": position.order}
    named = {name: value for name, value in identity.items() if value is not None}
    return {"version": VERSION, **named, "epoch": position.epoch, "consumed": position.consumed, **order}


def check(state: Mapping[str, Any], identity: Mapping[str, Any]) -> Position:
    """Return a state's position; raise StateError for other data or order. Batch size, world and encoding may differ."""
    if not isinstance(state, Mapping):
        raise errors.StateError(f"imgfeed: state is {state!r:.80}, want the dictionary that state_dict() gave")
    if missing := [name for name in make(Position(0, 0), identity) if name not in (*state, "content", "encoding", "selection")]:
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
    if state.get("encoding") == identity["encoding"] and state.get("content") and identity["content"]:
        reasons["content"] = "its samples had other content"
    for name, reason in reasons.items():
        if state.get(name) != identity[name]:
            raise errors.StateError(
                f"imgfeed: this state can't be resumed here: {reason} "
                f"({name} is {state.get(name)!r:.200}, this loader's is {identity[name]!r})"
            )
    order = state.get("order")
    if not isinstance(order, (str, type(None))):
        raise errors.StateError(f"imgfeed: state whose order is {order!r:.80}: want a name, or none")
    return Position(_count(state, "epoch"), _count(state, "consumed"), order)


def _count(state: Mapping[str, Any], name: str) -> int:
    number = state.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= INT64_MAX:
        raise errors.StateError(f"imgfeed: state whose {name} is {number!r:.80}: want a whole number, 0 or more")
    return number
