"""``--batch-size auto``: the largest batch that every rank's GPU takes."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

from ..errors import TrainError
from ..evaluate import autocast
from ..launch.agree import most
from ..launch.place import Place
from ..settings import Settings

MULTIPLE = 8  # images; tensor cores like it
LIMIT = 65536  # images
SPARE = 0.1  # part of the memory that stays free


def batch_size(model: nn.Module, s: Settings, place: Place, device: torch.device, classes: int) -> int:
    """Return the images per rank and step that fit, the same on all ranks. model is on its device, not yet distributed.

    Raises TrainError without a GPU, and where not even MULTIPLE images fit.
    """
    if device.type != "cuda":
        raise TrainError("--batch-size auto measures a GPU's memory, and there is none: give a number")
    gpus = torch.cuda.device_count() if s.strategy == "dp" else 1
    if s.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,unused-ignore]
    held = _held(model, s, place)
    size = search(lambda n: _try(model, s, device, classes, n), device) * gpus
    del held
    if place.rank == 0:
        step = size * place.world * s.accumulate
        print(
            f"--batch-size auto: {size} images of {s.size} pixels a rank, {step} a step; --lr {s.lr:g} is as given", flush=True
        )
    return size


def search(run: Callable[[int], None], device: torch.device) -> int:
    """Return the largest batch for which run raises no out-of-memory error on any rank. Raises TrainError if none does."""
    size = largest_that_fits(lambda n: fits(run, n, device))
    size = int(most(size, device, dist.ReduceOp.MIN))
    if not size:
        raise TrainError(f"--batch-size auto: not even {MULTIPLE} images fit the GPU of every rank")
    return size


def largest_that_fits(fits: Callable[[int], bool], multiple: int = MULTIPLE, limit: int = LIMIT) -> int:
    """Return the largest multiple of ``multiple`` up to limit for which fits is true; 0 if none. Doubles, then bisects."""
    low, high = 0, multiple
    while high <= limit and fits(high):
        low, high = high, high * 2
    high = min(high, limit + multiple)
    while high - low > multiple:
        middle = (low + high) // 2 // multiple * multiple
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def fits(run: Callable[[int], None], size: int, device: torch.device) -> bool:
    """Return whether run(size) ends without an out-of-memory error, and leaves SPARE of a GPU's memory. Others pass through."""
    try:
        run(size)
        if device.type != "cuda":
            return True
        free, total = torch.cuda.mem_get_info(device)
        return bool(free > SPARE * total)
    except RuntimeError as e:
        if not (isinstance(e, torch.cuda.OutOfMemoryError) or "out of memory" in str(e) or "ALLOC_FAILED" in str(e)):
            raise
        return False
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()


def _held(model: nn.Module, s: Settings, place: Place) -> list[torch.Tensor]:
    """Allocate what training holds besides weights and gradients: moments, DDP's buckets, the moving average."""
    copies = (1 if s.optimizer == "sgd" else 2) + (place.world > 1) + bool(s.ema)
    return [torch.empty_like(p) for p in model.parameters() for _ in range(copies)]


def _try(model: nn.Module, s: Settings, device: torch.device, classes: int, batch: int) -> None:
    """Run forward and backward of a batch; the model's statistics and the random numbers stay as they were."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    form = torch.channels_last if s.channels_last else torch.contiguous_format
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            images = torch.zeros(batch, 3, s.size, s.size, device=device).to(memory_format=form)
            with autocast(s, device):
                output = model(images)
            labels = torch.zeros(batch, dtype=torch.int64, device=device) % classes
            nn.functional.cross_entropy(output.float(), labels).backward()
    finally:
        model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                buffer.copy_(before[name])
