"""What a model's parts are replaced by: strided convolutions that blur first, blocks that are computed again."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from ..errors import TrainError


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


def blur(model: nn.Module) -> None:
    """Put a blur before each convolution of a stride and 16 channels or more."""
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Conv2d) and max(module.stride) > 1 and module.in_channels >= 16:
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, BlurPool(module))


def blocks(model: nn.Module) -> list[nn.Module]:
    """Return the repeated parts of a model: the children of its Sequentials and ModuleLists one level down."""
    lists = [m for m in model.children() if isinstance(m, nn.Sequential | nn.ModuleList)]
    return [block for found in lists for block in found if any(True for _ in block.parameters())]


def has_batch_norm(model: nn.Module) -> bool:
    """Return whether a model has batch norm, whose statistics over a batch of one image are none."""
    return any(isinstance(module, _BatchNorm) for module in model.modules())


def recompute(model: nn.Module, arch: str) -> None:
    """Have each block keep only its input in training, and compute the rest again in the backward.

    Names and state stay as they are. Raises TrainError for a model without blocks.
    """
    found = blocks(model)
    if not found:
        raise TrainError(f"--grad-checkpointing: {arch} has no repeated blocks to compute again")
    for block in found:
        block.forward = functools.partial(_again, block, block.forward)  # type: ignore[method-assign]


def _again(block: nn.Module, forward: Any, *inputs: Any, **named: Any) -> Any:
    if not (block.training and torch.is_grad_enabled()):
        return forward(*inputs, **named)
    if torch.compiler.is_compiling():  # its backward repeats no change of statistics, and takes no such contexts
        return checkpoint(forward, *inputs, use_reentrant=False, **named)
    twice = functools.partial(_passes, block)
    return checkpoint(forward, *inputs, use_reentrant=False, context_fn=twice, **named)


def _passes(block: nn.Module) -> tuple[Any, Any]:
    return contextlib.nullcontext(), _counted_once(block)


@contextlib.contextmanager
def _counted_once(block: nn.Module) -> Iterator[None]:
    """Keep the batch norms of a block from counting a batch that they have counted in the first pass."""
    norms = [module for module in block.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked = norm.num_batches_tracked.clone()
    try:
        yield
    finally:
        for norm, (momentum, count) in zip(norms, before, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, count
