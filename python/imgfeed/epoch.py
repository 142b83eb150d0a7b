"""One iteration of a loader: the batches of an epoch, or of the rest of it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import errors
from .arguments import ARGUMENTS
from .feed import Feed
from .meter import Meter, tell
from .outputs import Columns, Output, collated
from .state import Progress


@dataclass(frozen=True)
class Needs:
    """What an iteration needs of its loader, which it may outlive."""

    output: Output
    collate: Callable[[list[Any]], Any] | None  # makes of single samples what the caller gets, if not the output alone
    progress: Progress  # the loader's own, moved with every batch
    meter: Meter
    verdict: Callable[[], str] | None  # asks the server what it waits for, where a line is to be printed after an epoch


class EpochIterator(Iterator[Columns]):
    """Gives the batches of a running epoch. A newer iteration of the same loader ends it, and so does letting go of it."""

    def __init__(self, needs: Needs, feed: Feed, number: int) -> None:
        """Take an epoch that has begun. number is the iteration's by :meth:`Progress.begin`."""
        self._needs = needs
        self._feed = feed
        self._number = number
        self._skips = needs.progress.skips
        self._left = feed.batches
        self._next = needs.output.batches(feed, feed.slots)
        self._over = False
        self._half = feed.batches // 2  # left when the server is asked; at the end it waits for nothing
        self._verdict = "too short to tell what the server waits for"
        needs.meter.begin()
        self._stop = weakref.finalize(self, feed.stop)
        self._stop.atexit = False  # then the session ends, and the epoch with it

    @property
    def timeout(self) -> float:
        """Seconds to wait for a batch before TimeoutError; 0 waits for ever."""
        return self._feed.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._feed.timeout = ARGUMENTS["timeout"].metadata["kind"].check("timeout", seconds)

    def __len__(self) -> int:
        """Return how many batches are left."""
        return self._left

    def __next__(self) -> Columns:
        """Return the next batch."""
        needs = self._needs
        if self._over:
            raise StopIteration
        if needs.progress.iteration != self._number:
            raise errors.ImgfeedError("imgfeed: a newer iteration of this loader has ended this one")
        asked = time.perf_counter()
        try:
            if needs.progress.skips != self._skips:
                self._skip()
            following = None if self._over else self._next()
        except errors.TimeoutError:
            raise
        except errors.ImgfeedError:
            self._end()  # the epoch itself has not come to its end: its place stays after the last batch
            raise
        if self._over:
            raise StopIteration
        if following is None:
            self._end()
            needs.output.drain()
            needs.progress.end(self._feed.place.epoch)
            if needs.verdict is not None:
                tell(self._feed.place.epoch, needs.meter.epoch, self._verdict)
            raise StopIteration
        batch, columns = following
        if needs.collate is not None:
            columns = collated(columns, needs.collate)
        self._left -= 1
        needs.progress.reached = self._feed.place._replace(consumed=batch.consumed)
        if needs.verdict is not None and self._left == self._half and self._left:
            self._verdict = f"the server, half-way: {needs.verdict()}"
        needs.meter.add(len(batch.arrays.labels), asked)
        return columns

    def _skip(self) -> None:
        """Go on where the loader's place was moved to. Where that is in another epoch, this iteration is over."""
        needs, feed = self._needs, self._feed
        self._skips = needs.progress.skips
        needs.output.drain()
        place = needs.progress.start
        if place.epoch != feed.place.epoch:
            self._stop()
            self._over = True
            return
        needs.progress.resume(place)
        feed.begin(place)
        self._left = feed.batches
        self._next = needs.output.batches(feed, feed.slots)

    def _end(self) -> None:
        """Give no more, and leave it to the server, which has ended the epoch."""
        self._over = True
        self._stop.detach()
