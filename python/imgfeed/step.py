"""A caller's own function on each sample or batch, run by processes that see the ring's memory.

The function gets the image as the server left it, a view of the slot, and returns another one. Processes are forked once, so
that the function and what it holds need not be pickled. No pixel goes through a pipe: results are written to memory that is
shared with the caller. Which process does a sample changes nothing, as draws are keyed by the sample.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import mmap
import multiprocessing
import os
import signal
import sys
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, NoReturn

import numpy as np

from . import errors
from .arguments import Options
from .client import Batch
from .feed import Feed
from .ring import Array, Arrays, Packed
from .service import Service

# What functions of a sample and of a batch may ask for, by their parameters' names.
WANTED = ("image", "label", "rng", "index", "view", "fields", "params")
WANTED_OF_BATCH = ("images", "labels", "rng", "indices", "view")
_AHEAD = 3  # batches that processes work on, or have finished, before the caller asks for them
_HELD = 4  # batches that the caller may hold beside them before they are copied
_MASK = (1 << 64) - 1
_ALIGN = 64


def wants(name: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """Return which of WANTED a function takes as map, or of WANTED_OF_BATCH as map_batch.

    One with a single parameter of another name takes the image, or images: then it is ("",). Raises TypeError for a
    function with other parameters that have no default.
    """
    known = WANTED if name == "map" else WANTED_OF_BATCH
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # of C, which does not say
        return ("",)
    given = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    needed = [p.name for p in given if p.default is p.empty]
    if not set(needed) & set(known) and len(needed) <= 1:
        return ("",)
    if strange := [of for of in needed if of not in known]:
        raise TypeError(f"imgfeed: {name}'s function has parameters {', '.join(strange)}: want some of {', '.join(known)}")
    return tuple(p.name for p in given if p.name in known)


@dataclass(frozen=True)
class Step:
    """A caller's function, for each sample or for each batch."""

    name: str  # map or map_batch
    function: Callable[..., Any]
    seed: int
    wanted: tuple[str, ...]
    fields: tuple[str, ...]  # names
    full: bool  # whether it takes whole images

    @property
    def whole(self) -> bool:
        """Whether it takes batches."""
        return self.name == "map_batch"

    def __call__(self, of: dict[str, Any], epoch: int, repetition: int, index: int) -> tuple[Array, Any]:
        """Return the images and labels of ``of``, which has all that the function may want but rng, as the function has them.

        The others key rng: of a batch, those of its first sample.
        """
        image, label = ("images", "labels") if self.whole else ("image", "label")
        if "rng" in self.wanted:
            of["rng"] = np.random.default_rng([self.seed & _MASK, epoch, index, repetition, of["view"]])
        made = self.function(of[image]) if self.wanted == ("",) else self.function(**{name: of[name] for name in self.wanted})
        labels = of[label]
        if isinstance(made, tuple) and len(made) == 2:
            made, labels = made
        return as_array(made), np.asarray(labels)


def step_of(options: Options) -> Step | None:
    """Return the step of a loader's arguments. Raises TypeError for a function that wants a value which the batches lack."""
    if options.step is None:
        return None
    wanted = wants(*options.step)
    for name, given, how in (
        ("fields", options.fields, "fields="),
        ("params", options.with_params is True, "with_params=True"),
    ):
        if name in wanted and not given:
            raise TypeError(f"imgfeed: {options.step[0]}'s function wants {name}: give the loader {how}")
    return Step(*options.step, options.order_seed, wanted, options.fields, options.decode == "full")


def as_array(image: Any) -> Array:
    """Return a function's images as an array, (…, H, W, C) where they have channels: a tensor of torch is (…, C, H, W)."""
    if hasattr(image, "numpy") and hasattr(image, "permute"):
        image = image.detach()
        image = (image.movedim(-3, -1) if image.ndim >= 3 else image).numpy()
    array = np.asarray(image)
    if array.dtype == object:
        raise TypeError(f"it returned {type(image).__name__}: want images, or images and labels")
    return array


class Part(NamedTuple):
    """An array of all samples of a batch, in shared memory."""

    at: int  # in a buffer
    shape: tuple[int, ...]  # of a sample
    dtype: np.dtype[Any]

    def of(self, memory: Array, count: int) -> Array:
        """Return it in a buffer."""
        size = count * math.prod(self.shape) * self.dtype.itemsize
        return memory[self.at : self.at + size].view(self.dtype).reshape(count, *self.shape)


def lay_out(samples: list[Array], most: int) -> tuple[list[Part], int]:
    """Return where arrays like these of most samples lie in a buffer, and how large it is."""
    parts, at = [], 0
    for sample in samples:
        parts.append(Part(at, sample.shape, sample.dtype))
        at += -(-most * sample.nbytes // _ALIGN) * _ALIGN
    return parts, at


class _Inputs(NamedTuple):
    """What functions get of a batch."""

    looked: list[Array]  # images of each view, then fields and params where they are wanted
    labels: Array
    indices: Array
    repetitions: Array


class _Task(NamedTuple):
    """Some samples of a batch, for one process."""

    number: int
    places: tuple[int, ...] | None  # where in the ring the inputs are; None: in the buffer's copy
    target: int  # buffer
    size: int  # of the batch
    epoch: int
    first: int
    last: int


class _Lease:
    """Stands for a buffer that the caller has; numpy arrays made from it keep it as their base."""

    def __init__(self, free: deque[int], number: int, memory: Array) -> None:
        self._free, self._number, self._memory = free, number, memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._free.append(self._number)


@dataclass
class _Pending:
    batch: Batch
    after: int  # its place: samples of the epoch before it
    target: int
    pipes: list[int]  # of the processes that work on it
    arrays: Arrays  # which hold its slot


class Steps:
    """The processes of a loader, which live from its first batch to its end."""

    def __init__(self, step: Step, workers: int, batch_size: int, service: Service) -> None:
        """Start nothing yet: what the function makes of a sample is found from the first."""
        self._step, self._count, self._batch_size, self._service = step, workers, batch_size, service
        self._pipes: list[Connection] = []
        self._owner = 0
        self.lock = threading.Lock()
        self.number = 0

    def begin(self, feed: Feed, *, with_index: bool) -> Mapped:
        """Return what gives an epoch's batches."""
        return Mapped(self, feed, with_index=with_index)

    def start(self, first: Batch, epoch: int) -> None:
        """Start the processes, if there are none. The first batch's first sample says what the others are like."""
        if self._pipes and self._owner == os.getpid():
            return
        self.close()
        arrays = first.arrays
        self._views = len(arrays.images) if isinstance(arrays.images, list) else 1
        self._kinds = [field.kind if isinstance(field, Packed) else "" for field in arrays.fields]
        looked = self._looked(arrays)
        inputs = [*(one[0] for one in looked), arrays.labels[0], np.int64(0), np.int64(0)]
        self.inputs, self._input_bytes = lay_out([np.asarray(a) for a in inputs], self._batch_size)
        made = self._first(first, epoch)
        self.outputs, self._output_bytes = lay_out([*(image for image, _ in made), made[0][1]], self._batch_size)
        buffers = _AHEAD + _HELD
        self._memory = np.frombuffer(mmap.mmap(-1, buffers * (self._input_bytes + self._output_bytes) + _ALIGN), np.uint8)
        self._at = np.frombuffer(mmap.mmap(-1, 8 * self._count), np.int64)  # the sample that each process is at
        session = self._service.current
        self._ring = None if session is None else session.ring
        self.free: deque[int] = deque(range(buffers))
        fork = multiprocessing.get_context("fork")
        self._ends: list[Connection] = []
        self._processes = []
        for number in range(self._count):
            ours, theirs = fork.Pipe()
            self._pipes.append(ours)
            self._ends.append(theirs)
            process = fork.Process(target=self._work, args=(theirs, number), daemon=True, name="imgfeed-map")
            process.start()
            self._processes.append(process)
        for theirs in self._ends:
            theirs.close()
        self._owner = os.getpid()
        self._end = weakref.finalize(self, _end, self._pipes, self._processes, self._owner)

    def _looked(self, arrays: Arrays) -> list[Array]:
        """Return what the function may look at of a batch, beside labels, indices and repetitions."""
        looked = list(arrays.images) if isinstance(arrays.images, list) else [arrays.images]
        if "fields" in self._step.wanted:
            looked += [field.array if isinstance(field, Packed) else field for field in arrays.fields]
        if "params" in self._step.wanted:
            looked += arrays.params if isinstance(arrays.params, list) else [arrays.params]
        return looked

    def _made(
        self, inputs: _Inputs, span: slice, epoch: int, note: Callable[[int], None]
    ) -> Iterator[tuple[int, slice, Array, Array]]:
        """Yield what the function makes of a span of a batch: the view, the places, their images and labels.

        note is called with the index of each sample before its turn, or of a batch's first one.
        """
        whole = self._step.whole
        for part in [span] if whole else [slice(i, i + 1) for i in range(span.start, span.stop)]:
            note(index := int(inputs.indices[part.start]))
            for v in range(self._views):
                given = self._given(inputs, part, v)
                images, labels = self._step(given, epoch, int(inputs.repetitions[part.start]), index)
                yield (v, part, images, labels) if whole else (v, part, images[None], labels[None])

    def _given(self, inputs: _Inputs, part: slice, view: int) -> dict[str, Any]:
        """Return what the function may want of a part of a batch, but rng."""
        looked, i = inputs.looked, part.start
        if self._step.whole:
            labels, indices = inputs.labels[part].copy(), inputs.indices[part].copy()
            return {"images": looked[view][part], "labels": labels, "indices": indices, "view": view}
        index = int(inputs.indices[i])
        image = self._service.ask(lambda session: session.sample(index))[0] if self._step.full else looked[view][i]
        given = {"image": image, "label": int(inputs.labels[i]), "index": index, "view": view}
        if "fields" in self._step.wanted:
            columns = zip(self._step.fields, self._kinds, looked[self._views :], strict=False)
            given["fields"] = {name: Packed(of[part], kind).values()[0] if kind else of[i] for name, kind, of in columns}
        if "params" in self._step.wanted:
            given["params"] = looked[view - self._views][i]  # the last ones
        return given

    def _first(self, batch: Batch, epoch: int) -> list[tuple[Array, Array]]:
        """Return the first sample's images, of each view, and labels, as the function has them."""
        arrays = batch.arrays
        assert arrays.indices is not None and arrays.repetitions is not None
        inputs = _Inputs([one.copy() for one in self._looked(arrays)], arrays.labels, arrays.indices, arrays.repetitions)
        span = slice(0, len(arrays.labels) if self._step.whole else 1)
        at = -1

        def note(index: int) -> None:
            nonlocal at
            at = index

        try:
            return [(images[0], labels[0]) for _, _, images, labels in self._made(inputs, span, epoch, note)]
        except Exception as e:
            raise errors.MapError(self._named(at, traceback.format_exc())) from e

    def _named(self, index: int, text: str) -> str:
        of, key = "the batch of sample" if self._step.whole else "sample", self._service.ask(lambda s: s.key(index))
        return f"imgfeed: {self._step.name}'s function failed at {of} {index} ({key}):\n{text}"

    def buffer(self, number: int) -> Array:
        """Return the memory of a buffer's results."""
        return self._memory[number * self._output_bytes :][: self._output_bytes]

    def _copy(self, number: int) -> Array:
        """Return the memory of what a buffer's results are made of."""
        begin = (_AHEAD + _HELD) * self._output_bytes
        return self._memory[begin + number * self._input_bytes :][: self._input_bytes]

    def give(self, batch: Batch, epoch: int, target: int) -> list[int]:
        """Have processes work on a batch. Returns which."""
        arrays = batch.arrays
        looked, count = self._looked(arrays), len(arrays.labels)
        places = self._places(looked)
        columns = [*(looked if places is None else [None] * len(looked)), arrays.labels, arrays.indices, arrays.repetitions]
        copy = self._copy(target)
        for part, column in zip(self.inputs, columns, strict=True):
            if column is not None:
                np.copyto(part.of(copy, count), column)
        share = count if self._step.whole else -(-count // self._count)
        pipes = []
        for n, first in enumerate(range(0, count, share)):
            pipe = self.number % self._count if self._step.whole else n
            task = _Task(self.number, places, target, count, epoch, first, min(first + share, count))
            try:
                self._pipes[pipe].send(task)
            except OSError:
                self._lost(self._pipes[pipe], "")
            pipes.append(pipe)
        return pipes

    def _places(self, looked: list[Array]) -> tuple[int, ...] | None:
        """Return where in the ring arrays are. None: elsewhere, or in a ring that came later than the processes."""
        session = self._service.current
        if self._ring is None or session is None or session.ring is not self._ring:
            return None
        memory = self._ring.memory
        begin = memory.__array_interface__["data"][0]
        places = tuple(one.__array_interface__["data"][0] - begin for one in looked)
        return places if all(0 <= at < memory.nbytes for at in places) else None

    def take(self, pipes: list[int], number: int, timeout: float) -> None:
        """Wait for processes to do a batch, each for timeout seconds if not 0. Raises MapError for a failure."""
        for pipe in [self._pipes[n] for n in pipes if self._pipes]:  # none: they were lost
            done = -1
            while done != number:  # what is older was for an iteration that was left
                try:
                    if timeout and not pipe.poll(timeout):
                        self._lost(pipe, f"has not returned for {timeout:g} s")
                    done, index, text = pipe.recv()
                except (EOFError, OSError):
                    self._lost(pipe, "")
            if text is not None:
                raise errors.MapError(self._named(index, text))

    def _lost(self, pipe: Connection, why: str) -> NoReturn:
        number = self._pipes.index(pipe)
        process, index = self._processes[number], int(self._at[number])
        if not why:
            process.join(5)
            why = f"ended its process (exit status {process.exitcode})"
        self.close()
        raise errors.MapError(self._named(index, f"it {why}; the next iteration starts other processes"))

    def close(self) -> None:
        """End the processes."""
        if self._pipes and self._owner == os.getpid():
            self._end()
        self._pipes, self._processes = [], []

    def _work(self, pipe: Connection, number: int) -> None:
        """Do tasks until the other end is closed, in a process of its own."""
        for end in (*self._pipes, *self._ends):
            if end is not pipe:
                end.close()  # else nobody would see that the owner or another process has ended
        if self._service.current is not None:
            self._service.current.connection.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(1)  # its other threads did not come along, and a worker is one of several
        with contextlib.suppress(EOFError, OSError):
            while True:
                task: _Task = pipe.recv()
                pipe.send((task.number, *self._do(task, self._at[number : number + 1])))
        os._exit(0)

    def _do(self, task: _Task, at: Array) -> tuple[int, str | None]:
        copy, results = self._copy(task.target), self.buffer(task.target)
        *looked, labels, indices, repetitions = (part.of(copy, task.size) for part in self.inputs)
        if task.places is not None:
            assert self._ring is not None
            memory, parts = self._ring.memory, self.inputs
            looked = [part._replace(at=where).of(memory, task.size) for part, where in zip(parts, task.places, strict=False)]
        *images, new_labels = (part.of(results, task.size) for part in self.outputs)
        inputs = _Inputs(looked, labels, indices, repetitions)

        def note(index: int) -> None:
            at[0] = index

        try:
            for v, part, made, made_labels in self._made(inputs, slice(task.first, task.last), task.epoch, note):
                want = images[v][part]
                if made.shape != want.shape or made.dtype != want.dtype:
                    raise ValueError(
                        f"it returned {made.dtype} of shape {made.shape}, and {want.dtype} of {want.shape} was wanted after "
                        "the first: images must be alike, and as many as there were"
                    )
                images[v][part] = made
                if v == 0:
                    new_labels[part] = made_labels
        except Exception:
            return int(at[0]), traceback.format_exc()
        return -1, None


def _end(pipes: list[Connection], processes: list[Any], owner: int) -> None:
    if os.getpid() != owner:
        return
    for pipe in pipes:
        pipe.close()
    for process in processes:
        process.join(0.2)
        if process.is_alive():
            process.kill()
            process.join()


class Mapped:
    """Gives an epoch's batches as the function made them."""

    def __init__(self, steps: Steps, feed: Feed, *, with_index: bool) -> None:
        """Take batches from feed."""
        self._steps, self._feed, self._with_index = steps, feed, with_index
        self._queue: deque[tuple[_Pending, int]] = deque()
        self._over = False
        self._error: errors.ImgfeedError | None = None

    def __call__(self, after: int) -> Batch | None:
        """Return the batch after so many samples of the epoch, None after the last. See :class:`imgfeed.feed.Feed`."""
        if self._queue and self._queue[0][0].after != after:
            self._drop()
        place = self._queue[-1][0].batch.consumed if self._queue else after
        if not self._queue:
            self._over = False
            if self._error is not None:
                error, self._error = self._error, None
                raise error
        while len(self._queue) < _AHEAD and not self._over and self._error is None:
            try:
                batch = self._feed(place)
            except errors.ImgfeedError as e:
                if not self._queue:
                    raise
                self._error = e
                break
            if batch is None:
                self._over = True
                break
            self._give(batch, place)
            place = batch.consumed
        if not self._queue:
            return None
        pending, number = self._queue.popleft()
        try:
            self._steps.take(pending.pipes, number, self._feed.timeout)
        except BaseException:
            self._steps.free.append(pending.target)
            self._drop()
            raise
        return self._done(pending)

    def _give(self, batch: Batch, after: int) -> None:
        steps = self._steps
        steps.start(batch, self._feed.place.epoch)
        target = steps.free.popleft()
        steps.number += 1
        pipes = steps.give(batch, self._feed.place.epoch, target)
        pending = _Pending(batch, after, target, pipes, batch.arrays)
        batch.arrays = replace(batch.arrays, images=[], labels=np.empty(len(batch.arrays.labels), np.int64))
        self._queue.append((pending, steps.number))

    def _done(self, pending: _Pending) -> Batch:
        steps, batch = self._steps, pending.batch
        count = len(batch.arrays.labels)
        if steps.free:
            whole = np.asarray(_Lease(steps.free, pending.target, steps.buffer(pending.target)))
        else:  # the next batch needs a buffer
            whole = steps.buffer(pending.target).copy()
            steps.free.append(pending.target)
        *images, labels = (part.of(whole, count) for part in steps.outputs)
        indices = batch.arrays.indices if self._with_index else None
        batch.arrays = replace(batch.arrays, images=images if len(images) > 1 else images[0], labels=labels, indices=indices)
        return batch

    def _drop(self) -> None:
        """Forget what was asked for: the caller goes on elsewhere."""
        for pending, number in self._queue:
            with contextlib.suppress(errors.MapError):
                self._steps.take(pending.pipes, number, self._feed.timeout)
            self._steps.free.append(pending.target)
        self._queue.clear()
