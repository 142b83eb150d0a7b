"""Models by name from torchvision and timm, and the strategies that spread them over ranks."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, cast

import torch
from torch import nn

from . import weights
from .data import IMAGENET_STATS
from .errors import TrainError
from .launch import Place
from .settings import Settings


def build(s: Settings, classes: int, place: Place) -> tuple[nn.Module, Any]:
    """Return the model with an output for each class, and the (mean, std) that its images are to be normalised by."""
    name = s.arch.removeprefix("timm/")
    if not s.arch.startswith("timm/"):
        import torchvision  # noqa: PLC0415 - slow to import

        if name in torchvision.models.list_models(module=torchvision.models):
            return _blurred(_torchvision(torchvision, name, s, classes, place), s), IMAGENET_STATS
    try:
        import timm  # noqa: PLC0415 - optional
    except ImportError as e:
        raise TrainError(f"--arch {s.arch} is not in torchvision, and timm is not installed: pip install timm") from e
    if not timm.is_model(name):
        near = ", ".join(timm.list_models(f"*{name[:8]}*")[:5])
        raise TrainError(f"--arch {s.arch} is in neither torchvision nor timm{'; near it: ' + near if near else ''}")
    model = _blurred(_timm(timm, name, s, classes, place), s)
    if not s.pretrained and not s.weights:
        return model, IMAGENET_STATS
    config = timm.data.resolve_model_data_config(model)
    return model, (config["mean"], config["std"])


def _torchvision(torchvision: Any, name: str, s: Settings, classes: int, place: Place) -> nn.Module:
    plain = {"aux_logits": False, "init_weights": True} if name in ("googlenet", "inception_v3") else {}
    model: nn.Module = torchvision.models.get_model(name, num_classes=classes, **plain)
    if not s.pretrained and not s.weights:
        return model
    with weights.first_of_node(place):
        state, path = (weights.read(s.weights), s.weights) if s.weights else weights.published(name)
    if plain:
        model.transform_input = True  # type: ignore[assignment,unused-ignore] # the published weights want it
    anew = weights.put(model, state, path, classes)
    if place.rank == 0:
        print(f"weights: {path}{f'; new for {classes} classes: ' + ', '.join(anew) if anew else ''}", flush=True)
    return model


def _timm(timm: Any, name: str, s: Settings, classes: int, place: Place) -> nn.Module:
    options = weights.timm_options(name, s.weights) if s.weights else {"pretrained": s.pretrained, "num_classes": classes}
    with weights.first_of_node(place) if s.pretrained or s.weights else contextlib.nullcontext():
        try:
            try:
                model: Any = timm.create_model(name, img_size=s.size, **options)
            except TypeError as e:
                if "img_size" not in str(e):
                    raise
                model = timm.create_model(name, **options)  # convolutional models take no size
        except Exception as e:
            raise _timm_error(timm, name, s, e) from e
    if s.weights:
        model.pretrained_cfg["state_dict"] = None  # it would be copied with the model
        if options["num_classes"] != classes:  # taken strictly, and only then given another head
            model.reset_classifier(classes)
    if place.rank == 0 and (s.pretrained or s.weights):
        theirs = model.pretrained_cfg["num_classes"]
        head = f"; a new head for {classes} classes" if theirs != classes else ""
        print(f"weights: {s.weights or model.pretrained_cfg['hf_hub_id']}{head}", flush=True)
    return cast(nn.Module, model)


def _timm_error(timm: Any, name: str, s: Settings, e: Exception) -> TrainError:
    if s.weights:
        return TrainError(f"{s.weights} does not fit {s.arch}: {str(e)[:300]}")
    source = timm.get_pretrained_cfg(name).hf_hub_id if s.pretrained else None
    if not source:
        return TrainError(f"--arch {s.arch}: {str(e)[:300]}")
    return TrainError(
        f"--pretrained: the weights of {s.arch}, {source} on timm's hub, are not on this machine and can't be fetched "
        f"({str(e)[:200]}). Where there is a network, fetch its model.safetensors, and say --weights FILE here"
    )


class BlurPool(nn.Module):
    """A convolution with a stride, behind a 3x3 binomial blur, which keeps what the stride would alias (Zhang 2019)."""

    blur: torch.Tensor

    def __init__(self, conv: nn.Conv2d) -> None:
        """Take the convolution."""
        super().__init__()
        row = torch.tensor([1.0, 2.0, 1.0])
        self.conv = conv
        self.register_buffer("blur", (row[:, None] * row / 16).repeat(conv.in_channels, 1, 1, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the convolution of the blurred images (B, C, H, W)."""
        blurred = nn.functional.conv2d(images, self.blur.to(images.dtype), padding=1, groups=self.conv.in_channels)
        result: torch.Tensor = self.conv(blurred)
        return result


def _blurred(model: nn.Module, s: Settings) -> nn.Module:
    """Return the model with a blur before each convolution of a stride and 16 channels or more, if the settings say so."""
    for name, module in list(model.named_modules()) if s.blurpool else ():
        if isinstance(module, nn.Conv2d) and max(module.stride) > 1 and module.in_channels >= 16:
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, BlurPool(module))
    return model


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
