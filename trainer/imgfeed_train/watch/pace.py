"""Where a rank's time goes between two lines: waiting for data, computing, waiting for the other ranks.

In DDP the ranks leave each step together, so their step times are all alike and do not tell who is slow. What differs is how
a rank spends the step. Its own backward ends at one moment, the reduction of the gradients at a later one; in between it
waits for the network and for ranks that are not there yet. The slowest rank has next to nothing of that wait:

    rank 0   data 5 %   compute 40 %   collective 55 %
    rank 1   data 5 %   compute 90 %   collective  5 %      <- the others wait for this one, for its computing

The end of the own backward is marked by a callback of autograd's engine. It is queued when the loss gets its gradient, ahead
of DDP's own, which waits for the reduction; engine callbacks run in the order in which they were queued.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Spent:
    """What one rank did with ``passed`` seconds in ``batches`` batches: all in seconds.

    ``data`` is time without a batch; ``waited`` is how long the process stood in the loader, which on a GPU may be more, since
    the GPU still has work meanwhile. ``compute`` is forward, own backward and optimiser. ``collective`` lies between the end
    of the own backward and that of the gradients' reduction, and with FSDP around its gathering too. The rest went into lines,
    checkpoints and Python.
    """

    passed: float
    waited: float
    data: float
    compute: float
    collective: float
    batches: int


class Pace:
    """The stop-watch of one rank. With CUDA it records events, and waits for the GPU only in :meth:`take`."""

    def __init__(self, device: torch.device, world: int) -> None:
        """Measure on a device, in a world of so many ranks."""
        self._device = device
        self._cuda = device.type == "cuda"
        self._shared = world > 1
        self._start: Any = None  # of the batch under way
        self._own: Any = None
        self._reduced: Any = None
        self._entered: Any = None
        self.begin()

    @property
    def passed(self) -> float:
        """Seconds since the last call of :meth:`take`, or since the epoch began."""
        return time.perf_counter() - self._since

    def begin(self) -> None:
        """Begin at zero: at the start of an epoch."""
        self._since = time.perf_counter()
        self._waited = 0.0
        self._steps: list[tuple[Any, Any, Any, Any]] = []  # begin, end of own backward, reduction's end, end
        self._gaps: list[tuple[Any, Any]] = []  # within forward and own backward

    @property
    def batches(self) -> int:
        """How many batches there have been since the last call of :meth:`take`."""
        return len(self._steps)

    def next(self, batches: Iterator[Any]) -> Any:
        """Return the next batch; what passes until it is there is the wait for data."""
        begun = time.perf_counter()
        batch = next(batches)
        self._waited += time.perf_counter() - begun
        self._start, self._own, self._reduced, self._entered = self._mark(), None, None, None
        return batch

    def enter(self) -> None:
        """Mark that from here to :meth:`leave` this rank waits for others, within its forward or backward."""
        if self._start is not None and self._own is None and self._entered is None:
            self._entered = self._mark()

    def leave(self) -> None:
        """End what :meth:`enter` began, if anything."""
        if self._entered is not None:
            self._gaps.append((self._entered, self._mark()))
            self._entered = None

    def backward(self, loss: torch.Tensor) -> None:
        """Run ``loss.backward()``, and mark the end of this rank's own part and that of the gradients' reduction."""
        if self._shared:
            loss.register_hook(self._queue)
        loss.backward()
        self._reduced = self._mark()

    def _queue(self, _: torch.Tensor) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(self._own_end)

    def _own_end(self) -> None:
        self.leave()
        self._own = self._mark()

    def done(self) -> None:
        """Mark the end of a batch."""
        end = self._mark()
        reduced = self._reduced if self._reduced is not None else end
        self._steps.append((self._start, self._own if self._own is not None else reduced, reduced, end))
        self._start = None

    def take(self) -> Spent:
        """Return what was measured since the last call, and begin at zero."""
        if self._cuda and self._steps:
            self._steps[-1][-1].synchronize()
        now = time.perf_counter()
        passed = now - self._since
        within = sum(self._seconds(a, b) for a, b in self._gaps)
        compute = sum(self._seconds(a, b) + self._seconds(c, d) for a, b, c, d in self._steps) - within
        collective = sum(self._seconds(b, c) for _, b, c, _ in self._steps) + within
        data = min(self._waited, max(0.0, passed - compute - collective)) if self._cuda else self._waited
        spent = Spent(passed, self._waited, data, compute, collective, len(self._steps))
        self.begin()
        self._since = now  # no time between two lines is nobody's
        return spent

    def _mark(self) -> Any:
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _seconds(self, a: Any, b: Any) -> float:
        return float(a.elapsed_time(b)) / 1000 if self._cuda else float(b - a)
