"""Exact evaluation: each sample once over all ranks, with sums that all ranks add up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .flags import Settings
from .model.build import bare, is_fsdp, set_training
from .ranks import Rank, most

SUMS = 5  # of a batch: loss, right at first, right among five, samples with a label, samples


@dataclass(frozen=True)
class Score:
    """The mean loss over ``samples``, and accuracies in percent over those that have a label.

    With --target an answer is right if it is any of the sample's labels, and mean_ap is in percent.
    """

    loss: float
    acc1: float
    acc5: float
    samples: int
    mean_ap: float | None = None

    @property
    def rank(self) -> float:
        """The number that scores are compared by; the lowest of all where the loss is not finite."""
        value = self.acc1 if self.mean_ap is None else self.mean_ap
        return value if math.isfinite(self.loss) and math.isfinite(value) else -math.inf

    def __str__(self) -> str:
        ap = "" if self.mean_ap is None else f"mAP {self.mean_ap:.3f} "
        return f"{ap}Acc@1 {self.acc1:.3f} Acc@5 {self.acc5:.3f} Loss {self.loss:.4f}"


def score_of(sums: list[float], mean_ap: float | None = None) -> Score:
    """Return the score that the SUMS of all ranks come to."""
    loss, first, five, labelled, samples = sums
    labelled = max(1.0, labelled)
    return Score(loss / max(1.0, samples), 100 * first / labelled, 100 * five / labelled, int(samples), mean_ap)


def summed(loss: torch.Tensor, output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the SUMS of a batch, float64, of logits (B, classes). loss is the sum over its samples.

    labels are (B,), or (B, classes) with more than a half for each of a sample's labels.
    """
    top = output.topk(min(5, output.shape[1]), dim=1).indices
    if labels.dim() == 1:
        right, labelled = top == labels[:, None], torch.ones_like(labels, dtype=torch.bool)
    else:
        right, labelled = labels.gather(1, top) > 0.5, (labels > 0.5).any(1)
    parts = (loss, right[:, 0].sum(), right.any(1).sum(), labelled.sum(), torch.tensor(len(labels), device=output.device))
    return torch.stack([part.double() for part in parts])


def autocast(s: Settings, device: torch.device) -> Any:
    """Return the autocast context of --amp."""
    dtype = torch.float16 if s.amp == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=s.amp != "off")


class Precision:
    """Mean average precision over the classes that have images, by torchmetrics, over all ranks."""

    def __init__(self, classes: int, rank: Rank) -> None:
        from torchmetrics.classification import MultilabelAveragePrecision  # noqa: PLC0415 - an optional package

        self._metric = MultilabelAveragePrecision(classes, average="none", validate_args=False).to(rank.device)
        self._images = torch.zeros(classes, dtype=torch.int64, device=rank.device)  # of each class
        self.add(torch.zeros(0, classes, device=rank.device), torch.zeros(0, classes, device=rank.device))

    def add(self, output: torch.Tensor, labels: torch.Tensor) -> None:
        """Take a batch of logits and labels, (B, classes); float64 keeps two scores apart."""
        self._metric.update(output.double().sigmoid(), (labels > 0.5).long())
        self._images += (labels > 0.5).sum(0)

    def mean(self) -> float:
        """Return the mean in percent, the same on all ranks; NaN where no image has a label."""
        each = self._metric.compute()  # of all ranks
        if dist.is_initialized():
            dist.all_reduce(self._images)
        return 100 * float(each[self._images > 0].double().mean())


@torch.no_grad()
def evaluate(model: nn.Module, loader: Any, s: Settings, rank: Rank, precision: Precision | None = None) -> Score:
    """Return the score of a model over a loader with ``even_batches=False``, the same on all ranks. precision: with --target.

    Ranks may differ by one batch. Only a sharded model, which gathers weights in each forward, then runs on an image that
    does not count.
    """
    whole = bare(model)
    whole.eval()
    sharded = is_fsdp(whole)
    for buffer in whole.buffers() if dist.is_initialized() and not sharded else ():
        dist.broadcast(buffer, 0)  # batch statistics of rank 0
    sums, batches = torch.zeros(SUMS, dtype=torch.float64, device=rank.device), 0
    for images, labels in loader:
        batches += 1
        right = labels.to(rank.device)
        with autocast(s, rank.device):
            output = whole(images.to(rank.device)).float()
        if precision:
            precision.add(output, right)
            loss = nn.functional.binary_cross_entropy_with_logits(output, right.float(), reduction="none").mean(1).sum()
        else:
            loss = nn.functional.cross_entropy(output, right, reduction="sum")
        sums += summed(loss, output, right)
    for _ in range(int(most(batches, rank)) - batches if sharded else 0):
        whole(torch.zeros(1, 3, *2 * s.size[-1:], device=rank.device))
    if dist.is_initialized():
        dist.all_reduce(sums)
    set_training(model, s)
    return score_of(sums.tolist(), precision.mean() if precision else None)
