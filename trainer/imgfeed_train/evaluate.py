"""Exact evaluation: every sample once over all ranks, sums reduced."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .average_precision import AveragePrecision
from .model import parallel
from .settings import Settings

SUMS = 5  # of a batch: loss, first right, in the first five, samples that have a label, samples


@dataclass(frozen=True)
class Score:
    """The mean loss over ``samples`` samples, and the accuracies in percent over those of them that have a label.

    With --target an answer is right where it is any of the sample's labels; mean_ap is in percent, and None without.
    """

    loss: float
    acc1: float
    acc5: float
    samples: int
    mean_ap: float | None = None

    @property
    def rank(self) -> float:
        """What scores are compared by: top-1 accuracy or mean average precision; less than any where the loss is no number."""
        if not math.isfinite(self.loss):
            return -math.inf
        if self.mean_ap is None:
            return self.acc1
        return self.mean_ap if math.isfinite(self.mean_ap) else -math.inf

    def __str__(self) -> str:
        ap = "" if self.mean_ap is None else f"mAP {self.mean_ap:.3f} "
        return f"{ap}Acc@1 {self.acc1:.3f} Acc@5 {self.acc5:.3f} Loss {self.loss:.4f}"


class EachClass(nn.Module):
    """Binary cross-entropy of each class by itself, the mean over all: of labels (B,) or mixed targets (B, classes)."""

    def __init__(self, classes: int, smoothing: float, threshold: float) -> None:
        super().__init__()
        self.classes, self.smoothing, self.threshold = classes, smoothing, threshold

    def forward(self, output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of logits (B, classes)."""
        if targets.dim() == 1:
            targets = nn.functional.one_hot(targets, self.classes)
        targets = targets.to(output.dtype) * (1 - self.smoothing) + self.smoothing / self.classes
        if self.threshold:
            targets = (targets > self.threshold).to(output.dtype)
        return nn.functional.binary_cross_entropy_with_logits(output, targets)


def criterion(s: Settings, classes: int) -> nn.Module:
    """Return the loss of a training: of labels (B,), or of targets (B, classes) with --target or where batches are mixed."""
    if s.target:
        return nn.BCEWithLogitsLoss()
    if s.loss == "bce":
        return EachClass(classes, s.label_smoothing, s.bce_threshold)
    return nn.CrossEntropyLoss(label_smoothing=s.label_smoothing)


def correct(output: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return how many samples of an output (B, classes) have their label first, have it among the first five, have one at all.

    labels are (B,), or (B, classes) with more than a half for each of a sample's labels. Returns scalars.
    """
    top = output.topk(min(5, output.shape[1]), dim=1).indices
    if labels.dim() == 1:
        right = top == labels[:, None]
        return right[:, 0].sum(), right.sum(), torch.tensor(len(labels), device=labels.device)
    right = labels.gather(1, top) > 0.5
    return right[:, 0].sum(), right.any(1).sum(), (labels > 0.5).any(1).sum()


def summed(loss: torch.Tensor, output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the SUMS of a batch, float64; loss is the sum over its samples."""
    parts = (loss, *correct(output, labels), torch.tensor(len(labels), device=output.device))
    return torch.stack([part.double() for part in parts])


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
    sums = torch.zeros(SUMS, dtype=torch.float64, device=device)
    precision = AveragePrecision(device) if s.target else None
    batches = 0
    for images, labels in loader:
        output, right = answers(s, whole, images, device, kept), labels.to(device)
        sums += summed(_loss(s, output, right), output, right)
        if precision is not None:
            precision.add(output, right)
        batches += 1
    if dist.is_initialized():
        if parallel.is_fsdp(whole):
            most = torch.tensor(batches, device=device)
            dist.all_reduce(most, dist.ReduceOp.MAX)
            size = s.eval_size or s.size
            for _ in range(int(most) - batches):
                for _ in range(s.eval_crops * (1 + s.eval_flip)):
                    whole(torch.zeros(1, 3, size, size, device=device))
        dist.all_reduce(sums)
    model.train()
    loss, acc1, acc5, labelled, samples = sums.tolist()
    mean_ap = None if precision is None else precision.mean()
    return Score(loss / samples, 100 * acc1 / max(1, labelled), 100 * acc5 / max(1, labelled), int(samples), mean_ap)


def answers(
    s: Settings,
    model: nn.Module,
    images: torch.Tensor | list[torch.Tensor],
    device: torch.device,
    kept: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return a model's outputs (B, classes) for a batch (B, 3, H, W), or a list of its crops: the mean over these, float32.

    With --eval-flip the mirror image of each counts too. One crop of the batch goes through the model at a time, so that
    more crops take no more memory. kept is as in :func:`evaluate`.
    """
    crops = images if isinstance(images, list) else [images]
    outputs: list[torch.Tensor] = []
    with autocast(s, device):
        for crop in crops:
            there = crop.to(device)
            outputs.append(model(there))
            if s.eval_flip:
                outputs.append(model(there.flip(3)))
    output = torch.stack(outputs).float().mean(0)
    return output if kept is None else output[:, kept]


def _loss(s: Settings, output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the sum of a batch's losses."""
    if not s.target:
        return nn.functional.cross_entropy(output, labels, reduction="sum")
    return nn.functional.binary_cross_entropy_with_logits(output, labels.float(), reduction="none").mean(1).sum()
