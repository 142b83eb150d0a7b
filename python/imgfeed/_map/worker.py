"""A process that runs a caller's function: it sees the ring's memory, and writes results to memory shared with the caller.

Processes are forked once, so the function need not be pickled. Draws are keyed by the sample, so any process may do it.
"""

import math
import mmap
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._epoch import outputs
from .._server.client import Batch
from .._server.ring import Arrays, Packed
from .._server.service import Service
from .._server.sets import Array
from .._server.targets import Dictionaries
from .step import TEXT, Step

BUFFERS = 7  # for results: the caller may hold four batches; further ones are copies
LOOK = 1.0  # seconds between two looks whether a silent process lives
_ALIGN = 64
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)  # the owner handles them
# A process reports its state in shared memory: the sample and the start of the running call (0: none), how it failed, and what
# results are like. The owner writes skip: tasks with smaller numbers need not be finished.
_STATE = np.dtype([("skip", "i8"), ("index", "i8"), ("begun", "f8"), ("why", "S16000"), ("results", "S16000")])


class Part(NamedTuple):
    """An array of all samples of a batch, in shared memory."""

    at: int  # in a buffer
    shape: tuple[int, ...]  # of a sample
    dtype: np.dtype[Any]

    def of(self, memory: Array, count: int) -> Array:
        size = count * math.prod(self.shape) * self.dtype.itemsize
        return memory[self.at : self.at + size].view(self.dtype).reshape(count, *self.shape)


def lay_out(columns: Iterable[Array], most: int) -> tuple[list[Part], int]:
    """Return where arrays like these of most samples lie in a buffer, and how large it is."""
    parts, at = [], 0
    for column in columns:
        parts.append(Part(at, column.shape[1:], column.dtype))
        at += (most * math.prod(column.shape[1:]) * column.dtype.itemsize // _ALIGN + 1) * _ALIGN
    return parts, at


class Order(NamedTuple):
    """What a process learns of a task."""

    number: int
    buffer: int  # the number of the buffer for its results
    samples: int
    epoch: int
    offsets: list[int] | None  # of the inputs in the ring; None: they were copied


class Shared:
    """The memory that processes share with their owner, made before they are forked: inputs, results and states."""

    def __init__(self, step: Step, service: Service, first: Batch, batch_size: int, workers: int) -> None:
        arrays, session = first.arrays, service.current
        self.step, self.service, self.batch_size, self.workers = step, service, batch_size, workers
        self.views = len(arrays.images) if isinstance(arrays.images, list) else 1
        self.kinds = [field.kind if isinstance(field, Packed) else "" for field in arrays.fields]
        self.target = arrays.target.copy() if "target" in step.wanted and arrays.target is not None else None
        self.inputs, size = lay_out(self.columns(arrays), batch_size)
        self.copies = _buffers(-1, size)
        self.ring = np.empty(0, np.uint8) if session is None or session.ring is None else session.ring.memory
        self.states = np.frombuffer(mmap.mmap(-1, workers * _STATE.itemsize), _STATE)
        self.states["index"] = -1
        self.parts: list[Part] = []
        self.results: Array | None = None  # a row for each buffer, once the first result says what they are like
        self.file = os.fdopen(os.memfd_create("imgfeed-map"), "r+b", 0)

    def columns(self, arrays: Arrays) -> list[Array]:
        """Return what processes look at of a batch: images; target, fields, params if wanted; labels, indices, repetitions."""
        columns = list(arrays.images) if isinstance(arrays.images, list) else [arrays.images]
        if "target" in self.step.wanted:
            columns += arrays_of(arrays.target)
        if "fields" in self.step.wanted:
            columns += [field.array if isinstance(field, Packed) else field for field in arrays.fields]
        if "params" in self.step.wanted:
            columns += arrays.params if isinstance(arrays.params, list) else [arrays.params]
        assert arrays.repetitions is not None
        return [*columns, arrays.labels, arrays.indices, arrays.repetitions]

    def map(self, parts: list[Part], size: int) -> None:
        self.parts, self.results = parts, _buffers(self.file.fileno(), size)


def _buffers(fd: int, size: int) -> Array:
    return np.frombuffer(mmap.mmap(fd, BUFFERS * size), np.uint8).reshape(BUFFERS, size)


class Worker:
    """One of the processes."""

    def __init__(self, shared: Shared, number: int) -> None:
        self._shared, self._n, self._state = shared, number, shared.states[number]

    def run(self, pipe: socket.socket, owners: list[socket.socket], mask: set[signal.Signals], owner: int) -> None:
        """Do tasks until the other end of the pipe is closed. owners are the owner's ends, mask its blocked signals."""
        for number in signal.valid_signals():
            if number in _IGNORED or callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for ours in owners:
            ours.close()
        threading.Thread(target=_watch, args=(pipe, owner), daemon=True).start()
        shared, last = self._shared, 0
        if shared.service.current is not None:
            shared.service.current.connection.close()
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(1)  # the fork has no other threads, and a worker is one of several
        try:
            while data := pipe.recv(1 << 16):
                order, like = pickle.loads(data)
                if shared.results is None and like is not None:
                    shared.map(*like)
                if order.number > last:
                    self._do(order)
                    last = order.number
                    pipe.send(last.to_bytes(8, sys.byteorder))
        except BaseException:
            self._state["why"] = traceback.format_exc().encode()[-_STATE["why"].itemsize :]
            os._exit(1)
        os._exit(0)

    def _do(self, order: Order) -> None:
        shared, state, count = self._shared, self._state, order.samples
        memory, starts = shared.ring, order.offsets
        if starts is None:
            memory, starts = shared.copies[order.buffer], [part.at for part in shared.inputs]
        columns = [part._replace(at=at).of(memory, count) for part, at in zip(shared.inputs, starts, strict=True)]
        whole = shared.step.whole
        for span in [slice(0, count)] if whole else [slice(i, i + 1) for i in range(self._n, count, shared.workers)]:
            if state["skip"] > order.number:
                return
            made = list(self._made(columns, span, order.epoch))
            if shared.results is None:
                layout = lay_out(made, shared.batch_size)
                os.ftruncate(shared.file.fileno(), BUFFERS * layout[1])  # ulimit -f bounds it
                shared.map(*layout)
                state["results"] = pickle.dumps(layout)
            assert shared.results is not None
            for part, array in zip(shared.parts, made, strict=True):
                want = part.of(shared.results[order.buffer], count)[span]
                if array.shape != want.shape or array.dtype != want.dtype:
                    came, like = (_said(one, 0 if whole else 1) for one in (array, want))
                    raise ValueError(f"it returned {came}, want {like}: all results must be alike, and as many as there were")
                want[...] = array

    def _made(self, columns: list[Array], span: slice, epoch: int) -> Iterator[Array]:
        """Yield the function's results for a part of a batch: images of each view, then the first view's labels."""
        *looked, labels, indices, repetitions = columns
        shared, step, i, kept = self._shared, self._shared.step, span.start, []
        self._state["index"] = index = int(indices[i])
        key = epoch, index, int(repetitions[i])
        for view in range(shared.views):
            given: dict[str, Any] = {"images": looked[view][span], "image": looked[view][i], "label": int(labels[i])}
            given |= {"labels": labels[span].copy(), "indices": indices[span].copy(), "index": index, "view": view}
            self._state["begun"] = time.monotonic()
            if step.options.decode == "full":
                given["image"] = shared.service.ask(lambda session: session.sample(index))[0]
            after = shared.views + len(arrays_of(shared.target))
            if "target" in step.wanted:
                arrays = [of[i : i + 1] for of in looked[shared.views : after]]
                target = shared.target
                given["target"] = target.of(arrays).values()[0] if isinstance(target, Dictionaries) else arrays[0][0]
            if "fields" in step.wanted:
                given["fields"] = self._fields(looked[after:], span, key)
            if "params" in step.wanted:
                given["params"] = looked[view - shared.views][i]  # the last ones
            images, made = step(given, key)
            self._state["begun"] = 0
            kept.append(made)
            yield images
        yield kept[0]

    def _fields(self, looked: list[Array], span: slice, key: tuple[int, int, int]) -> dict[str, Any]:
        """Return a sample's fields, with one element of those to choose from."""
        options = self._shared.step.options
        fields, rng = zip(options.fields, self._shared.kinds, looked, strict=False), outputs.rng_of(options.order_seed, *key)
        values = {name: Packed(of[span], kind).values()[0] if kind else of[span.start] for name, kind, of in fields}
        return values | {name: outputs.one_of(values[name], rng) for name in options.choose}


def arrays_of(target: Any) -> list[Array]:
    """Return the arrays that boxes and masks are made of."""
    return target.arrays() if isinstance(target, Dictionaries) else [] if target is None else [target]


def _said(array: Array, axes: int) -> str:
    """Return an array's type and shape, without its first axes, in words."""
    return f"{'text' if array.dtype == TEXT else array.dtype} of shape {array.shape[axes:]}"


def _watch(pipe: socket.socket, owner: int) -> None:
    """End this process, even during a call, when its owner ends or closes the other end of the pipe."""
    poll = select.poll()
    poll.register(pipe, 0)
    while not poll.poll(1000 * LOOK) and os.getppid() == owner:  # another child of the owner may hold the other end
        pass
    os._exit(0)
