"""The processes that run a caller's function on an epoch's batches, and their tasks.

A task is a batch that processes work on. It holds the batch's slot, and a buffer for the results, until all of them have
answered or are dead. When the caller leaves an iteration, its tasks stay in the queue until they are answered.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import util
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .. import errors
from .._epoch import outputs
from .._epoch.batchsource import BatchSource
from .._server.client import Batch
from .._server.ring import Arrays, Packed
from .._server.service import Form, Service
from .._server.sets import Array
from .step import TEXT, WANTED, Step
from .worker import BUFFERS, LOOK, Order, Shared, Worker

_AHEAD = BUFFERS - 4  # batches that processes work on, or have finished, before the caller asks for them


class _Lease:
    """Stands for a buffer, which is free when no task and no array of the caller's refers to its lease."""

    def array(self, memory: Array) -> Array:
        """Return the buffer's memory as an array; numpy keeps the lease as the base of its views."""
        self._memory, self.__array_interface__ = memory, memory.__array_interface__
        return np.asarray(self)


class _Task(NamedTuple):
    order: Order
    workers: range  # the processes
    batch: Batch
    slot: Arrays
    lease: _Lease


class Steps:
    """The processes of a loader, which live from its first batch to its end, and their tasks."""

    def __init__(self, step: Step, workers: int, form: Form, service: Service) -> None:
        """Start nothing yet: the first batch says what processes look at. form is that of all batches."""
        self._step, self._count, self.form, self._service = step, workers, form, service
        self._queue: deque[_Task] = deque()  # in the order of the answers
        self._number = 0  # of the last task
        self._at: int | None = None  # the samples consumed before the queue's first batch, if the last call has ended well
        self._owner = 0  # the process that started them
        self._lock = threading.RLock()  # held while a batch is made: threads that share an iteration take turns

    def begin(self, source: BatchSource) -> outputs.Fetch:
        """Return a function that gives an epoch's batches as the caller's function made them."""
        self._at = None
        return lambda after: self._next(source, after)

    def _next(self, source: BatchSource, after: int) -> Batch | None:
        """Return the batch after so many samples of the epoch, None after the last. See ``BatchSource``."""
        with self._lock:
            if self._owner != os.getpid():
                self.close()  # the processes belong to the parent
            at, self._at = self._at, None
            if at != after:
                self._drain(source.timeout)
            self._fill(source, after)
            if not self._queue:
                return None
            self._wait(self._queue[0].order.number, self._queue[0].workers, source.timeout)
            batch = self._done(self._queue.popleft())
            self._at = batch.consumed
            return batch

    def _drain(self, timeout: float) -> None:
        """Empty the queue once all its tasks are answered. Processes finish only the calls that have begun."""
        self._over = False
        self._error: errors.ImgfeedError | None = None  # raised after the batches in the queue
        while self._queue:
            self._shared.states["skip"] = self._number + 1
            with contextlib.suppress(errors.MapError):  # nobody gets this batch; the processes have ended, and all tasks
                self._give(self._queue[0], timeout)  # again, in case a signal interrupted it
                self._wait(self._queue[0].order.number, self._queue[0].workers, timeout)
                self._queue.popleft()

    def _fill(self, source: BatchSource, after: int) -> None:
        queue = self._queue
        if not queue and self._error is not None:
            raise self._error
        while not self._over and self._error is None and len(queue) < _AHEAD and (not queue or self._free()):
            try:
                batch = source(queue[-1].batch.consumed if queue else after)
            except errors.ImgfeedError as e:
                if not queue:
                    raise
                self._error = e
                return
            if batch is None:
                self._over = True
                return
            if not self._owner:
                self._start(batch)
            queue.append(self._task(batch, source.position.epoch))
            self._give(queue[-1], source.timeout)

    def _free(self) -> list[int]:
        return [number for number, lease in enumerate(self._leases) if lease() is None]

    def _task(self, batch: Batch, epoch: int) -> _Task:
        arrays, count, shared = batch.arrays, len(batch.arrays.labels), self._shared
        if not (free := self._free()):
            raise errors.MapError(f"imgfeed: {self._step.name}: exceptions hold all buffers: let go of their tracebacks")
        lease = _Lease()
        self._leases[free[0]] = weakref.ref(lease)
        columns, begin = shared.columns(arrays), shared.ring.__array_interface__["data"][0]
        offsets: list[int] | None = [column.__array_interface__["data"][0] - begin for column in columns]
        if not all(0 <= at < shared.ring.nbytes for at in offsets or ()):  # a private copy, or a ring newer than the processes
            offsets = None
            for part, column in zip(shared.inputs, columns, strict=True):
                np.copyto(part.of(shared.copies[free[0]], count), column)
        self._number += 1
        workers = range(min(count, self._count))
        if self._step.whole:
            n = self._number % self._count if shared.results is not None else 0  # process 0 finds out shape and type
            workers = range(n, n + 1)
        batch.arrays = replace(arrays, images=[], labels=np.empty(count, np.int64))
        return _Task(Order(self._number, free[0], count, epoch, offsets), workers, batch, arrays, lease)

    def _give(self, task: _Task, timeout: float) -> None:
        """Send a task to its processes, which ignore it if they have it. Process 0's first result fixes shape and type."""
        shared = self._shared
        for n in task.workers:
            like = None if shared.results is None else (shared.parts, shared.results.shape[1])
            with contextlib.suppress(OSError):  # a dead process is reported when its answer is due
                self._sockets[n].send(pickle.dumps((task.order, like)), socket.MSG_NOSIGNAL)
            if like is None:
                self._wait(task.order.number, range(1), timeout)
                if said := bytes(shared.states[0]["results"]):  # empty if the task was skipped
                    shared.map(*pickle.loads(said))

    def _wait(self, number: int, workers: range, timeout: float) -> None:
        """Wait for processes to answer. Raises MapError if one dies, or a call takes longer than timeout seconds, if not 0."""
        for n in workers:
            while self._answers[n] < number:
                now, begun = time.monotonic(), float(self._shared.states[n]["begun"])
                if timeout and begun and now >= begun + timeout:
                    self._lost(n, f"it has not returned for {timeout:g} s")
                try:  # the kernel stores the number, so that no signal's handler can lose it
                    self._sockets[n].settimeout(min(LOOK, (begun or now) + timeout - now) if timeout else LOOK)
                    dead = not self._sockets[n].recv_into(self._answers[n : n + 1].data)
                except TimeoutError:
                    dead = self._processes[n].exitcode is not None  # a process that it forked may hold its socket
                except OSError as e:  # after a reset, by a process that died with unread tasks, its answers come
                    dead = not isinstance(e, ConnectionResetError)
                if dead:
                    self._lost(n)

    def _lost(self, n: int, why: str = "") -> NoReturn:
        if not self._owner:
            raise errors.ServerError("imgfeed: the loader was closed during this iteration")
        process, step, index = self._processes[n], self._step, int(self._shared.states[n]["index"])
        if not why:
            process.join(5)
            why = self._shared.states[n]["why"].decode(errors="replace")
            why = why or f"it ended its process (exit status {process.exitcode}); the next iteration starts other processes"
        self.close()
        at = ", before its first call"
        if index >= 0:
            key = self._service.ask(lambda session: session.key(index))
            at = f" at {'the batch of sample' if step.whole else 'sample'} {index} ({key})"
        if step.wanted == ("",) and "\nTypeError" in why:
            at += f", called with the image alone: it has no parameter named {WANTED[step.name]}"
        raise errors.MapError(f"imgfeed: {step.name}'s function failed{at}:\n{why}")

    def _done(self, task: _Task) -> Batch:
        """Return a batch with its results: in the buffer, or in a copy if the next batch needs the buffer."""
        results, batch, count = self._shared.results, task.batch, task.order.samples
        assert results is not None
        memory = results[task.order.buffer]
        whole = task.lease.array(memory) if self._free() else memory.copy()
        *images, labels = (part.of(whole, count) for part in self._shared.parts)
        batch.arrays.images, batch.arrays.labels = images if len(images) > 1 else images[0], labels
        if labels.dtype == TEXT:
            batch.arrays.target = Packed(labels.view(np.uint8).reshape(count, -1), "text")
        return batch

    def _start(self, first: Batch) -> None:
        self._shared = shared = Shared(self._step, self._service, first, self.form.batch_size, self._count)
        self._answers = np.zeros(self._count, np.int64)  # the last task that each process has answered
        self._leases: list[Callable[[], _Lease | None]] = [lambda: None] * BUFFERS
        self._processes: list[Any] = []
        self._sockets: list[socket.socket] = []
        self._end = util.Finalize(self, _end, (self._processes, self._sockets, shared.file), exitpriority=0)
        owner, fork = os.getpid(), multiprocessing.get_context("fork")
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # our handlers do not run in them
        try:
            for n in range(self._count):
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._sockets.append(ours)
                run, args = Worker(shared, n).run, (theirs, self._sockets, mask, owner)
                process = fork.Process(target=run, args=args, daemon=True, name="imgfeed-map")
                process.start()
                self._processes.append(process)
                theirs.close()
            self._owner = owner
        finally:
            if not self._owner:
                self._end()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def close(self) -> None:
        if self._owner == os.getpid():
            _end(self._processes, self._sockets, self._shared.file)
            self._end.cancel()
        self._owner = 0
        self._queue.clear()


def _end(processes: list[Any], sockets: list[socket.socket], file: Any) -> None:
    """End processes at once, and wait until they are gone."""
    for process in processes:
        process.kill()
        process.join()
    for one in (*sockets, file):
        one.close()
