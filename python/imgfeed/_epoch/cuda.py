"""Batches on a CUDA device: each is copied out of a page-locked ring while the caller still has the one before."""

import logging
import weakref
from collections import deque
from typing import Any

from .. import errors
from .._arguments.arguments import Options
from .._server.client import Batch
from .._server.ring import Arrays, Ring
from .outputs import Columns, Fetch, NextBatch, TorchOutput, each

log = logging.getLogger("imgfeed")

_HOST_REGISTER_PORTABLE = 1  # cudaHostRegisterPortable
_SLOTS_FOR_OTHERS = 3  # of a ring: one being filled, one ready, one with the caller
_COPIES_WITHOUT_RING = 2


class CudaOutput(TorchOutput):
    """Hands batches to the caller as tensors on a CUDA device; a slot is held until its copy has completed."""

    def __init__(self, options: Options) -> None:
        super().__init__(options, pin=False)
        self._device = options.device
        self._stream = self._torch.cuda.Stream(self._device)
        self._copies: deque[tuple[Any, Any]] = deque()  # running: the event after each, and its source
        # They read memory which goes with this object. At the interpreter's end the driver waits for them itself.
        weakref.finalize(self, _await, self._copies).atexit = False

    def batches(self, fetch: Fetch, slots: int) -> NextBatch:
        """Return what gives an epoch's batches on the device; the next one's copy has begun by then."""
        copies_max = max(1, slots - _SLOTS_FOR_OTHERS) if slots else _COPIES_WITHOUT_RING
        begun: tuple[int, Batch, Columns, Any] | None = None  # after so many samples
        failed: tuple[int, errors.ImgfeedError] | None = None  # the error instead of the batch after so many samples

        def begin(after: int) -> tuple[int, Batch, Columns, Any] | None:
            batch = fetch(after)
            return None if batch is None else (after, batch, *self.put(batch.arrays, copies_max))

        def following(after: int) -> tuple[Batch, Columns] | None:
            nonlocal begun, failed
            if failed is not None and failed[0] == after:
                raise failed[1]
            if begun is None or begun[0] != after:
                begun = begin(after)
            if begun is None:
                return None
            _, batch, tensors, ready = begun
            try:
                begun = begin(batch.consumed)
            except errors.TimeoutError:
                begun = None  # this batch is here; the next call waits again
            except errors.ImgfeedError as e:
                begun, failed = None, (batch.consumed, e)
            return batch, self.take(tensors, ready)

        return following

    def put(self, arrays: Arrays, copies_max: int) -> tuple[Columns, Any]:
        """Begin the copy of a batch; returns its tensors on the device and the event that says when they are there."""
        while self._copies and (self._copies[0][0].query() or len(self._copies) >= copies_max):
            self._copies.popleft()[0].synchronize()
        host = self.host(arrays)
        with self._torch.cuda.stream(self._stream):
            images, *rest = (each(self.send, column) for column in host)
            copied = self._torch.cuda.Event()
            copied.record(self._stream)
            images = each(self.finish, images)
            ready = self._torch.cuda.Event()
            ready.record(self._stream)
        self._copies.append((copied, host))
        return (images, *rest), ready

    def send(self, tensor: Any) -> Any:
        """Begin the copy of one tensor on the current stream, and return it as it will be on the device."""
        return tensor.to(self._device, non_blocking=True)

    def take(self, tensors: Columns, ready: Any) -> Columns:
        """Return a batch that ``put`` began, for use on the caller's current stream."""
        stream = self._torch.cuda.current_stream(self._device)
        stream.wait_event(ready)
        for tensor in tensors:
            each(lambda t: t.record_stream(stream), tensor)
        return tensors

    def attach(self, ring: Ring) -> None:
        """Page-lock the ring for CUDA as long as it is mapped. If CUDA refuses, copies wait for each other; the log says so."""
        cudart = self._torch.cuda.cudart()
        address, size = ring.memory.ctypes.data, ring.memory.nbytes
        result = int(cudart.cudaHostRegister(address, size, _HOST_REGISTER_PORTABLE))
        if result != 0:
            log.warning("imgfeed: CUDA can't page-lock the ring of %d bytes (error %d): copies will be slower", size, result)
            return
        weakref.finalize(ring.memory, cudart.cudaHostUnregister, address).atexit = False

    def drain(self) -> None:
        _await(self._copies)


def _await(copies: deque[tuple[Any, Any]]) -> None:
    while copies:
        copies.popleft()[0].synchronize()
