"""One iteration of a loader: the batches of an epoch, or of what is left of it."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

from . import client, errors
from .arguments import ARGUMENTS
from .client import Batch, Session
from .outputs import Columns, Output
from .service import Service
from .state import Place, Progress

log = logging.getLogger("imgfeed")

_BLANKS_NAMED = 3  # in the log's line about a batch


@dataclass(frozen=True)
class Needs:
    """What an iteration needs of its loader, which it may outlive."""

    service: Service  # held, as it ends with the last object that uses it
    output: Output
    progress: Progress  # the loader's own, moved with every batch
    timeout: float  # seconds; 0 waits for ever
    with_index: bool


class EpochIterator(Iterator[Columns]):
    """Gives the batches of a running epoch. A newer iteration of the same loader ends it, and so does letting go of it."""

    def __init__(self, needs: Needs, session: Session, started: client.Epoch, number: int) -> None:
        """Take an epoch that the session has started. number is the iteration's by :meth:`Progress.begin`."""
        self._needs = needs
        self._started = started
        self._number = number
        self._left = started.batches
        self._fetch = _Fetch(session, started.epoch, needs.timeout, needs.with_index)
        self._next = needs.output.batches(self._fetch, 0 if session.ring is None else session.ring.slots)
        self._over = False
        self._stop = weakref.finalize(self, session.stop, started)
        self._stop.atexit = False  # then the session ends, and the epoch with it

    @property
    def timeout(self) -> float:
        """Seconds to wait for a batch before TimeoutError; 0 waits for ever."""
        return self._fetch.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._fetch.timeout = ARGUMENTS["timeout"].metadata["kind"].check("timeout", seconds)

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
        try:
            following = self._next()
        except errors.TimeoutError:
            raise
        except errors.ImgfeedError as e:
            self._end()  # the epoch itself has not come to its end: its place stays after the last batch
            if isinstance(e, errors.ServerError):
                needs.service.reraise(e)
            raise
        if following is None:
            self._end()
            needs.output.drain()
            needs.progress.end(self._started.epoch)
            raise StopIteration
        batch, columns = following
        self._left -= 1
        needs.progress.reached = Place(self._started.epoch, batch.consumed)
        return columns

    def _end(self) -> None:
        """Give no more, and leave it to the server, which has ended the epoch."""
        self._over = True
        self._stop.detach()


class _Fetch:
    """Gives the session's next batch as it came. It knows no iterator, which goes when its caller lets go of it."""

    def __init__(self, session: Session, epoch: int, timeout: float, with_index: bool) -> None:
        self.timeout = timeout
        self._session = session
        self._epoch = epoch
        self._with_index = with_index

    def __call__(self) -> Batch | None:
        batch = self._session.next(self.timeout or None)
        if batch is not None:
            if batch.blank:
                self._warn(batch)
            if not self._with_index:
                batch.arrays.indices = None  # no tensor is made, and no copy, of what nobody gets
        return batch

    def _warn(self, batch: Batch) -> None:
        """Log which samples of a batch are blank: the first few by their keys."""
        assert batch.arrays.indices is not None
        names = []
        with contextlib.suppress(errors.ImgfeedError):  # the batch is there, whether its keys can be had or not
            names = [self._session.key(int(batch.arrays.indices[place])) for place in batch.blank[:_BLANKS_NAMED]]
        if len(batch.blank) > len(names):
            names.append("…")
        text = "imgfeed: epoch %d, batch %d: %d blank samples, which can't be read: %s"
        log.warning(text, self._epoch, batch.number, len(batch.blank), ", ".join(names))
