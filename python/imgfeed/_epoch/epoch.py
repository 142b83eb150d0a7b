"""One iteration of a loader: the batches of an epoch, or of the rest of it, and the time that the caller waits for them."""

import operator
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

from .. import errors
from .._arguments.arguments import ARGUMENTS
from .._server.client import Batch
from . import accelerated
from .batchsource import BatchSource
from .outputs import Columns, Fetch, Output, collated
from .state import Mark, Position, Progress

_ENDED = "imgfeed: a newer iteration of this loader has ended this one: threads share one iter(loader), or have a loader each"
_WITHIN = "imgfeed: collate_fn, or a signal's handler during it, has called next() of this iteration, and has got its batch"


@dataclass(frozen=True)
class Account:
    """Sums over batches, or the difference of two of them."""

    images: int = 0
    batches: int = 0
    seconds: float = 0.0  # from an epoch's begin, or from one batch to the next
    waited: float = 0.0  # of these, in the loader, until it had the batch

    def __sub__(self, other: "Account") -> "Account":
        return Account(*map(operator.sub, astuple(self), astuple(other)))

    @property
    def images_per_second(self) -> float:
        """Images in a second of the caller's, 0 before the first."""
        return self.images / self.seconds if self.seconds else 0.0

    @property
    def wait_fraction(self) -> float:
        """The share of time, 0 to 1, that the caller has waited for data."""
        return self.waited / self.seconds if self.seconds else 0.0


class Meter:
    """Measures a loader's iterations. It is the caller's side: the server's statistics say what the server waits for."""

    def __init__(self) -> None:
        self.total = Account()  # of all epochs
        self._before = Account()  # the total at the running epoch's begin
        self._mark = 0.0  # when the last batch was handed out, or the epoch began

    @property
    def epoch(self) -> Account:
        """The running epoch's account, or the last one's."""
        return self.total - self._before

    def begin(self) -> None:
        self._before = self.total
        self._mark = time.perf_counter()

    def add(self, images: int, asked: float) -> None:
        """Note a delivered batch, and when the caller asked for it, by time.perf_counter()."""
        now, t = time.perf_counter(), self.total
        self.total = Account(t.images + images, t.batches + 1, t.seconds + now - self._mark, t.waited + now - asked)
        self._mark = now


def _tell(epoch: int, account: Account, verdict: str) -> None:
    """Print a line about an epoch to stderr, above the bar of tqdm where there is one."""
    images = "1 image" if account.images == 1 else f"{account.images:,} images"
    line = (
        f"imgfeed: epoch {epoch}: {images} in {account.seconds:.1f} s, {account.images_per_second:,.0f}/s; "
        f"waited for data for {account.wait_fraction:.0%} of the time; {verdict}"
    )
    tqdm: Any = sys.modules.get("tqdm")
    if tqdm is not None:
        tqdm.tqdm.write(line, file=sys.stderr)
    else:
        print(line, file=sys.stderr)


@dataclass(frozen=True)
class Needs:
    """The parts of a loader that an iteration uses, and may outlive."""

    output: Output
    collate: Callable[[list[Any]], Any] | None  # makes of single samples what the caller gets, if not the output alone
    progress: Progress  # the loader's own, moved with every batch
    after: Callable[[Position], Position]  # gives the same position, or the next epoch's start for an epoch's end
    meter: Meter
    verdict: Callable[[], str] | None  # asks the server what it waits for, where a line is to be printed after an epoch


class _At(NamedTuple):
    """Where the caller is: after the last batch that it has got."""

    position: Position
    left: int  # batches
    skips: int  # how often the loader's position had been moved on by hand


class EpochIterator(Iterator[Columns]):
    """Gives the batches of a running epoch. A newer iteration of the same loader ends it, and so does letting go of it."""

    def __init__(self, needs: Needs, source: BatchSource, mark: Mark, fetch: Fetch, slots: int, *, remainder: int) -> None:
        """Take an epoch that has begun. mark is the iteration's by ``Progress.begin``; fetch gives the source's batches, or
        what was made of them, and slots is how many of these shared memory holds, 0 for none. remainder is for Accelerate.
        """
        self.remainder = remainder
        self._needs = needs
        self._source = source
        self._number = mark.owner
        self._at = _At(source.position, source.batches, mark.skips)
        self._lock = threading.RLock()  # threads may share an iteration
        self._next = needs.output.batches(fetch, slots)
        self._over = False
        self._half = source.batches // 2  # left when the server is asked; at the end it waits for nothing
        self._verdict = "too short to tell what the server waits for"
        needs.meter.begin()
        self._stop = weakref.finalize(self, source.stop)
        self._stop.atexit = False  # then the session ends, and the epoch with it

    def __repr__(self) -> str:
        return f"<imgfeed EpochIterator: epoch {self._at.position.epoch}, {len(self)} batches left>"

    @property
    def timeout(self) -> float:
        """Seconds to wait for a batch before TimeoutError; 0 waits for ever."""
        return self._source.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._source.timeout = ARGUMENTS["timeout"].metadata["kind"].check("timeout", seconds)

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the last batch was handed out, as Accelerate asks its loaders."""
        return not self._at.left

    def __len__(self) -> int:
        """Return how many batches are left."""
        return self._at.left

    def __next__(self) -> Columns:
        """Return the next batch.

        An exception from a signal handler leaves the iteration where it was: no call follows the last change of position.
        """
        needs, before, progress = self._needs, self._at, self._needs.progress
        seen = moved = progress.mark
        try:
            with self._lock:
                before = self._at
                asked = time.perf_counter()
                batch, columns = self._take()
                taken = self._at
                position = Position(self._at.position.epoch, batch.consumed, self._at.position.order)
                at = _At(position, batch.left, self._at.skips)
                if needs.collate is not None:
                    try:
                        columns = collated(columns, needs.collate)
                    except Exception as e:
                        if not _of_a_signal(e):
                            before = at  # the caller's own function fails, and would again
                        raise
                if needs.verdict is not None and batch.left == self._half and batch.left:
                    self._verdict = f"the server, half-way: {needs.verdict()}"
                needs.meter.add(len(batch.arrays.labels), asked)
                if needs.verdict is not None and not batch.left:
                    _tell(position.epoch, needs.meter.epoch, self._verdict)
                accelerated.begin(self)
                reached = position if batch.left else needs.after(position)
                while self._at is not at:
                    if self._at is not taken:
                        before = self._at
                        raise errors.ImgfeedError(_WITHIN)
                    seen = progress.mark
                    moved = seen.after(self._number, at.skips, position.epoch, reached)
                    if progress.mark is seen:  # no other thread has moved it meanwhile
                        self._at, progress.mark = at, moved
            return columns
        except BaseException:
            self._at = before
            if progress.mark is moved:
                progress.mark = seen
            raise

    def _take(self) -> tuple[Batch, Columns]:
        """Return the batch that follows. Raises StopIteration after the last."""
        needs = self._needs
        if self._over:
            raise StopIteration
        if needs.progress.iteration != self._number:
            raise errors.ImgfeedError(_ENDED)
        try:
            mark = needs.progress.mark
            if mark.owner == self._number and mark.skips != self._at.skips:
                self._skip(mark)
            following = self._next(self._at.position.consumed) if self._at.left else None
        except errors.TimeoutError:
            raise
        except errors.ImgfeedError:
            self._end()  # the epoch itself has not come to its end: its position stays after the last batch
            raise
        left = 0 if following is None else following[0].left + 1
        if left != self._at.left:
            raise errors.ServerError(
                f"imgfeed: {self._at.left} batches of epoch {self._at.position.epoch} are left, and the server that came back "
                f"has {left}: is it of another release?"
            )
        if following is None:
            self._finish()
            raise StopIteration
        return following

    def _skip(self, mark: Mark) -> None:
        """Continue at the loader's new position. If that lies in another epoch, this iteration is over."""
        if mark.reached.epoch != self._at.position.epoch:
            self._stop()
            self._over = True
            raise StopIteration
        self._source.begin(mark.reached)
        self._at = _At(mark.reached, self._source.batches, mark.skips)

    def _finish(self) -> None:
        self._needs.output.drain()
        at = self._at
        self._needs.progress.move(lambda mark: mark.after(self._number, at.skips, at.position.epoch, None))
        accelerated.end(self)
        self._end()

    def _end(self) -> None:
        """Give no more, and leave it to the server, which has ended the epoch."""
        self._over = True
        self._stop.detach()


def _of_a_signal(error: BaseException | None) -> bool:
    """Return whether a signal's handler raised an error, or what caused it: a handler is a call with its caller's frame."""
    while error is not None:
        caller, trace = None, error.__traceback__
        while trace is not None:
            values = trace.tb_frame.f_locals.values()
            if caller and any((v[-1] if isinstance(v, tuple) and v else v) is caller for v in values):
                return True
            caller, trace = trace.tb_frame, trace.tb_next
        error = error.__cause__
    return False
