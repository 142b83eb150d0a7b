"""The client's side of the shared-memory ring: views of slots, and the moment at which a slot goes back.

A batch's arrays are views of one ``_Lease``, which stands for the lent slot. numpy keeps it as the arrays' base, and every
view, slice or DLPack capsule keeps its parent. When the last of them goes, the lease sends the slot back.

Decoding threads sweep the caches, so everything that is the same for every batch is made once.
"""

import json
import math
import mmap
import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import errors
from .sets import Array
from .targets import Dictionaries, Target, TargetFields, names_of

Listed = Sequence[Mapping[str, Any]]  # arrays, as replies have them
Part = tuple[tuple[int, ...], np.dtype[Any], int]


@dataclass(frozen=True)
class ArrayInfo:
    """One array of a slot, as the reply to ``open`` says. shape is of one sample, offset in bytes within a slot."""

    kind: str
    name: str
    packed: str | None  # text, json, bytes or objects: each sample has a length, and so many bytes
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    columns: Sequence[Mapping[str, str]] = ()  # of objects: name and type of each one's numbers

    @classmethod
    def of(cls, array: Mapping[str, Any]) -> "ArrayInfo":
        """Take an array of the reply. An unknown kind has only bytes, which are skipped."""
        kind, name, dtype, offset = array["kind"], array.get("name", ""), array["dtype"], array["offset"]
        packed = kind == "field" and (dtype in DECODERS or dtype == "objects")
        if packed or kind not in ("images", "labels", "indices", "params", "repetitions", "field"):
            stride = (array["stride"],)
            return cls(kind, name, dtype if packed else None, np.dtype(np.uint8), stride, offset, array.get("columns", ()))
        if dtype not in ("uint8", "int32", "int64", "float32"):  # numpy makes a type of much else, too
            raise errors.ProtocolError(
                f"imgfeed: the server's batches have arrays of {dtype!r:.100}, which is not a type of numbers"
            )
        return cls(kind, name, None, np.dtype(dtype), tuple(array["shape"]), offset)


class Shape:
    """The content of a slot: its arrays, in the order of the socket."""

    def __init__(self, arrays: Listed, slot_bytes: int, fields: Sequence[str] = (), target: Target = None) -> None:
        """Take arrays as the reply to ``open`` lists them, and the caller's fields and target.

        Raises ProtocolError if an array that every batch has is missing.
        """
        self.slot_bytes, self._fields, self._target = slot_bytes, fields, target
        self._arrays = [ArrayInfo.of(a) for a in arrays]
        at = {info.kind: i for i, info in enumerate(self._arrays) if info.kind != "field"}
        views = [i for i, info in enumerate(self._arrays) if info.kind == "images" and info.name]
        drawn = [i for i, info in enumerate(self._arrays) if info.kind == "params" and info.name]
        self._named = named = {info.name: i for i, info in enumerate(self._arrays) if info.kind == "field"}
        missing = sorted({"images", "labels", "indices"} - at.keys()) + [f for f in names_of(fields, target) if f not in named]
        if missing:
            raise errors.ProtocolError(f"imgfeed: the server's batches have no {', '.join(missing)}")
        self._labels, self._indices, self._repetitions = at["labels"], at["indices"], at.get("repetitions")
        self._images: int | list[int] = views or at["images"]  # several of them have names
        self._params: int | list[int] | None = drawn or at.get("params")
        self._parts: dict[tuple[int, tuple[int, ...] | None], list[Part]] = {}  # by the batch's count, and its images' shape

    def of(self, arrays: Listed) -> "Shape":
        """Return the content of the same slots with other arrays."""
        return Shape(arrays, self.slot_bytes, self._fields, self._target)

    def parts(self, count: int, image: tuple[int, ...] | None = None) -> list[Part]:
        """Return shape, type and offset in a slot of a batch's arrays. image is the shape of its images, if smaller."""
        if parts := self._parts.get((count, image)):
            return parts
        shapes = [image if image is not None and info.kind == "images" else info.shape for info in self._arrays]
        parts = [((count, *shape), info.dtype, info.offset) for shape, info in zip(shapes, self._arrays, strict=True)]
        for dims, dtype, offset in parts:  # numpy takes offsets before the buffer, and objects
            fits = 0 <= offset <= self.slot_bytes - math.prod(dims) * dtype.itemsize
            if not fits or min(dims) < 0 or dtype.hasobject:
                raise errors.ProtocolError(f"imgfeed: {count} samples don't fit in a slot of {self.slot_bytes} bytes")
        self._parts[count, image] = parts
        return parts

    def batch(self, views: list[Array]) -> "Arrays":
        target: Any = self._target
        if target is not None:
            target = self._field(views, target) if isinstance(target, str) else self._dictionaries(views, target)
        images, params, repetitions = (_of(views, which) for which in (self._images, self._params, self._repetitions))
        fields = [self._field(views, name) for name in self._fields]
        return Arrays(images, views[self._labels], views[self._indices], params, target, fields, repetitions)

    def _dictionaries(self, views: list[Array], of: TargetFields) -> Dictionaries:
        at, labels = self._named, views[self._labels]
        assert of.objects is not None
        masks = None if of.mask is None else views[at[of.mask]]
        ids = views[self._indices if of.image_id is None else at[of.image_id]]
        images = self._arrays[self._images if isinstance(self._images, int) else self._images[0]].shape
        canvas = (images[0], images[1]) if of.layout == "NHWC" else (images[1], images[2])
        objects, sizes = at[of.objects], (views[at["height"]], views[at["width"]])
        columns = self._arrays[objects].columns
        return Dictionaries(views[objects], columns, sizes, ids, labels if of.label else None, masks, of.boxes, canvas)

    def _field(self, views: list[Array], name: str) -> "Array | Packed":
        i = self._named[name]
        packed = self._arrays[i].packed
        return views[i] if packed is None else Packed(views[i], packed)


def _of(views: list[Array], indices: int | list[int] | None) -> Any:
    """Return an array, those of several views, or None."""
    return [views[i] for i in indices] if isinstance(indices, list) else None if indices is None else views[indices]


#: Converts bytes to a value, for the types of fields with values of any length.
DECODERS: dict[str, Callable[[bytes], Any]] = {"bytes": bytes, "text": bytes.decode, "json": json.loads}


@dataclass(slots=True)
class Packed:
    """Values of any length: of each sample a u32, the length, and so many bytes."""

    array: Array  # uint8, (count, stride)
    kind: str  # one of DECODERS

    def values(self) -> list[Any]:
        """Return each sample's value. A blank sample has an empty one, of JSON None."""
        decode = DECODERS[self.kind]
        lengths = np.ascontiguousarray(self.array[:, :4]).view("<u4")[:, 0].tolist()
        room = self.array.shape[1] - 4
        if max(lengths, default=0) > room:
            raise errors.ProtocolError(f"imgfeed: a value of {max(lengths)} bytes came where {room} have room")
        rows = (row[4 : 4 + length].tobytes() for row, length in zip(self.array, lengths, strict=True))
        return [None if self.kind == "json" and not row else decode(row) for row in rows]

    def copy(self) -> "Packed":
        return Packed(self.array.copy(), self.kind)


@dataclass(slots=True)
class Arrays:
    """A batch as numpy arrays. Arrays that the session or the caller did not ask for are None. With several views images and
    params are lists.
    """

    images: Array | list[Array]
    labels: Array
    indices: Array
    params: Any  # an array, a list of them, or records instead
    target: Array | Packed | Dictionaries | None  # instead of the labels
    fields: list[Any]  # an array or Packed each, or values that were made of them
    repetitions: Array | None = None

    def columns(self, *, with_index: bool = True) -> tuple[Array | list[Any], ...]:
        """Return the columns that the caller gets: values of any length as lists."""
        labels = self.labels if self.target is None else _values(self.target)
        more = (column for column in (self.indices if with_index else None, self.params) if column is not None)
        return (self.images, labels, *map(_values, self.fields), *more)

    def copy(self) -> "Arrays":
        return Arrays(*(_copied(getattr(self, name)) for name in self.__slots__))


def _copied(of: Any) -> Any:
    return [one.copy() for one in of] if isinstance(of, list) else None if of is None else of.copy()


def _values(column: Array | Packed | Dictionaries | list[Any]) -> Array | list[Any]:
    return column.values() if isinstance(column, (Packed, Dictionaries)) else column


class _Lease:
    """Stands for one lent slot; numpy arrays made from it keep it as their base."""

    __slots__ = ("__array_interface__", "__weakref__", "_ring", "_slot")

    def __init__(self, ring: "Ring", slot: int, interface: dict[str, Any]) -> None:
        self._ring = ring  # and with it the mapping
        self._slot = slot
        self.__array_interface__ = interface

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        try:
            if not finalizing():  # at the interpreter's end modules are half gone, and so is the connection
                self._ring.take_back(self._slot)
        except BaseException as e:  # Ctrl-C, which does not come out of here: the next batch raises it, without this frame
            if hasattr(self, "_ring"):  # else it has come before that, and out of lend
                self._ring.break_off(e.with_traceback(None))


class Ring:
    """A mapping of the server's memfd, which outlives session and server: it goes with the last array that looks into it."""

    def __init__(
        self,
        fd: int,
        ring_bytes: int,
        slots: int,
        slot_bytes: int,
        release: Callable[[int], None],
        *,
        break_off: Callable[[BaseException | None], None],
    ) -> None:
        """Map ring_bytes of fd (which stays the caller's). release sends a slot back; it may be called by any thread.

        break_off ends the connection when nobody knows whether a slot has gone back.
        """
        size = os.fstat(fd).st_size
        if slots < 1 or slot_bytes < 1 or size < ring_bytes or ring_bytes < slots * slot_bytes:
            raise errors.ProtocolError(
                f"imgfeed: a ring of {size} bytes came, where {slots} slots of {slot_bytes} bytes were announced"
            )
        self.memory: Array = np.frombuffer(mmap.mmap(fd, ring_bytes, mmap.MAP_SHARED), dtype=np.uint8)
        self.slots, self.slot_bytes = slots, slot_bytes
        self._release = release
        self.break_off = break_off
        self._held: dict[int, weakref.ref[_Lease]] = {}
        begin = self.memory.__array_interface__["data"][0]
        self._interfaces: list[dict[str, Any]] = [
            {"shape": (slot_bytes,), "typestr": "|u1", "data": (begin + i * slot_bytes, False), "version": 3}
            for i in range(slots)
        ]

    @property
    def slots_held(self) -> int:
        """How many slots the caller's arrays hold at this moment."""
        return len(self._held)

    def lend(self, slot: int, count: int, shape: Shape, image: tuple[int, ...] | None = None) -> Arrays:
        """Return views of count samples in slot, which goes back with the last reference to them. image: as for parts."""
        if not 0 <= slot < self.slots:
            raise errors.ProtocolError(f"imgfeed: batch in slot {slot} of a ring with {self.slots} slots")
        parts = shape.parts(count, image)
        lease = _Lease(self, slot, self._interfaces[slot])
        self._held[slot] = weakref.ref(lease)
        whole = np.asarray(lease)
        return shape.batch([np.ndarray(dims, dtype, whole, offset) for dims, dtype, offset in parts])

    def take_back(self, slot: int) -> None:
        """Send a slot back that nothing refers to any more."""
        try:
            self._held.pop(slot, None)
            self._release(slot)
        except BaseException:  # between the two nobody has the slot
            self.break_off(None)
            raise

    def reclaim(self) -> None:
        """Send back slots that a lost lease has not: a Ctrl-C at a finalizer's first instruction ends it."""
        for slot in list(self._held):  # not its items, which are made meanwhile: finalizers may run then, and change it
            lease = self._held.get(slot)
            if lease is not None and lease() is None:
                self.take_back(slot)


def split_raw(raw: Array, count: int, shape: Shape, image: tuple[int, ...] | None = None) -> Arrays:
    """Return the arrays of a batch that came as raw bytes, one after the other. image is the same as for ``Ring.lend``."""
    views: list[Array] = []
    start = 0
    for (room, dtype, _), (dims, *_) in zip(shape.parts(count), shape.parts(count, image), strict=True):
        size = math.prod(room) * dtype.itemsize
        part = raw[start : start + min(size, math.prod(dims) * dtype.itemsize)]
        if part.ctypes.data % dtype.itemsize:
            part = part.copy()  # an odd number of image bytes leaves what follows unaligned
        views.append(part.view(dtype).reshape(dims))
        start += size
    if start != raw.size:
        raise errors.ProtocolError(f"imgfeed: a batch of {count} samples came with {raw.size} bytes, want {start}")
    return shape.batch(views)
