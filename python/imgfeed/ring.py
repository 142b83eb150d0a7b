"""The client's side of the shared-memory ring: views of slots, and the moment at which a slot goes back.

A batch's arrays are views of one :class:`_Lease`, an object that stands for the lent slot. numpy keeps it as the arrays'
base, torch keeps the arrays it was given, and every view, slice or DLPack capsule keeps its parent; so the lease goes
when the last of them goes, and its finalizer sends the slot back.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import errors

Array = npt.NDArray[Any]


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

    def parts(self, count: int) -> list[tuple[str, tuple[int, ...], type[np.generic]]]:
        """Return name, shape and type of each array of a batch, in the order in which the socket carries them."""
        parts: list[tuple[str, tuple[int, ...], type[np.generic]]] = [
            ("images", self.images(count), np.uint8),
            ("labels", (count,), np.int64),
            ("indices", (count,), np.int64),
        ]
        if self.with_params:
            parts.append(("params", (count, 5), np.int32))
        return parts


@dataclass
class Arrays:
    """A batch as numpy arrays. params is None unless the session asked for it."""

    images: Array
    labels: Array
    indices: Array
    params: Array | None = None

    def copy(self) -> Arrays:
        """Return the same batch in memory of its own."""
        params = None if self.params is None else self.params.copy()
        return Arrays(self.images.copy(), self.labels.copy(), self.indices.copy(), params)


class _Lease:
    """Stands for one lent slot; numpy arrays made from it keep it as their base."""

    __slots__ = ("__array_interface__", "__weakref__", "_memory")

    def __init__(self, memory: Array, offset: int, size: int) -> None:
        self._memory = memory
        address = memory.__array_interface__["data"][0] + offset
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


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
        self._held: set[int] = set()

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
        lease = _Lease(self.memory, slot * self.shape.slot_bytes, self.shape.slot_bytes)
        self._held.add(slot)
        weakref.finalize(lease, _give_back, self._held, slot, self._release).atexit = False
        whole = np.asarray(lease)
        try:
            views: list[Array] = [
                np.ndarray(dims, dtype, whole, self.shape.offsets[name]) for name, dims, dtype in self.shape.parts(count)
            ]
        except TypeError as e:
            raise errors.ProtocolError(f"imgfeed: {count} samples don't fit in a slot of {self.shape.slot_bytes} bytes") from e
        return Arrays(*views)


def _give_back(held: set[int], slot: int, release: Callable[[int], None]) -> None:
    held.discard(slot)
    release(slot)


def split_raw(raw: Array, count: int, shape: Shape) -> Arrays:
    """Return the arrays of a batch that came as raw bytes: images, labels, indices, params, one behind the other."""
    views: list[Array] = []
    start = 0
    for _, dims, dtype in shape.parts(count):
        size = math.prod(dims) * np.dtype(dtype).itemsize
        part = raw[start : start + size]
        if part.ctypes.data % np.dtype(dtype).itemsize:
            part = part.copy()  # an odd number of image bytes leaves what follows unaligned
        views.append(part.view(dtype).reshape(dims))
        start += size
    if start != raw.size:
        raise errors.ProtocolError(f"imgfeed: a batch of {count} samples came with {raw.size} bytes, want {start}")
    return Arrays(*views)
