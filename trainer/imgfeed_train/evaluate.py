"""Exact evaluation: every sample once over all ranks, sums reduced."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .model import parallel
from .settings import Settings


@dataclass(frozen=True)
class Score:
    """The mean loss and the accuracies in percent, over ``samples`` samples."""

    loss: float
    acc1: float
    acc5: float
    samples: int

    @property
    def rank(self) -> float:
        """What scores are compared by: top-1 accuracy, and less than any where the loss is no number."""
        return self.acc1 if math.isfinite(self.loss) else -math.inf


def correct(output: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return how many labels are the first, and among the first five, of an output (B, classes), as scalars."""
    top = output.topk(min(5, output.shape[1]), dim=1).indices == labels[:, None]
    return top[:, 0].sum(), top.sum()


def autocast(s: Settings, device: torch.device) -> Any:
    """Return the autocast context of the settings."""
    dtype = torch.float16 if s.amp == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=s.amp != "off")


@torch.no_grad()
def evaluate(model: nn.Module, loader: Any, s: Settings, device: torch.device, kept: torch.Tensor | None = None) -> Score:
    """Return the score of a model over a loader with ``even_batches=False``, the same on all ranks.

    kept are the outputs that stand for the loader's classes, in their order, where the model has others; int64, on device.

    Ranks may differ by one batch. The model is used without DDP's wrapper, so that only a sharded one, which gathers its
    weights in each forward, has to run on an image that is not counted.
    """
    whole = parallel.bare(model)
    whole.eval()
    if dist.is_initialized() and not parallel.is_fsdp(whole):
        for buffer in whole.buffers():  # batch statistics of rank 0, as DDP takes them in training
            dist.broadcast(buffer, 0)
    sums = torch.zeros(4, dtype=torch.float64, device=device)
    batches = 0
    for images, labels in loader:
        sums += _sums(s, whole, images.to(device), labels.to(device), kept)
        batches += 1
    if dist.is_initialized():
        if parallel.is_fsdp(whole):
            most = torch.tensor(batches, device=device)
            dist.all_reduce(most, dist.ReduceOp.MAX)
            size = s.eval_size or s.size
            for _ in range(int(most) - batches):
                for _ in range(1 + s.eval_flip):
                    whole(torch.zeros(1, 3, size, size, device=device))
        dist.all_reduce(sums)
    model.train()
    loss, acc1, acc5, samples = sums.tolist()
    return Score(loss / samples, 100 * acc1 / samples, 100 * acc5 / samples, int(samples))


def _sums(s: Settings, model: nn.Module, images: torch.Tensor, labels: torch.Tensor, kept: torch.Tensor | None) -> torch.Tensor:
    device = images.device
    with autocast(s, device):
        output = model(images)
        if s.eval_flip:
            output = output + model(images.flip(3))
    output = output / (2 if s.eval_flip else 1)
    output = output if kept is None else output[:, kept]
    loss = nn.functional.cross_entropy(output.float(), labels, reduction="sum")
    first, five = correct(output, labels)
    return torch.stack([loss.double(), first.double(), five.double(), torch.tensor(len(labels), device=device).double()])
