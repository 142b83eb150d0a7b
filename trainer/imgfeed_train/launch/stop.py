"""SIGTERM and Ctrl-C: the run saves its place and ends, also while it waits for its feed. A second Ctrl-C ends it at once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any

import torch
import torch.distributed as dist

from .place import Place

AGREE_EVERY = 10  # steps after which several ranks ask each other; asking makes them wait for one another
STARVED = 1.0  # seconds that a run which was asked to stop waits for its feed
ONE_PRESS = 1.0  # seconds in which signals count as one: a terminal and a launcher both send Ctrl-C


class StarvedError(BaseException):
    """The run was asked to stop, and its feed gives it no batch for the step after which it would."""


class Stop:
    """Whether the run was asked to stop. As a context it takes the two signals, and gives them back if it was not.

    A launcher tells one rank after another, and the ranks agree faster: the signal may reach a rank that has stopped already.
    Its process has a report to write and a status to exit with, and must not die of it. So after a stop SIGTERM is ignored
    until the process ends, and Ctrl-C means the same as before.

    A feed that is lost may be waited for for minutes. Once the run was asked to stop, an alarm each second ends such a wait.
    """

    def __init__(self, place: Place, device: torch.device) -> None:
        """Ask on behalf of this rank."""
        self._place, self._device = place, device
        self._asked = False  # by a signal of its own, or by that of another rank
        self._pressed_at: float | None = None  # when the first signal of its own came
        self._agreed = False
        self._waits_since: float | None = None
        self._before: dict[int, Any] = {}
        self._pipe: tuple[int, int] | None = None  # into which signals write at once
        self._woken_before = -1  # where they wrote before

    def __enter__(self) -> Stop:
        """Take the signals."""
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)}
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._alarm)
        self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._woken_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Give them back, unless the run stops."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.set_wakeup_fd(self._woken_before)
        for fd in self._pipe or ():
            os.close(fd)
        self._pipe = None
        signal.signal(signal.SIGALRM, self._before.pop(signal.SIGALRM))
        if self._agreed:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # which holds to the very end; Python drops its own handlers before
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._pressed_at is None:  # where another rank was asked first, this is the same press, on its way for so long
            self._pressed_at = now
        elif number == signal.SIGINT and now - self._pressed_at > ONE_PRESS:
            raise KeyboardInterrupt
        self.ask()

    def pressed(self) -> bool:
        """Return whether a signal has come since the last call, also to a thread that may not run Python yet."""
        try:
            came = os.read(self._pipe[0], 4096) if self._pipe else b""
        except BlockingIOError:
            return False
        return any(number in came for number in (signal.SIGTERM, signal.SIGINT))

    def ask(self) -> None:
        """Have the run stop, as a signal does; any thread may."""
        if not self._asked and self._pipe is not None:
            self._asked = True
            signal.setitimer(signal.ITIMER_REAL, STARVED / 2, STARVED / 2)
            if self._place.rank == 0:  # not by print, which this may have interrupted
                os.write(2, b"imgfeed-train: stopping after this step, with a checkpoint; Ctrl-C again ends it at once\n")

    def _alarm(self, number: int, frame: FrameType | None) -> None:
        if self._waits_since is not None and time.monotonic() > self._waits_since + STARVED:
            raise StarvedError

    @contextlib.contextmanager
    def waiting(self, armed: bool = True) -> Iterator[None]:
        """Hold a wait for the feed. If it is armed, StarvedError ends it where it lasts and the run was asked to stop."""
        self._waits_since = time.monotonic() if armed else None
        try:
            yield
        finally:
            self._waits_since = None

    def each(self, batches: Iterable[Any], armed: bool = True) -> Iterator[Any]:
        """Yield batches, which are waited for in this way."""
        with self.waiting(armed):
            left = iter(batches)
        while True:
            with self.waiting(armed):
                batch = next(left, None)
            if batch is None:
                return
            yield batch

    def end(self) -> None:
        """Note that the run stops: all ranks have agreed to in another way than :meth:`agreed`."""
        self._agreed = True

    def agreed(self, steps: int = 0) -> bool:
        """Return whether any rank was asked, the same on all. All call it, after as many steps, which say if it is time."""
        asked = self._asked
        if self._place.world > 1:
            if steps % AGREE_EVERY:
                return False
            flag = torch.tensor(float(asked), device=self._device)
            dist.all_reduce(flag, dist.ReduceOp.MAX)
            asked = bool(flag)
        if asked:  # and never back, as a signal may have come meanwhile
            self._asked = True
        self._agreed = asked
        return asked
