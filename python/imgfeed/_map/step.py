"""A caller's own function on each sample or batch, run by processes that see the ring's memory.

The function gets a view of the slot, and returns another image, which goes to memory shared with the caller. Processes are
forked once, so the function need not be pickled. Draws are keyed by the sample, so any process may do it.

A task is a batch that processes work on. It holds the batch's slot, and a buffer for the results, until all of them have
answered or are dead. When the caller leaves an iteration, its tasks stay in the queue until they are answered.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import mmap
import multiprocessing
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import util
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .. import errors
from .._arguments.arguments import Options
from .._epoch import choice, outputs
from .._epoch.batchsource import BatchSource
from .._server.client import Batch
from .._server.ring import Array, Arrays, Packed
from .._server.service import Service
from .._server.targets import Dictionaries

# The parameters that a function may have.
WANTED = {"map": "image, label, target, rng, index, view, fields, params", "map_batch": "images, labels, rng, indices, view"}
TEXT_BYTES_MAX = 4092  # of a label
_AHEAD = 3  # batches that processes work on, or have finished, before the caller asks for them
_BUFFERS = _AHEAD + 4  # the caller may hold four batches; further ones are copies
_MASK = (1 << 64) - 1
_ALIGN = 64
_LOOK = 1.0  # seconds between two looks whether a silent process lives
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)  # the owner handles them
_NUMBERS = "?bBhHiIlLqQefdFD"  # numpy's characters of the types that results may have
_TEXT = np.dtype(f"V{4 + TEXT_BYTES_MAX}")
# A process reports its state in shared memory: the sample and the start of the running call (0: none), how it failed, and what
# results are like. The owner writes skip: tasks with smaller numbers need not be finished.
_STATE = np.dtype([("skip", "i8"), ("index", "i8"), ("begun", "f8"), ("why", "S16000"), ("results", "S16000")])


def wants(name: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """Return which of WANTED a function takes, or ("",) for the image or images alone; raise TypeError for others."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions in C
        return ("",)
    wanted = tuple(p for p in signature.parameters if p in WANTED[name].split(", "))
    try:
        signature.bind(*([] if wanted else [None]), **dict.fromkeys(wanted))
    except TypeError as e:
        raise TypeError(f"imgfeed: {name}'s function can't be called: {e}; its parameters may be {WANTED[name]}") from None
    return wanted or ("",)


@dataclass(frozen=True)
class Step:
    """A caller's function, for each sample or for each batch."""

    name: str  # map or map_batch
    function: Callable[..., Any]
    wanted: tuple[str, ...]
    options: Options
    whole: bool  # whether it takes batches
    torch: bool  # whether the caller gets tensors
    followed: bool  # whether boxes or masks are the second element of a batch

    def __call__(self, of: dict[str, Any], key: tuple[int, int, int]) -> tuple[Array, Array]:
        """Return the images and labels that the function makes, with an axis of samples.

        ``of`` has all that the function may want but rng. key is epoch, index and repetition, those of a batch's first sample.
        """
        image, label = ("images", "labels") if self.whole else ("image", "label")
        if "rng" in self.wanted:
            of["rng"] = np.random.default_rng([self.options.order_seed & _MASK, *key, of["view"]])
        made = self.function(of[image]) if self.wanted == ("",) else self.function(**{name: of[name] for name in self.wanted})
        labels = of[label]
        if isinstance(made, tuple) and len(made) == 2:
            if self.followed:
                raise TypeError("it returned two values: boxes and masks stay as they are, so return the image alone")
            made, labels = made
        return self._images(made), self._labels(labels)

    def _images(self, images: Any) -> Array:
        """Return images as an array: those of shape (H, W, C) in the caller's layout, others as they are."""
        tensor = hasattr(images, "permute") and hasattr(images, "numpy")  # of torch: (C, H, W)
        array = self._array(images.detach().numpy() if tensor else images)
        if array.ndim != 4 or tensor == (self.options.layout == "NCHW"):
            return array
        return np.moveaxis(array, -3, -1) if tensor else np.moveaxis(array, -1, -3)

    def _labels(self, labels: Any) -> Array:
        """Return labels as an array; texts as rows of bytes, like those of fields."""
        texts = [labels] if not self.whole else list(labels) if np.ndim(labels) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            return self._array(labels)
        data = [text.encode() for text in texts]
        if (longest := max(map(len, data))) > TEXT_BYTES_MAX:
            raise ValueError(f"it returned a label of {longest:,} bytes: a text has at most {TEXT_BYTES_MAX:,}")
        return np.frombuffer(b"".join((len(d).to_bytes(4, "little") + d).ljust(_TEXT.itemsize, b"\0") for d in data), _TEXT)

    def _array(self, value: Any) -> Array:
        """Return a value as an array with an axis of samples. Raises TypeError for a type that the caller could not get."""
        array = np.asarray(value)
        known = array.dtype.char in _NUMBERS and array.dtype.isnative
        if not known or (self.torch and not hasattr(outputs.torch(), array.dtype.name)):
            came = type(value).__name__ if array.dtype == object else array.dtype
            framework = "torch" if self.torch else "numpy"
            raise TypeError(f"it returned {came}: want numbers of a type that {framework} has; labels may be texts, too")
        return array if self.whole else array[None]


def step_of(options: Options, *, followed: bool) -> Step | None:
    """Return the step of a loader's arguments. Raises TypeError for a function that wants a value which batches lack."""
    if options.step is None:
        return None
    wanted = wants(*options.step)
    needs = {"fields": (options.fields, "fields="), "params": (options.with_params is True, "with_params=True")}
    needs["target"] = (followed, "boxes=, of a set with boxes, or one with masks")
    for name, (given, how) in needs.items():
        if name in wanted and not given:
            raise TypeError(f"imgfeed: {options.step[0]}'s function wants {name}: give the loader {how}")
    return Step(*options.step, wanted, options, options.map is None, outputs.torch_wanted(options.framework), followed)


class Part(NamedTuple):
    """An array of all samples of a batch, in shared memory."""

    at: int  # in a buffer
    shape: tuple[int, ...]  # of a sample
    dtype: np.dtype[Any]

    def of(self, memory: Array, count: int) -> Array:
        """Return it in a buffer."""
        size = count * math.prod(self.shape) * self.dtype.itemsize
        return memory[self.at : self.at + size].view(self.dtype).reshape(count, *self.shape)


def lay_out(columns: Iterable[Array], most: int) -> tuple[list[Part], int]:
    """Return where arrays like these of most samples lie in a buffer, and how large it is."""
    parts, at = [], 0
    for column in columns:
        parts.append(Part(at, column.shape[1:], column.dtype))
        at += (most * math.prod(column.shape[1:]) * column.dtype.itemsize // _ALIGN + 1) * _ALIGN
    return parts, at


class _Lease:
    """Stands for a buffer, which is free when no task and no array of the caller's refers to its lease."""

    def array(self, memory: Array) -> Array:
        """Return the buffer's memory as an array; numpy keeps the lease as the base of its views."""
        self._memory, self.__array_interface__ = memory, memory.__array_interface__
        return np.asarray(self)


class _Task(NamedTuple):
    """A batch that processes work on. The first five members are sent to them."""

    number: int
    target: int  # the number of its buffer
    samples: int
    epoch: int
    places: list[int] | None  # offsets of the inputs in the ring; None: they were copied
    workers: range  # the processes
    batch: Batch
    slot: Arrays
    lease: _Lease


class Steps:
    """The processes of a loader, which live from its first batch to its end, and their tasks."""

    def __init__(self, step: Step, workers: int, batch_size: int, service: Service) -> None:
        """Start nothing yet: the first batch says what processes look at."""
        self._step, self._count, self._batch_size, self._service = step, workers, batch_size, service
        self._queue: deque[_Task] = deque()  # in the order of the answers
        self._number = 0  # of the last task
        self._at: int | None = None  # the place where the queue begins, if the last call has ended well
        self._results: Array | None = None  # a row for each buffer
        self._owner = 0  # the process that started them
        self._lock = threading.RLock()

    def begin(self, source: BatchSource, *, with_index: bool) -> outputs.Fetch:
        """Return a function that gives an epoch's batches as the caller's function made them."""
        self._at = None
        return lambda after: self._next(source, after, with_index=with_index)

    def _next(self, source: BatchSource, after: int, *, with_index: bool) -> Batch | None:
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
            self._wait(self._queue[0].number, self._queue[0].workers, source.timeout)
            batch = self._done(self._queue.popleft(), with_index=with_index)
            self._at = batch.consumed
            return batch

    def _drain(self, timeout: float) -> None:
        """Empty the queue once all its tasks are answered. Processes finish only the calls that have begun."""
        self._over = False
        self._error: errors.ImgfeedError | None = None  # raised after the batches in the queue
        while self._queue:
            self._states["skip"] = self._number + 1
            with contextlib.suppress(errors.MapError):  # nobody gets this batch; the processes have ended, and all tasks
                self._give(self._queue[0], timeout)  # again, in case a signal interrupted it
                self._wait(self._queue[0].number, self._queue[0].workers, timeout)
                self._queue.popleft()

    def _fill(self, source: BatchSource, after: int) -> None:
        """Have processes work on the batches that follow."""
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
            queue.append(self._task(batch, source.place.epoch))
            self._give(queue[-1], source.timeout)

    def _free(self) -> list[int]:
        """Return the numbers of the free buffers."""
        return [number for number, lease in enumerate(self._leases) if lease() is None]

    def _task(self, batch: Batch, epoch: int) -> _Task:
        arrays, count = batch.arrays, len(batch.arrays.labels)
        if not (free := self._free()):
            raise errors.MapError(f"imgfeed: {self._step.name}: exceptions hold all buffers: let go of their tracebacks")
        lease = _Lease()
        self._leases[free[0]] = weakref.ref(lease)
        columns, begin = self._columns(arrays), self._ring.__array_interface__["data"][0]
        places: list[int] | None = [column.__array_interface__["data"][0] - begin for column in columns]
        if not all(0 <= at < self._ring.nbytes for at in places or ()):  # a private copy, or a ring newer than the processes
            places = None
            for part, column in zip(self._inputs, columns, strict=True):
                np.copyto(part.of(self._copies[free[0]], count), column)
        self._number += 1
        workers = range(min(count, self._count))
        if self._step.whole:
            n = self._number % self._count if self._results is not None else 0  # process 0 finds out shape and type
            workers = range(n, n + 1)
        batch.arrays = replace(arrays, images=[], labels=np.empty(count, np.int64))
        return _Task(self._number, free[0], count, epoch, places, workers, batch, arrays, lease)

    def _columns(self, arrays: Arrays) -> list[Array]:
        """Return what processes look at of a batch: images; target, fields, params if wanted; labels, indices, repetitions."""
        columns = list(arrays.images) if isinstance(arrays.images, list) else [arrays.images]
        if "target" in self._step.wanted:
            columns += _arrays_of(arrays.target)
        if "fields" in self._step.wanted:
            columns += [field.array if isinstance(field, Packed) else field for field in arrays.fields]
        if "params" in self._step.wanted:
            columns += arrays.params if isinstance(arrays.params, list) else [arrays.params]
        assert arrays.indices is not None and arrays.repetitions is not None
        return [*columns, arrays.labels, arrays.indices, arrays.repetitions]

    def _map(self, parts: list[Part], size: int) -> None:
        """Map the buffers for results."""
        self._parts, memory = parts, mmap.mmap(self._file.fileno(), _BUFFERS * size)
        self._results = np.frombuffer(memory, np.uint8).reshape(_BUFFERS, size)

    def _give(self, task: _Task, timeout: float) -> None:
        """Send a task to its processes, which ignore it if they have it. Process 0's first result fixes shape and type."""
        for n in task.workers:
            like = None if self._results is None else (self._parts, self._results.shape[1])
            with contextlib.suppress(OSError):  # a dead process is reported when its answer is due
                self._sockets[n].send(pickle.dumps((task[:5], like)), socket.MSG_NOSIGNAL)
            if like is None:
                self._wait(task.number, range(1), timeout)
                if said := bytes(self._states[0]["results"]):  # empty if the task was skipped
                    self._map(*pickle.loads(said))

    def _wait(self, number: int, workers: range, timeout: float) -> None:
        """Wait for processes to answer. Raises MapError if one dies, or a call takes longer than timeout seconds, if not 0."""
        for n in workers:
            while self._answers[n] < number:
                now, begun = time.monotonic(), float(self._states[n]["begun"])
                if timeout and begun and now >= begun + timeout:
                    self._lost(n, f"it has not returned for {timeout:g} s")
                try:  # the kernel stores the number, so that no signal's handler can lose it
                    self._sockets[n].settimeout(min(_LOOK, (begun or now) + timeout - now) if timeout else _LOOK)
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
        process, step, index = self._processes[n], self._step, int(self._states[n]["index"])
        if not why:
            process.join(5)
            why = self._states[n]["why"].decode(errors="replace")
            why = why or f"it ended its process (exit status {process.exitcode}); the next iteration starts other processes"
        self.close()
        at = ", before its first call"
        if index >= 0:
            key = self._service.ask(lambda session: session.key(index))
            at = f" at {'the batch of sample' if step.whole else 'sample'} {index} ({key})"
        if step.wanted == ("",) and "\nTypeError" in why:
            at += f", called with the image alone: it has no parameter named {WANTED[step.name]}"
        raise errors.MapError(f"imgfeed: {step.name}'s function failed{at}:\n{why}")

    def _done(self, task: _Task, *, with_index: bool) -> Batch:
        """Return a batch with its results: in the buffer, or in a copy if the next batch needs the buffer."""
        assert self._results is not None
        batch, count, memory = task.batch, task.samples, self._results[task.target]
        whole = task.lease.array(memory) if self._free() else memory.copy()
        *images, labels = (part.of(whole, count) for part in self._parts)
        batch.arrays.images, batch.arrays.labels = images if len(images) > 1 else images[0], labels
        if labels.dtype == _TEXT:
            batch.arrays.target = Packed(labels.view(np.uint8).reshape(count, -1), "text")
        batch.arrays.indices = batch.arrays.indices if with_index else None
        return batch

    def _start(self, first: Batch) -> None:
        """Start processes for batches like the first."""
        arrays, session = first.arrays, self._service.current
        self._views = len(arrays.images) if isinstance(arrays.images, list) else 1
        self._kinds = [field.kind if isinstance(field, Packed) else "" for field in arrays.fields]
        self._target = arrays.target.copy() if "target" in self._step.wanted and arrays.target is not None else None
        self._inputs, size = lay_out(self._columns(arrays), self._batch_size)
        self._copies = np.frombuffer(mmap.mmap(-1, _BUFFERS * size), np.uint8).reshape(_BUFFERS, size)
        self._ring = np.empty(0, np.uint8) if session is None or session.ring is None else session.ring.memory
        self._states = np.frombuffer(mmap.mmap(-1, self._count * _STATE.itemsize), _STATE)
        self._states["index"] = -1
        self._answers = np.zeros(self._count, np.int64)  # the last task that each process has answered
        self._leases: list[Callable[[], _Lease | None]] = [lambda: None] * _BUFFERS
        self._results = None
        self._file = os.fdopen(os.memfd_create("imgfeed-map"), "r+b", 0)
        self._processes: list[Any] = []
        self._sockets: list[socket.socket] = []
        self._end = util.Finalize(self, _end, (self._processes, self._sockets, self._file), exitpriority=0)
        owner, fork = os.getpid(), multiprocessing.get_context("fork")
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # our handlers do not run in them
        try:
            for n in range(self._count):
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._sockets.append(ours)
                process = fork.Process(target=self._work, args=(n, theirs, mask, owner), daemon=True, name="imgfeed-map")
                process.start()
                self._processes.append(process)
                theirs.close()
            self._owner = owner
        finally:
            if not self._owner:
                self._end()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def close(self) -> None:
        """End the processes, and with them the tasks."""
        if self._owner == os.getpid():
            _end(self._processes, self._sockets, self._file)
            self._end.cancel()
        self._owner = 0
        self._queue.clear()

    def _work(self, n: int, pipe: socket.socket, mask: set[signal.Signals], owner: int) -> None:
        """Do tasks until the other end is closed, in a process of its own."""
        for number in signal.valid_signals():
            if number in _IGNORED or callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for ours in self._sockets:
            ours.close()
        threading.Thread(target=_watch, args=(pipe, owner), daemon=True).start()
        if self._service.current is not None:
            self._service.current.connection.close()
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(1)  # the fork has no other threads, and a worker is one of several
        last, state = 0, self._states[n]
        try:
            while data := pipe.recv(1 << 16):
                order, like = pickle.loads(data)
                if self._results is None and like is not None:
                    self._map(*like)
                if order[0] > last:
                    self._do(n, state, order)
                    last = order[0]
                    pipe.send(last.to_bytes(8, sys.byteorder))
        except BaseException:
            state["why"] = traceback.format_exc().encode()[-_STATE["why"].itemsize :]
            os._exit(1)
        os._exit(0)

    def _do(self, n: int, state: np.void, order: tuple[int, int, int, int, list[int] | None]) -> None:
        """Do a process's share of a task."""
        number, target, count, epoch, places = order
        memory, starts = (self._copies[target], [part.at for part in self._inputs]) if places is None else (self._ring, places)
        columns = [part._replace(at=at).of(memory, count) for part, at in zip(self._inputs, starts, strict=True)]
        spans = [slice(0, count)] if self._step.whole else [slice(i, i + 1) for i in range(n, count, self._count)]
        for span in spans:
            if state["skip"] > number:
                return
            made = list(self._made(columns, span, epoch, state))
            if self._results is None:
                layout = lay_out(made, self._batch_size)
                os.ftruncate(self._file.fileno(), _BUFFERS * layout[1])  # ulimit -f bounds it
                self._map(*layout)
                state["results"] = pickle.dumps(layout)
            assert self._results is not None
            for part, array in zip(self._parts, made, strict=True):
                want = part.of(self._results[target], count)[span]
                if array.shape != want.shape or array.dtype != want.dtype:
                    came, like = (_said(one, 0 if self._step.whole else 1) for one in (array, want))
                    raise ValueError(f"it returned {came}, want {like}: all results must be alike, and as many as there were")
                want[...] = array

    def _made(self, columns: list[Array], span: slice, epoch: int, state: np.void) -> Iterator[Array]:
        """Yield the function's results for a part of a batch: images of each view, then the first view's labels."""
        *looked, labels, indices, repetitions = columns
        step, i, kept = self._step, span.start, []
        state["index"] = index = int(indices[i])
        key = epoch, index, int(repetitions[i])
        for view in range(self._views):
            given: dict[str, Any] = {"images": looked[view][span], "image": looked[view][i], "label": int(labels[i])}
            given |= {"labels": labels[span].copy(), "indices": indices[span].copy(), "index": index, "view": view}
            state["begun"] = time.monotonic()
            if step.options.decode == "full":
                given["image"] = self._service.ask(lambda session: session.sample(index))[0]
            after = self._views + len(_arrays_of(self._target))
            if "target" in step.wanted:
                given["target"] = self._target_of([of[i : i + 1] for of in looked[self._views : after]])
            if "fields" in step.wanted:
                given["fields"] = self._fields(looked[after:], span, key)
            if "params" in step.wanted:
                given["params"] = looked[view - self._views][i]  # the last ones
            images, made = step(given, key)
            state["begun"] = 0
            kept.append(made)
            yield images
        yield kept[0]

    def _target_of(self, arrays: list[Array]) -> Any:
        """Return a sample's dictionary, or its mask."""
        return self._target.of(arrays).values()[0] if isinstance(self._target, Dictionaries) else arrays[0][0]

    def _fields(self, looked: list[Array], span: slice, key: tuple[int, int, int]) -> dict[str, Any]:
        """Return a sample's fields, with one element of those to choose from."""
        options = self._step.options
        fields, rng = zip(options.fields, self._kinds, looked, strict=False), choice.rng_of(options.order_seed, *key)
        values = {name: Packed(of[span], kind).values()[0] if kind else of[span.start] for name, kind, of in fields}
        return values | {name: choice.one_of(values[name], rng) for name in options.choose}


def _arrays_of(target: Any) -> list[Array]:
    """Return the arrays that boxes and masks are made of."""
    return target.arrays() if isinstance(target, Dictionaries) else [] if target is None else [target]


def _said(array: Array, axes: int) -> str:
    """Return an array's type and shape, without its first axes, in words."""
    return f"{'text' if array.dtype == _TEXT else array.dtype} of shape {array.shape[axes:]}"


def _watch(pipe: socket.socket, owner: int) -> None:
    """End this process, even during a call, when its owner ends or closes the other end of the pipe."""
    poll = select.poll()
    poll.register(pipe, 0)
    while not poll.poll(1000 * _LOOK) and os.getppid() == owner:  # another child of the owner may hold the other end
        pass
    os._exit(0)


def _end(processes: list[Any], sockets: list[socket.socket], file: Any) -> None:
    """End processes at once, and wait until they are gone."""
    for process in processes:
        process.kill()
        process.join()
    for one in (*sockets, file):
        one.close()
