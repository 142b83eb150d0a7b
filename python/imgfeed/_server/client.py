"""A session with a server: its requests, and the batches that the server pushes."""

import contextlib
import functools
import math
import operator
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .. import errors
from .._arguments import vision
from . import wire
from .ring import DECODERS, Arrays, Ring, Shape, split_raw
from .sets import Array, FieldInfo, Selected, SetInfo
from .targets import Target, mask_of, names_of, objects_of

T = TypeVar("T")

REPLY_TIMEOUT = 60.0  # seconds for anything but a batch
HELLO_TIMEOUT = 5.0  # seconds, where another server may come: one that has been stopped takes connections, and says nothing
QUIET = 10.0  # seconds without a word after which a server that owes a batch is asked whether it is there
HUNG = 20.0  # seconds more without an answer after which it counts as lost
_LATE = "imgfeed: the server did not answer in time"
_ALIVE = "alive"  # the type of the answer to that: it has no other use


@dataclass(slots=True)
class Batch:
    """One batch as it came. To continue after it, pass consumed to ``Session.start``."""

    consumed: int
    left: int  # batches of the epoch that follow it
    bad: list[dict[str, Any]]  # as docs/format/wire.md has it
    arrays: Arrays


class Session:
    """One connection with one session opened on it. Any thread may call its methods; the lock lets one at a time through."""

    def __init__(self, connection: wire.Connection, timeout: float = REPLY_TIMEOUT) -> None:
        """Say hello, which the server answers within timeout seconds. connection becomes the session's own."""
        self.connection = connection
        #: Every request holds it until its reply is there. Hold it to keep other threads' requests out between your own.
        self.lock = threading.RLock()
        # All below changes only with the lock held. First, batches that came while a reply was awaited, in order.
        self._pushed: deque[tuple[wire.Message, Array | None]] = deque()
        #: The ring, or None when the transport is the socket.
        self.ring: Ring | None = None
        self._shape: Shape | None = None
        self._held_max = 0  # slots that the caller's arrays may hold
        #: How many samples of the epoch all ranks have had after the last batch, if the next one follows there for certain.
        self.consumed: int | None = None
        self.generation = 0  # of the epoch begun last
        self._batches = 0  # of the running epoch
        self._running = False
        self._asked = 0  # stats requests on their way that only ask whether the server is there
        self._asked_at = 0.0  # when the first of them went
        #: The length of an epoch of buckets; 0 without.
        self.positions = 0
        self._selected: Selected | None = None  # None: each sample once
        try:
            hello = self._ask({"type": "hello", "version": wire.VERSION}, dict, timeout=timeout)
        except BaseException:
            connection.close()
            raise
        if hello.get("version") != wire.VERSION:
            connection.close()
            raise errors.ProtocolError(f"imgfeed: the server speaks version {hello.get('version')}, this client {wire.VERSION}")
        with _understood(connection, hello):
            self.server: str = hello["server"]
            self.pid: int = hello["pid"]
            #: The operations that the server does, and the names of their parameters.
            self.operations = vision.known_by(hello.get("operations", ()))
            #: The words that ``waiting_for`` of stats may be, the most urgent first.
            self.waits: list[str] = hello.get("waits", [])
            #: The largest values that requests may have, by name.
            self.limits: dict[str, int] = hello.get("limits", {})
            self.sets = [SetInfo.of(split) for split in hello["sets"]]

    def open(self, options: wire.Message, fields: Sequence[str] = (), target: Target = None) -> wire.Message:
        """Open the session with the members of the wire's ``open``, and return ``opened``. target replaces the labels."""
        wanted = names_of(fields, target)
        with self.lock:
            request = {"type": "open", **options, **({"fields": wanted} if wanted else {})}
            self._check_room(request)
            opened = self._ask(request, dict, "opened")
            with _understood(self.connection, opened):
                self._shape = Shape(opened["arrays"], opened["slot_bytes"], fields, target)
                self.positions = opened.get("positions", 0)
            fd = self.connection.take_fd()
            if options.get("transport", "shm") == "shm":
                if fd is None:
                    raise errors.ProtocolError("imgfeed: no shared memory came with the reply to open")
                try:
                    release = functools.partial(_release, self.connection)  # not self: the ring would then never go
                    with _understood(self.connection, opened):
                        size, slots, break_off = opened["ring_bytes"], opened["slots"], self.connection.break_off
                        self.ring = Ring(fd, size, slots, self._shape.slot_bytes, release, break_off=break_off)
                        self._held_max = slots - (2 if slots >= 4 else 1)  # the server has one to fill, and maybe a ready one
                finally:
                    os.close(fd)
            return opened

    def change(self, options: wire.Message) -> bool:
        """Change transform and batch size of later epochs, and end the running one. False: the ring has no room for them."""
        with self.lock:
            request = {"type": "change", **options}
            self._check_room(request)
            changed = self._ask(request, dict, "changed")
            if not changed["fits"]:
                return False
            with _understood(self.connection, changed):
                assert self._shape is not None
                self._shape = self._shape.of(changed["arrays"])
            self._running = False
            return True

    def select(self, selected: Selected | None) -> None:
        """Select the samples of later epochs, unless they are selected; None changes nothing."""
        with self.lock:
            if selected is not None and (self._selected is None or self._selected.digest != selected.digest):
                self._ask(selected.message(), dict, "selected", following=selected.payload())
                self._selected = selected

    def start(self, epoch: int, consumed: int, selected: Selected | None = None) -> tuple[int, int]:
        """Begin an epoch of the selection, after the first consumed samples (of all ranks). The running one ends.

        Returns the number of its batches, and its generation, which ``stop`` takes.
        """
        with self.lock:
            self.consumed = None
            if self.ring is not None:
                self.ring.reclaim()
            self.select(selected)
            self._drop_pushed()
            request = {"type": "start", "epoch": epoch, "consumed": consumed}
            started = self._ask(request, lambda reply: (int(reply["batches"]), int(reply["generation"])), "started")
            self._drop_pushed()
            self._batches, self.generation = started
            self._running, self.consumed = True, consumed
            return started

    def stop(self, generation: int) -> None:
        """Stop decoding an epoch, but not a later one. For finalizers: it takes no lock, waits for nothing and never raises."""
        try:
            self.connection.send_later(wire.encode({"type": "stop", "generation": generation}))
        except BaseException as e:  # Ctrl-C: the next use of the connection raises it
            self.connection.break_off(e.with_traceback(None))

    def next(self, timeout: float | None = None, *, watch: bool = False) -> Batch | None:
        """Return the epoch's next batch, or None when no epoch runs: at its end, or after an error.

        timeout is in seconds; None waits for ever. With watch a server that is silent for long, and does not answer a ping,
        counts as lost: LostError.

        With shared memory the arrays are views of the ring. If the caller's arrays hold so many slots that the server would run
        dry, they are a copy and the slot goes back at once. An exception of a signal's handler in the wait loses nothing. If it
        comes later, ``consumed`` is not the caller's any more, or the connection has ended: start the epoch again.
        """
        end = math.inf if timeout is None else time.monotonic() + timeout
        with self.lock:
            while self._running:
                if not self._pushed:
                    self._wait(end, watch)
                consumed, self.consumed = self.consumed, None  # not known until this has come to its end
                try:
                    message, raw = self._pushed.popleft() if self._pushed else self._receive()
                    if message.get("generation") != self.generation and not message.get("fatal"):
                        self._drop(message)
                    elif message["type"] == "batch":
                        with _understood(self.connection, message):
                            batch = self._batch(message, raw)
                        self.consumed = batch.consumed
                        return batch
                    else:
                        self._running = False
                        if message["type"] == "error":
                            raise _error(message)
                    self.consumed = consumed
                except errors.ImgfeedError:
                    raise
                except BaseException:  # a batch may be lost, and its slot would never go back
                    self.connection.break_off()
                    raise
            return None

    def labels(self) -> Array:
        """Return the label of every sample, int32 in index order; -1 where its partition is out of reach."""
        return self._ask({"type": "labels"}, lambda reply: self._raw(reply["count"], "<i4"))

    def classes(self) -> list[str]:
        """Return the names of the classes; class i has label i."""
        with self.lock:
            names: list[str] = []
            while True:  # a message holds some MB of them
                reply = self._ask({"type": "classes", "first": len(names)} if names else {"type": "classes"}, dict)
                with _understood(self.connection, reply):
                    names += [str(name) for name in reply["classes"]]
                    if len(names) >= reply.get("count", 0):
                        return names
                    if not reply["classes"]:
                        raise errors.ProtocolError(f"imgfeed: {len(names)} names of classes came, of {reply['count']}")

    def key(self, index: int) -> str:
        """Return the key (the path below the split's root) of the sample with this index."""
        return self._ask({"type": "key", "index": index}, lambda reply: str(reply["key"]))

    def sample(self, index: int) -> tuple[Array, int]:
        """Return a stored image, whole: uint8 RGB of shape (height, width, 3), and its label."""

        def read(reply: wire.Message) -> tuple[Array, int]:
            height, width, label = reply["height"], reply["width"], int(reply["label"])
            return self._raw(height * width * 3, np.uint8).reshape(height, width, 3), label

        return self._ask({"type": "sample", "index": index}, read)

    def file(self, index: int) -> bytes:
        """Return a sample's file, as it was packed."""
        return self._ask({"type": "file", "index": index}, lambda reply: self._raw(reply["bytes"], np.uint8).tobytes())

    def values(self, index: int, fields: Sequence[FieldInfo]) -> dict[str, Any]:
        """Return the values of a sample's fields, by name. fields are those of the set."""

        def read(reply: wire.Message) -> dict[str, Any]:
            values, rest = {}, self._raw(reply["bytes"], np.uint8).tobytes()
            for one in fields:
                values[one.name], rest = _cut(one, rest)
            return values

        return self._ask({"type": "values", "index": index}, read)

    def records(
        self, epoch: int, indices: list[int], repetitions: list[int] | None = None, view: int = 0
    ) -> list[list[dict[str, Any]]]:
        """Return the transform's work on samples in an epoch: for each a list of functions with their arguments."""
        message: wire.Message = {"type": "records", "epoch": epoch, "indices": indices, "view": view}
        if repetitions is not None:
            message["repetitions"] = repetitions
        return self._ask(message, lambda reply: list(reply["records"]))

    def order(self, epoch: int, selected: Selected | None = None) -> Array:
        """Return the index of every sample that an epoch of the selection gives this rank, int64, batch after batch."""
        with self.lock:
            self.select(selected)
            return self._ask({"type": "order", "epoch": epoch}, lambda reply: self._raw(reply["count"], "<i8"))

    def stats(self) -> wire.Message:
        """Return the server's account of this session; ``waiting_for`` says what it waits for."""
        return self._ask({"type": "stats"}, lambda reply: {name: value for name, value in reply.items() if name != "type"})

    def _raw(self, count: int, dtype: npt.DTypeLike) -> Array:
        raw: Array = np.empty(operator.index(count), dtype)
        if count:
            self.connection.receive_raw(raw.data.cast("B"), QUIET + HUNG)
        return raw

    def close(self) -> None:
        """End the session. Arrays in use stay as they are."""
        if self._running:  # with batches unread the server would take it for a loss
            self.stop(self.generation)
        self.connection.close(errors.ServerError("imgfeed: the loader was closed during this iteration"))

    def _ask(
        self,
        message: wire.Message,
        read: Callable[[wire.Message], T],
        want: str | None = None,
        timeout: float = REPLY_TIMEOUT,
        following: Sequence[memoryview] = (),
    ) -> T:
        """Send a request, and what follows it; return the reply, of type want or the request's own, as read converts it."""
        try:
            with self.lock:
                self.connection.send(message, *following)
                while True:
                    if not self.connection.ready(timeout):
                        raise errors.TimeoutError(_LATE)
                    reply, raw = self._receive()
                    if reply["type"] == (want or message["type"]):
                        with _understood(self.connection, reply):
                            return read(reply)
                    if reply["type"] in ("batch", "end") or (reply["type"] == "error" and reply.get("generation")):
                        self._pushed.append((reply, raw))
                    elif reply["type"] == "error":
                        if reply.get("request") in ("release", "stop"):
                            continue  # requests without a reply: this error does not answer the one asked
                        raise _error(reply)
                    elif reply["type"] != _ALIVE:
                        self.connection.close()
                        raise errors.ProtocolError(f"imgfeed: {reply['type']!r} came in answer to {message['type']!r}")
        except errors.TimeoutError:
            self.connection.close()  # a late answer would look like another one's
            raise
        except errors.ImgfeedError:
            raise
        except BaseException:  # Ctrl-C: the same, and a batch may be lost with its slot
            self.connection.break_off()
            raise

    def _wait(self, end: float, watch: bool) -> None:
        """Wait for a message until end, a time of time.monotonic(). With watch a long silence counts as a loss."""
        self.connection.flush()
        wait = end - time.monotonic()
        if watch:
            wait = min(wait, QUIET)
        while not self.connection.ready(None if wait == math.inf else wait):
            now = time.monotonic()
            if now >= end:
                raise errors.TimeoutError(_LATE)
            if not self._asked:
                self._asked, self._asked_at = 1, now
                self.connection.send_later(wire.encode({"type": "stats"}))
            elif now >= self._asked_at + HUNG:
                self.connection.close()
                raise errors.LostError(f"imgfeed: the server has not answered for {now - self._asked_at:.0f} s")
            wait = min(end, self._asked_at + HUNG) - now

    def _receive(self) -> tuple[wire.Message, Array | None]:
        message = self.connection.receive()
        raw: Array | None = None
        if message["type"] == "batch" and self.ring is None:
            with _understood(self.connection, message):
                raw = np.empty(message["bytes"], dtype=np.uint8)
                self.connection.receive_raw(raw.data, QUIET + HUNG)
        elif message["type"] == "error" and message.get("fatal"):
            self.connection.close()
        elif message["type"] == "stats" and self._asked:
            self._asked -= 1
            message = {"type": _ALIVE}
        return message, raw

    def _batch(self, message: wire.Message, raw: Array | None) -> Batch:
        assert self._shape is not None
        count = message["count"]
        image = tuple(message["shape"]) if "shape" in message else None
        if self.ring is None:
            assert raw is not None
            arrays = split_raw(raw, count, self._shape, image)
        else:
            arrays = self.ring.lend(message["slot"], count, self._shape, image)
            if self.ring.slots_held > self._held_max:
                arrays = arrays.copy()
        left = self._batches - message["batch"] - 1
        return Batch(message["consumed"], left, message.get("bad") or [], arrays)

    def _drop_pushed(self) -> None:
        try:
            while self._pushed:
                self._drop(self._pushed.popleft()[0])
        except BaseException:  # Ctrl-C: a slot may be lost
            self.connection.break_off()
            raise

    def _check_room(self, request: wire.Message) -> None:
        """Raise BadRequestError for too long a transform: the server would end the connection."""
        size, most = len(wire.encode(request)), self.limits.get("request_bytes", sys.maxsize)
        if size > most:
            raise errors.BadRequestError(
                f"imgfeed: a request with this transform has {size:,} bytes, at most {most:,} are taken"
            )

    def _drop(self, message: wire.Message) -> None:
        if message["type"] == "batch" and self.ring is not None:
            with _understood(self.connection, message):
                _release(self.connection, message["slot"])


@contextlib.contextmanager
def _understood(connection: wire.Connection, message: wire.Message) -> Iterator[None]:
    """Make an error of the protocol of a message that lacks a member, or has one that makes no sense; the connection ends."""
    try:
        yield
    except errors.ImgfeedError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError) as e:
        connection.close()
        kind = message.get("type")
        raise errors.ProtocolError(f"imgfeed: a {kind!r} from the server is invalid: {type(e).__name__}: {e}") from e


def _cut(field: FieldInfo, values: bytes) -> tuple[Any, bytes]:
    """Return the value of a field, which stands first among a record's values, and the rest."""
    decoders = {**DECODERS, "objects": lambda value: objects_of(value, field.columns), "mask": mask_of}
    if field.type in decoders:
        end = 4 + int.from_bytes(values[:4], "little")
        return decoders[field.type](values[4:end]), values[end:]
    dtype = np.dtype(field.type).newbyteorder("<")
    end = max(field.size, 1) * dtype.itemsize
    numbers = np.frombuffer(values[:end], dtype).astype(field.type)
    return numbers if field.size else numbers[0], values[end:]


@functools.cache
def _release_message(slot: int) -> bytes:
    return wire.encode({"type": "release", "slot": slot})


def _release(connection: wire.Connection, slot: int) -> None:
    connection.send_later(_release_message(slot))


def _error(message: wire.Message) -> errors.ImgfeedError:
    return errors.BY_KIND.get(str(message.get("kind")), errors.ServerError)(str(message.get("message")))


def connect(path: str, timeout: float = REPLY_TIMEOUT) -> Session:
    """Connect to a server's Unix socket, and say hello. Raises LostError if no server answers within timeout seconds."""
    try:
        connection = wire.connect(path)
    except OSError as e:
        if e.errno is None:  # of a signal's handler
            raise
        text = f"imgfeed: can't connect to {path}: {e.strerror or e}; is a server running there?"
        absent = isinstance(e, (FileNotFoundError, ConnectionError, BlockingIOError))
        raise (errors.LostError if absent else errors.ServerError)(text) from e
    try:
        return Session(connection, timeout)
    except errors.TimeoutError as e:
        raise errors.LostError(f"imgfeed: the server on {path} has not answered for {timeout:.0f} s") from e
