"""Models by name from torchvision and timm, and the strategies that spread them over ranks."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import torch
from torch import nn

from .data import IMAGENET_STATS
from .errors import TrainError
from .launch import Place
from .settings import Settings


def build(s: Settings, classes: int) -> tuple[nn.Module, Any]:
    """Return the model with an output for each class, and the (mean, std) that its images are to be normalised by."""
    name = s.arch.removeprefix("timm/")
    if not s.arch.startswith("timm/"):
        import torchvision  # noqa: PLC0415 - slow to import

        if name in torchvision.models.list_models(module=torchvision.models):
            return _torchvision(torchvision, name, s, classes), IMAGENET_STATS
    try:
        import timm  # noqa: PLC0415 - optional
    except ImportError as e:
        raise TrainError(f"--arch {s.arch} is not in torchvision, and timm is not installed: pip install timm") from e
    if not timm.is_model(name):
        near = ", ".join(timm.list_models(f"*{name[:8]}*")[:5])
        raise TrainError(f"--arch {s.arch} is in neither torchvision nor timm{'; near it: ' + near if near else ''}")
    try:
        model = timm.create_model(name, pretrained=s.pretrained, num_classes=classes, img_size=s.size)
    except TypeError:  # convolutional models take no size
        model = timm.create_model(name, pretrained=s.pretrained, num_classes=classes)
    if not s.pretrained:
        return model, IMAGENET_STATS
    config = timm.data.resolve_model_data_config(model)
    return model, (config["mean"], config["std"])


def _torchvision(torchvision: Any, name: str, s: Settings, classes: int) -> nn.Module:
    if not s.pretrained:
        model: nn.Module = torchvision.models.get_model(name, num_classes=classes)
        return model
    model = torchvision.models.get_model(name, weights="DEFAULT")
    parent, _, last = _head(model).rpartition(".")
    owner = model.get_submodule(parent)
    old = model.get_submodule(_head(model))
    assert isinstance(old, nn.Linear)
    if old.out_features != classes:
        setattr(owner, last, nn.Linear(old.in_features, classes))
    return model


def _head(model: nn.Module) -> str:
    """Return the name of the last linear layer: the classifier of every model of torchvision that ends in one."""
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not names:
        raise TrainError("--pretrained: this model has no linear classifier to replace; take timm's of that name")
    return str(names[-1])


def distribute(model: nn.Module, s: Settings, place: Place, device: torch.device) -> nn.Module:
    """Return the model on its device, in the memory format and under the strategy that the settings say.

    Its state stays reachable through :func:`bare`. A world of one needs no DDP and gets none.
    """
    if s.sync_bn and place.world > 1:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = model.to(device)
    if s.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,unused-ignore]
    if s.compile:
        model.compile()
    if s.strategy == "dp" and torch.cuda.device_count() > 1:
        return nn.DataParallel(model)
    if s.strategy == "fsdp" and place.world > 1:
        from torch.distributed.fsdp import fully_shard  # noqa: PLC0415 - torch 2.6 and later

        for part in _blocks(model):
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


def _blocks(model: nn.Module) -> list[nn.Module]:
    """Return the repeated parts of a model: the children of its Sequentials and ModuleLists one level down."""
    lists = [m for m in model.children() if isinstance(m, nn.Sequential | nn.ModuleList)]
    return [block for found in lists for block in found if any(True for _ in block.parameters())]


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
