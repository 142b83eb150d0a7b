"""Optimisers, schedules and the largest batch that fits; all of torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import lr_scheduler

from .settings import Settings

EPOCHS_TO_ZERO = 1e-6  # a cosine ends at this part of the highest rate


def optimizer(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    """Return the optimiser; without decay_norm, tensors of one dimension (norms, biases) are not decayed."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not s.decay_norm:
        decayed = [p for p in trained if p.ndim > 1]
        rest = [p for p in trained if p.ndim <= 1]
        groups: list[dict[str, Any]] = [{"params": decayed}, {"params": rest, "weight_decay": 0.0}]
    else:
        groups = [{"params": trained}]
    if s.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=s.lr, momentum=s.momentum, weight_decay=s.weight_decay)
    kind = torch.optim.Adam if s.optimizer == "adam" else torch.optim.AdamW
    return kind(groups, lr=s.lr, weight_decay=s.weight_decay)


def schedule(opt: torch.optim.Optimizer, s: Settings, steps_per_epoch: int) -> Any:
    """Return the schedule, which steps once an optimiser step for ``epochs * steps_per_epoch`` steps."""
    total = s.epochs * steps_per_epoch
    if s.schedule == "onecycle":
        return lr_scheduler.OneCycleLR(opt, max_lr=s.lr, total_steps=total)
    warm = min(round(s.warmup_epochs * steps_per_epoch), total - 1)
    if s.schedule == "cosine":
        main: Any = lr_scheduler.CosineAnnealingLR(opt, T_max=total - warm, eta_min=s.lr * EPOCHS_TO_ZERO)
    else:
        main = lr_scheduler.ConstantLR(opt, factor=1.0)
    if not warm:
        return main
    rise = lr_scheduler.LinearLR(opt, start_factor=1 / (warm + 1), total_iters=warm)
    return lr_scheduler.SequentialLR(opt, [rise, main], milestones=[warm])


def largest_that_fits(fits: Callable[[int], bool], multiple: int = 8, limit: int = 65536) -> int:
    """Return the largest multiple of ``multiple`` up to limit for which fits is true; 0 if none. Doubles, then bisects."""
    low, high = 0, multiple
    while high <= limit and fits(high):
        low, high = high, high * 2
    high = min(high, limit + multiple)
    while high - low > multiple:
        middle = (low + high) // 2 // multiple * multiple
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def fits_gpu(model: nn.Module, s: Settings, device: torch.device, classes: int, batch: int) -> bool:
    """Return whether a training step of a batch fits the GPU, with a tenth of its memory left over."""
    try:
        images = torch.zeros(batch, 3, s.size, s.size, device=device)
        if s.channels_last:
            images = images.to(memory_format=torch.channels_last)
        dtype = torch.float16 if s.amp == "fp16" else torch.bfloat16
        with torch.autocast(device.type, dtype=dtype, enabled=s.amp != "off"):
            loss = nn.functional.cross_entropy(model(images), torch.zeros(batch, dtype=torch.int64, device=device) % classes)
        loss.backward()
        free, total = torch.cuda.mem_get_info(device)
        return bool(free > 0.1 * total)
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
