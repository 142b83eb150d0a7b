"""Exact evaluation: each sample once over all ranks, with sums that all ranks add up."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .flags import Settings
from .model.build import bare, is_fsdp, set_training
from .ranks import Rank, most

SUMS = 4  # of a batch: loss, right at first, right among five, samples


@dataclass(frozen=True)
class Score:
    """The mean loss and the accuracies in percent over ``samples``."""

    loss: float
    acc1: float
    acc5: float
    samples: int

    @property
    def rank(self) -> float:
        """The number that scores are compared by; the lowest of all where the loss is not finite."""
        return self.acc1 if math.isfinite(self.loss) else -math.inf

    def __str__(self) -> str:
        return f"Acc@1 {self.acc1:.3f} Acc@5 {self.acc5:.3f} Loss {self.loss:.4f}"


def score_of(sums: list[float]) -> Score:
    """Return the score that the SUMS of all ranks come to."""
    loss, first, five, samples = sums
    count = max(1.0, samples)
    return Score(loss / count, 100 * first / count, 100 * five / count, int(samples))


def summed(loss: torch.Tensor, output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the SUMS of a batch, float64, of logits (B, classes) and labels (B,). loss is the sum over its samples."""
    right = output.topk(min(5, output.shape[1]), dim=1).indices == labels[:, None]
    parts = (loss, right[:, 0].sum(), right.any(1).sum(), torch.full((), len(labels), device=output.device))
    return torch.stack([part.double() for part in parts])


def autocast(s: Settings, device: torch.device) -> Any:
    """Return the autocast context of --amp."""
    dtype = torch.float16 if s.amp == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=s.amp != "off")


@torch.no_grad()
def evaluate(model: nn.Module, loader: Any, s: Settings, rank: Rank) -> Score:
    """Return the score of a model over a loader with ``even_batches=False``, the same on all ranks.

    Ranks may differ by a batch. A sharded model, whose ranks need each forward, then runs on an image that does not count.
    """
    whole = bare(model)
    whole.eval()
    sharded = is_fsdp(whole)
    for buffer in whole.buffers() if dist.is_initialized() and not sharded else ():
        dist.broadcast(buffer, 0)  # batch statistics of rank 0
    sums, batches = torch.zeros(SUMS, dtype=torch.float64, device=rank.device), 0
    for images, labels in loader:
        batches += 1
        with autocast(s, rank.device):
            output = whole(images).float()
        sums += summed(nn.functional.cross_entropy(output, labels, reduction="sum"), output, labels)
    for _ in range(int(most(batches, rank)) - batches if sharded else 0):
        whole(torch.zeros(1, 3, *2 * s.size[-1:], device=rank.device))
    if dist.is_initialized():
        dist.all_reduce(sums)
    set_training(model, s)
    return score_of(sums.tolist())
