"""A run that is to stop and waits for its feed: it keeps the last whole step and ends, also where not all its ranks wait."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from .checkpoint.keeper import Keeper
from .checkpoint.last_step import LastStep
from .launch.notes import Notes
from .launch.place import Place
from .launch.standstill import Standstill
from .launch.stop import StarvedError, Stop
from .step import Step
from .watch.lines import Lines

TOGETHER = 5.0  # seconds in which ranks that can't stop each by itself must all wait for their feed


def apart(step: Step, place: Place) -> bool:
    """Return whether ranks can stop each by itself, wherever the others are.

    On GPUs a rank runs ahead of its collectives, so that nobody knows which step was whole.
    """
    return place.world > 1 and step.device.type == "cpu"


class Starved:
    """What becomes of one rank's training where it waits for a lost feed, or for ranks that do."""

    def __init__(self, last: LastStep, stop: Stop, lines: Lines, keeper: Keeper, notes: Notes) -> None:
        """Take what the training keeps of its last whole step, and what saves that."""
        self._last, self._stop, self._lines, self._keeper, self._notes = last, stop, lines, keeper, notes
        self._apart = apart(last.step, notes.place)
        self.anywhere = self._apart or notes.place.world == 1  # whether it may stop at whatever it waits for
        self.ended = False  # whether it has stopped so, at the last whole step

    def run(self, epochs: Callable[[], bool], save: Callable[[str], None]) -> bool:
        """Return what epochs returns, or False where it was stopped while it waited. save keeps a state of all ranks."""
        with contextlib.ExitStack() as stack:
            watch: Standstill | None = None
            if self._apart:
                notes = self._notes
                watch = Standstill(notes.place, notes.store, self._stop, self._last.part, self._save)
                stack.enter_context(contextlib.closing(watch))
            while not self.ended:
                try:
                    return epochs()
                except StarvedError:
                    self.ended = self._saved(watch, save)
                except RuntimeError:  # of a collective, maybe
                    if watch is None or not watch.stopped():
                        raise
                    self.ended = True
            self._stop.end()
            return False

    def _saved(self, watch: Standstill | None, save: Callable[[str], None]) -> bool:
        """Save the last whole step; return False where the rank must go on waiting, as another, which computes, needs it."""
        last = self._last
        if watch is not None:
            watch.stop_at(last.name)
        elif self.anywhere:
            self._save([last.part(last.name)])
        else:
            last.rewind()  # the wait may have ended after the loader had moved on
            if not self._notes.together(last.at.epoch, last.at.batches, TOGETHER):
                return False
            save("last.pt")
        return True

    def _save(self, parts: Sequence[bytes]) -> None:
        """Keep the last whole step, of the parts of all ranks; rank 0 does so without the others."""
        at = self._last.at
        at.seconds = self._lines.seconds(at)
        state = self._last.state(parts)
        where = f"step {at.steps}, batch {at.batches} of epoch {at.epoch}"
        self._last.step.check_finite(where, kept=True, weights=state["model"].values())
        self._keeper.save_alone(state, "last.pt")
