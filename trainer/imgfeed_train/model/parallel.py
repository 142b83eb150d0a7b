"""A model on its device, spread over the ranks by the strategy of the settings."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import torch
from torch import nn

from ..errors import TrainError
from ..launch.place import Place
from ..settings import Settings
from .parts import blocks


def distribute(model: nn.Module, s: Settings, place: Place, device: torch.device) -> nn.Module:
    """Return the model on its device, in the memory format and under the strategy that the settings say.

    Its state stays reachable through :func:`bare`. A world of one needs no DDP and gets none.
    """
    if s.sync_bn and device.type != "cuda":
        raise TrainError("--sync-bn: torch's SyncBatchNorm works on GPUs only")
    if s.strategy == "dp" and place.world > 1:
        raise TrainError(f"--strategy dp is one process with all GPUs of one node, and here are {place.world}: use ddp")
    if s.sync_bn and place.world > 1:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = model.to(device)
    if s.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,unused-ignore]
    if s.compile:
        model.compile()
    if s.strategy == "dp" and device.type == "cuda":
        return nn.DataParallel(model)
    if s.strategy == "fsdp" and place.world > 1:
        from torch.distributed.fsdp import fully_shard  # noqa: PLC0415 - torch 2.6 and later

        for part in blocks(model):
            fully_shard(part)
        fully_shard(model)
        return model
    if place.world > 1:
        ids = [device.index] if device.type == "cuda" else None
        # Batch statistics stay each rank's own in training; evaluation and checkpoints take rank 0's. Broadcasting them before
        # each forward would only make all ranks wait there for rank 0.
        ddp = nn.parallel.DistributedDataParallel
        flag = "forward_sync_buffers" if "forward_sync_buffers" in inspect.signature(ddp).parameters else "broadcast_buffers"
        return ddp(model, device_ids=ids, **{flag: False})
    return model


def bare(model: nn.Module) -> nn.Module:
    """Return the model without the wrapper of DDP or DataParallel."""
    if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
        inner: nn.Module = model.module
        return inner
    return model


def is_fsdp(model: nn.Module) -> bool:
    """Return whether fully_shard was applied."""
    return hasattr(model, "set_requires_gradient_sync")


def syncing(model: nn.Module, last: bool) -> contextlib.AbstractContextManager[Any]:
    """Return the context of one batch of an accumulation: gradients are reduced over the ranks only in the last."""
    if is_fsdp(model):
        model.set_requires_gradient_sync(last)  # type: ignore[operator]
    elif isinstance(model, nn.parallel.DistributedDataParallel) and not last:
        quiet: contextlib.AbstractContextManager[Any] = model.no_sync()
        return quiet
    return contextlib.nullcontext()
