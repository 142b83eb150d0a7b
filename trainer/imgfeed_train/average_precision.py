"""Mean average precision of answers with several labels each, over all ranks, by torchmetrics.

It is scikit-learn's: the mean over the classes that have images at all.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


class AveragePrecision:
    """Collects scores and targets of this rank's images, (B, classes) a batch, in host memory: five bytes for each number."""

    def __init__(self, device: torch.device) -> None:
        """Compute on device, where ranks exchange tensors, too."""
        self._device = device
        self._scores: list[torch.Tensor] = []
        self._targets: list[torch.Tensor] = []

    def add(self, scores: torch.Tensor, targets: torch.Tensor) -> None:
        """Take a batch. A target of more than a half is a label."""
        self._scores.append(scores.float().cpu())
        self._targets.append((targets > 0.5).cpu())

    def mean(self) -> float:
        """Return the mean over classes in percent, the same on all ranks; NaN where no image has a label. All ranks call it."""
        from torchmetrics.classification import MultilabelAveragePrecision  # noqa: PLC0415 - an optional package

        classes = torch.tensor(self._scores[0].shape[1] if self._scores else 0, device=self._device)
        if dist.is_initialized():  # a rank without a batch does not know it
            dist.all_reduce(classes, dist.ReduceOp.MAX)
        scores = torch.cat([torch.zeros(0, int(classes)), *self._scores]).to(self._device)
        targets = torch.cat([torch.zeros(0, int(classes), dtype=torch.bool), *self._targets]).to(self._device)
        images = targets.sum(0)  # of each class
        if dist.is_initialized():
            dist.all_reduce(images)
        if not images.any():
            return float("nan")
        metric = MultilabelAveragePrecision(int(classes), average="none", validate_args=False).to(self._device)
        # torchmetrics takes scores outside 0 to 1 for logits, batch by batch; in float64 two scores stay two.
        metric.update(scores.double().sigmoid(), targets.long())
        return 100 * float(metric.compute()[images > 0].double().mean())
