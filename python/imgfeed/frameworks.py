"""What this package takes from torch when it is there: tensors, the process group's rank, pinned memory, streams."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import operator
import os
import sys
from collections import deque
from pathlib import Path
from typing import Any

from .arguments import whole
from .ring import Arrays, Ring

log = logging.getLogger("imgfeed")

_HOST_REGISTER_PORTABLE = 1  # cudaHostRegisterPortable
_CPU_LIMIT = "/sys/fs/cgroup/cpu.max"  # "QUOTA PERIOD" in microseconds, of this control group
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def torch_wanted(framework: str) -> bool:
    """Return whether batches are to be torch tensors: framework is ``torch``, ``numpy`` or ``auto`` (torch if installed)."""
    if framework not in ("auto", "torch", "numpy"):
        raise ValueError(f"imgfeed: framework must be 'auto', 'torch' or 'numpy', not {framework!r}")
    installed = "torch" in sys.modules or importlib.util.find_spec("torch") is not None
    if framework == "torch" and not installed:
        raise ValueError("imgfeed: framework='torch', but torch is not installed")
    return installed and framework != "numpy"


def torch() -> Any:
    """Return the torch module."""
    return importlib.import_module("torch")


def rank_and_world(rank: int | None, world: int | None) -> tuple[int, int]:
    """Return this process's rank and the world's size.

    In this order: what is given; torch.distributed's default group, if it is initialised; torchrun's RANK and
    WORLD_SIZE; 0 and 1.
    """
    if (rank is None) != (world is None):
        raise ValueError("imgfeed: give both rank and world, or neither")
    if rank is not None and world is not None:
        rank, world = whole("rank", rank), whole("world", world)
    else:
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            rank, world = int(distributed.get_rank()), int(distributed.get_world_size())
        else:
            rank, world = _from_env("RANK", 0), _from_env("WORLD_SIZE", 1)
    rank, world = operator.index(rank), operator.index(world)
    if not 0 <= rank < world:
        raise ValueError(f"imgfeed: rank {rank} of a world of {world}: want 0 <= rank < world")
    return rank, world


def threads_default() -> int:
    """Return how many threads should decode for this process: its processors, shared with the node's other ranks.

    A container's limit counts: more threads than it allows would be stopped for most of each of its periods.
    """
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(here, _cpu_limit()) // max(1, _from_env("LOCAL_WORLD_SIZE", 1)))


def _cpu_limit() -> int:
    """Return how many processors the control group (cgroups(7), version 2) lets run at a time, rounded up."""
    try:
        quota, period = Path(_CPU_LIMIT).read_text().split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # there is none of version 2, or its quota is "max"
        return sys.maxsize


def _from_env(name: str, default: int) -> int:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"imgfeed: the environment variable {name} is {text!r}, want a number") from None


def normalisation(normalize: Any) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return mean and standard deviation of each channel, for pixels from 0 to 1; None where none was asked for."""
    if normalize is None:
        return None
    if normalize == "imagenet":
        return IMAGENET_MEAN, IMAGENET_STD
    try:
        mean, std = (tuple(float(v) for v in part) for part in normalize)
    except (TypeError, ValueError):
        raise ValueError(
            f"imgfeed: normalize must be 'imagenet' or a pair (mean, std) of three numbers each, not {normalize!r}"
        ) from None
    if len(mean) != 3 or len(std) != 3 or not all(s > 0 for s in std):
        raise ValueError(f"imgfeed: normalize needs three means and three positive deviations, not {normalize!r}")
    return mean, std


class NumpyOutput:
    """Hands batches to the caller as numpy arrays, shaped as the layout says."""

    def __call__(self, arrays: Arrays) -> tuple[Any, Any, Any, Any]:
        """Return images, labels, indices and params (None where not asked for)."""
        return arrays.images, arrays.labels, arrays.indices, arrays.params


class TorchOutput:
    """Hands batches to the caller as torch tensors; images are NCHW in shape whatever their order in memory."""

    def __init__(self, layout: str, pin: bool, normalize: Any, dtype: Any) -> None:
        """Take normalize and dtype as in DataLoader; pin copies each batch into page-locked memory of torch."""
        self._torch = torch()
        self._nhwc = layout == "NHWC"
        self._pin = pin
        self._normalize = normalisation(normalize)
        self._dtype = dtype
        self._scale: dict[Any, tuple[Any, Any]] = {}

    def host(self, arrays: Arrays) -> list[Any]:
        """Return the batch as tensors in host memory, without a copy."""
        tensor, indices, params = self._torch.from_numpy, arrays.indices, arrays.params
        images = tensor(arrays.images)
        if self._nhwc:
            images = images.permute(0, 3, 1, 2)
        return [
            images,
            tensor(arrays.labels),
            None if indices is None else tensor(indices),
            None if params is None else tensor(params),
        ]

    def __call__(self, arrays: Arrays) -> tuple[Any, Any, Any, Any]:
        """Return images, labels, indices and params (None where not asked for)."""
        images, *rest = self.host(arrays)
        if self._pin:
            images, *rest = (None if t is None else t.pin_memory() for t in (images, *rest))
        return self.finish(images), rest[0], rest[1], rest[2]

    def finish(self, images: Any) -> Any:
        """Return images normalised and converted as asked, on the device where they are."""
        if self._normalize is not None:
            if images.device not in self._scale:
                self._scale[images.device] = self._constants(images.device)
            scale, shift = self._scale[images.device]
            return images.to(scale.dtype).mul_(scale).add_(shift)
        return images if self._dtype is None else images.to(self._dtype)

    def _constants(self, device: Any) -> tuple[Any, Any]:
        """Return scale and shift with (pixel/255 - mean)/std = pixel*scale + shift."""
        assert self._normalize is not None
        mean, std = (self._torch.tensor(v, dtype=self._torch.float64).view(1, 3, 1, 1) for v in self._normalize)
        dtype = self._dtype or self._torch.float32
        return (1 / (255 * std)).to(device, dtype), (-mean / std).to(device, dtype)


class CudaOutput:
    """Copies batches to a CUDA device on a stream of its own, one batch ahead of the caller.

    The ring is page-locked, so that the copy reads the slot itself; a slot is held until its copy has completed.
    """

    def __init__(self, device: Any, tensors: TorchOutput) -> None:
        """Copy to device, a torch.device of type cuda."""
        self._torch = torch()
        self._device = device
        self._tensors = tensors
        self._stream = self._torch.cuda.Stream(device)
        self._flying: deque[tuple[Any, Any]] = deque()  # the event behind a copy, and what it reads

    def put(self, arrays: Arrays, flying_max: int) -> tuple[list[Any], Any]:
        """Begin the copy of a batch; returns its tensors on the device and the event that says when they are there."""
        while self._flying and (self._flying[0][0].query() or len(self._flying) >= flying_max):
            self._flying.popleft()[0].synchronize()
        host = self._tensors.host(arrays)
        with self._torch.cuda.stream(self._stream):
            there = [None if t is None else self.send(t) for t in host]
            copied = self._torch.cuda.Event()
            copied.record(self._stream)
            there[0] = self._tensors.finish(there[0])
            ready = self._torch.cuda.Event()
            ready.record(self._stream)
        self._flying.append((copied, host))
        return there, ready

    def send(self, tensor: Any) -> Any:
        """Begin the copy of one tensor on the current stream, and return it as it will be on the device."""
        return tensor.to(self._device, non_blocking=True)

    def take(self, there: list[Any], ready: Any) -> tuple[Any, Any, Any, Any]:
        """Return a batch that :meth:`put` began, for use on the caller's current stream."""
        stream = self._torch.cuda.current_stream(self._device)
        stream.wait_event(ready)
        for tensor in there:
            if tensor is not None:
                tensor.record_stream(stream)
        return there[0], there[1], there[2], there[3]

    def drain(self) -> None:
        """Wait for the copies that are under way, and let go of their slots."""
        while self._flying:
            self._flying.popleft()[0].synchronize()


def page_lock(ring: Ring) -> None:
    """Page-lock the ring for CUDA, for all devices and for as long as it is mapped.

    Where CUDA refuses, copies work all the same, but wait for each other; the log says so.
    """
    cudart = torch().cuda.cudart()
    address, size = ring.memory.ctypes.data, ring.memory.nbytes
    result = int(cudart.cudaHostRegister(address, size, _HOST_REGISTER_PORTABLE))
    if result != 0:
        log.warning("imgfeed: CUDA can't page-lock the ring of %d bytes (error %d): copies will be slower", size, result)
        return
    ring.on_unmap(cudart.cudaHostUnregister, address)
