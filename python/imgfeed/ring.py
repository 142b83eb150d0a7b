"""The client's side of the shared-memory ring: views of slots, and the moment at which a slot goes back.

A batch's arrays are views of one :class:`_Lease`, an object that stands for the lent slot. numpy keeps it as the arrays'
base, torch keeps the arrays it was given, and every view, slice or DLPack capsule keeps its parent; so the lease goes
when the last of them goes, and sends the slot back.

What is here for each batch runs with cold caches, as decoding threads sweep them: a line of Python costs several times of
what it costs in a loop of its own. So what is the same for every batch is made once.
"""

from __future__ import annotations

import math
import mmap
import os
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import errors

Array = npt.NDArray[Any]
Part = tuple[tuple[int, ...], np.dtype[Any], int]


@dataclass(frozen=True)
class Shape:
    """What one batch holds, as the reply to ``open`` says. Offsets are bytes within a slot."""

    height: int
    width: int
    channels: int
    layout: str  # NHWC or NCHW
    offsets: dict[str, int]
    slot_bytes: int
    with_params: bool

    def images(self, count: int) -> tuple[int, ...]:
        """Return the shape of count images."""
        if self.layout == "NCHW":
            return (count, self.channels, self.height, self.width)
        return (count, self.height, self.width, self.channels)

    def parts(self, count: int) -> list[Part]:
        """Return shape, type and offset in a slot of each array of a batch, in the order in which the socket carries them."""
        parts: list[Part] = [
            (self.images(count), np.dtype(np.uint8), self.offsets["images"]),
            ((count,), np.dtype(np.int64), self.offsets["labels"]),
            ((count,), np.dtype(np.int64), self.offsets["indices"]),
        ]
        if self.with_params:
            parts.append(((count, 5), np.dtype(np.int32), self.offsets["params"]))
        return parts


@dataclass(slots=True)
class Arrays:
    """A batch as numpy arrays. params is None unless the session asked for it, and indices when nobody asks for them."""

    images: Array
    labels: Array
    indices: Array | None
    params: Array | None = None

    def columns(self) -> tuple[Array, ...]:
        """Return those arrays that there are."""
        columns: tuple[Array, ...] = (self.images, self.labels)
        if self.indices is not None:
            columns += (self.indices,)
        return columns if self.params is None else (*columns, self.params)

    def copy(self) -> Arrays:
        """Return the same batch in memory of its own."""
        indices = None if self.indices is None else self.indices.copy()
        params = None if self.params is None else self.params.copy()
        return Arrays(self.images.copy(), self.labels.copy(), indices, params)


class _Lease:
    """Stands for one lent slot; numpy arrays made from it keep it as their base."""

    __slots__ = ("__array_interface__", "__weakref__", "_ring", "_slot")

    def __init__(self, ring: Ring, slot: int, interface: dict[str, Any]) -> None:
        self._ring = ring  # and with it the mapping
        self._slot = slot
        self.__array_interface__ = interface

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not finalizing():  # at the interpreter's end modules are half gone, and so is the connection
            self._ring.take_back(self._slot)


class Ring:
    """A mapping of the server's memfd.

    The mapping outlives the session and the server: it goes with the last array that looks into it.
    """

    def __init__(self, fd: int, ring_bytes: int, slots: int, shape: Shape, release: Callable[[int], None]) -> None:
        """Map ring_bytes of fd (which stays the caller's). release sends a slot back; it may be called by any thread."""
        size = os.fstat(fd).st_size
        if size < ring_bytes or ring_bytes < slots * shape.slot_bytes:
            raise errors.ProtocolError(
                f"imgfeed: a ring of {size} bytes came, where {slots} slots of {shape.slot_bytes} bytes were announced"
            )
        self.memory: Array = np.frombuffer(mmap.mmap(fd, ring_bytes, mmap.MAP_SHARED), dtype=np.uint8)
        self.slots = slots
        self.shape = shape
        self._release = release
        self._held: dict[int, weakref.ref[_Lease]] = {}
        self._parts: dict[int, list[Part]] = {}  # by the batch's count
        begin = self.memory.__array_interface__["data"][0]
        self._interfaces: list[dict[str, Any]] = [
            {"shape": (shape.slot_bytes,), "typestr": "|u1", "data": (begin + i * shape.slot_bytes, False), "version": 3}
            for i in range(slots)
        ]

    @property
    def held(self) -> int:
        """How many slots the caller's arrays hold at this moment."""
        return len(self._held)

    def on_unmap(self, call: Callable[..., object], *args: object) -> None:
        """Have call(*args) called just before the memory is unmapped."""
        weakref.finalize(self.memory, call, *args).atexit = False

    def lend(self, slot: int, count: int) -> Arrays:
        """Return views of the batch of count samples in slot. The slot goes back with the last reference to them."""
        if not 0 <= slot < self.slots:
            raise errors.ProtocolError(f"imgfeed: batch in slot {slot} of a ring with {self.slots} slots")
        parts = self._parts.get(count)
        if parts is None:
            parts = self._parts[count] = self.shape.parts(count)
        lease = _Lease(self, slot, self._interfaces[slot])
        self._held[slot] = weakref.ref(lease)
        whole = np.asarray(lease)
        del lease  # else it would stay with the error below
        try:
            return Arrays(*[np.ndarray(dims, dtype, whole, offset) for dims, dtype, offset in parts])
        except TypeError as e:
            raise errors.ProtocolError(f"imgfeed: {count} samples don't fit in a slot of {self.shape.slot_bytes} bytes") from e

    def take_back(self, slot: int) -> None:
        """Send a slot back that nothing refers to any more."""
        self._held.pop(slot, None)
        self._release(slot)

    def reclaim(self) -> None:
        """Send back slots whose lease is gone and has not done so: a Ctrl-C at a finalizer's first instruction ends it."""
        for slot, lease in list(self._held.items()):
            if lease() is None:
                self.take_back(slot)


def split_raw(raw: Array, count: int, shape: Shape) -> Arrays:
    """Return the arrays of a batch that came as raw bytes: images, labels, indices, params, one after the other."""
    views: list[Array] = []
    start = 0
    for dims, dtype, _ in shape.parts(count):
        size = math.prod(dims) * dtype.itemsize
        part = raw[start : start + size]
        if part.ctypes.data % dtype.itemsize:
            part = part.copy()  # an odd number of image bytes leaves what follows unaligned
        views.append(part.view(dtype).reshape(dims))
        start += size
    if start != raw.size:
        raise errors.ProtocolError(f"imgfeed: a batch of {count} samples came with {raw.size} bytes, want {start}")
    return Arrays(*views)
