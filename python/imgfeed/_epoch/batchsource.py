"""The batches of an epoch, from one server or the next, and the unreadable samples in them."""

import logging
import time
from collections.abc import Sized
from dataclasses import dataclass

from .. import errors, records
from .._arguments.arguments import Options
from .._server.client import Batch
from .._server.service import Service
from .._server.sets import Selected
from .state import Position

log = logging.getLogger("imgfeed")

_LOGGED = 3  # samples, in the line about a batch
_LISTED = 100  # samples, in the error
_LOSSES_MAX = 3  # of the loader's own servers without a batch in between: then data or machine are at fault


@dataclass(frozen=True)
class BadSample:
    """An unreadable sample, at its first time."""

    index: int
    #: Its name in the dataset, empty where that can't be read either.
    key: str
    #: The sample of its class that was delivered instead, None if a blank was.
    by: int | None
    #: Why, with file, record and offset where the shard is at fault.
    error: str
    epoch: int

    def __str__(self) -> str:
        named = f"sample {self.index} ({self.key})" if self.key else f"sample {self.index}"
        return f"{named}: {self.error}"


class BadSamples:
    """The bad samples that a loader has met, each once, and how many of them it bears."""

    def __init__(self, most: int | None) -> None:
        """Begin with none. most is how many may be bad; None: any number."""
        self.most = most
        self.met: dict[int, BadSample] = {}

    def note(self, batch: Batch, epoch: int, number: int) -> None:
        """Log the bad samples of an epoch's batch, and remember them. Raises TooManyBadError where they are too many by now."""
        told = []
        for one in batch.bad:
            sample = BadSample(one["index"], one.get("key", ""), one.get("by"), one["error"], epoch)
            self.met.setdefault(sample.index, sample)
            name = sample.key or f"sample {sample.index}"
            told.append(name if sample.by is None else f"{name} (replaced by sample {sample.by})")
        what = "blank" if any(one.get("by") is None for one in batch.bad) else "substituted"
        more = ["…"] if len(told) > _LOGGED else []
        text = "imgfeed: epoch %d, batch %d: %d %s %s, which can't be read: %s"
        log.warning(text, epoch, number, len(told), what, _samples(told), ", ".join(told[:_LOGGED] + more))
        if self.most is not None and len(self.met) > self.most:
            lines = [str(sample) for sample in list(self.met.values())[:_LISTED]]
            if len(self.met) > _LISTED:
                lines.append(f"and {len(self.met) - _LISTED} more")
            text = f"imgfeed: {len(self.met)} {_samples(self.met)} can't be read, and max_bad is {self.most}:"
            raise errors.TooManyBadError("\n".join([text, *lines]))


def _samples(listed: Sized) -> str:
    return "sample" if len(listed) == 1 else "samples"


class BatchSource:
    """Gives the batches of the rest of an epoch. It holds no iterator, so that an iterator can be freed with its caller.

    The cursor is the client's: how many samples all ranks have had. After a loss the next session begins there.
    """

    def __init__(self, service: Service, at: Position, selected: Selected | None, options: Options, bad: BadSamples) -> None:
        self.timeout = options.timeout  # seconds for each batch
        self._bad = bad
        self._service = service
        self._selected = selected
        self._with_records = options.with_params == "records"
        self._losses = 0  # since the last batch
        self._lost_at = 0.0  # time of the first of them
        self._session = service.session(of_rank=True)
        self.begin(at)

    def begin(self, position: Position) -> None:
        #: Where it began.
        self.position = position
        self._consumed = position.consumed
        #: How many batches this rank gets, from there on.
        self.batches = self._left = 0
        try:
            self._start()
        except errors.LostError as e:
            self._resume(e, None)
        self.batches = self._left = self._count

    @property
    def slots(self) -> int:
        """How many batches the shared memory holds; 0 without."""
        return 0 if self._session.ring is None else self._session.ring.slots

    def __call__(self, after: int) -> Batch | None:
        """Return the batch after so many samples of the epoch, all ranks', None after the last.

        Requests a batch lost to a signal handler again. Raises LostError, or TimeoutError, after which the next call continues.
        """
        self._consumed = after
        service, timeout = self._service, self.timeout or None
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._session is not service.current and not service.closed and not self._session.connection.inherited:
            self._resume(None, deadline)  # another thread has met the loss, or this one's wait for its end was broken off
        while True:
            try:
                with self._session.lock:  # another thread may begin an epoch of its own
                    if self._session.consumed != after or self._session.generation != self._generation:
                        self._start()
                    batch = self._session.next(timeout, watch=service.patience > 0)
                break
            except errors.LostError as e:
                self._resume(None if self._session.connection.broken_off else e, deadline)
                timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        if batch is None:
            return None
        self._left = batch.left
        self._losses = 0
        if batch.bad:
            self._bad.note(batch, self.position.epoch, self.batches - batch.left - 1)
        if self._with_records:
            batch.arrays.params = records.of_batch(service, self.position.epoch, batch)
        return batch

    def stop(self) -> None:
        """Have the server decode no more. It is for finalizers: it waits for nothing, and raises nothing."""
        self._session.stop(self._generation)

    def _start(self) -> None:
        try:
            self._count, self._generation = self._session.start(self.position.epoch, self._consumed, self._selected)
        except errors.TimeoutError as e:
            raise errors.LostError(str(e)) from e

    def _resume(self, error: errors.LostError | None, deadline: float | None) -> None:
        """Continue the epoch at another server. error is the loss, for the log; deadline is a time of time.monotonic()."""
        service = self._service
        try:
            while True:
                if error is not None:
                    self._tell(error)
                self._session = service.again(self._session, deadline)
                try:
                    self._start()
                except errors.LostError as e:
                    error = e
                    continue
                return
        finally:
            del error  # its traceback has this frame: together they would keep the lost ring until the collector comes by

    def _tell(self, error: errors.LostError) -> None:
        """Log a loss, or raise it if there is no server to wait for."""
        service = self._service
        now = time.monotonic()
        if self._losses == 0:
            self._lost_at = now
        self._losses += 1
        if service.server is None:
            hopeless = now >= self._lost_at + service.patience
        else:
            hopeless = self._losses > _LOSSES_MAX or not service.patience
        if hopeless or service.closed:
            service.reraise(error)
        what = "starting it again" if service.server else f"waiting up to {service.patience:g} s"
        text, batch = str(service.explained(error)), self.batches - self._left
        log.warning("%s at epoch %d, batch %d; %s", text, self.position.epoch, batch, what)
