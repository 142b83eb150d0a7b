"""Mean average precision of answers with several labels each, over all ranks.

The average precision of a class is the mean, over its images, of the precision among all images that score as high or higher,
as scikit-learn has it; the mean is over the classes that have images at all.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

TOGETHER = 64  # classes that ranks exchange at a time: bounds what a device holds


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
        classes = self._classes()
        scores = torch.cat([torch.zeros(0, classes), *self._scores])
        targets = torch.cat([torch.zeros(0, classes, dtype=torch.bool), *self._targets])
        total, counted = 0.0, 0
        for first in range(0, classes, TOGETHER):
            some = slice(first, first + TOGETHER)
            of_classes = average_precision(self._all(scores[:, some]), self._all(targets[:, some].float()) > 0.5)
            there = ~of_classes.isnan()
            total += float(of_classes[there].sum())
            counted += int(there.sum())
        return 100 * total / counted if counted else float("nan")

    def _classes(self) -> int:
        """Return the number of classes, which a rank without a batch does not know."""
        classes = torch.tensor(self._scores[0].shape[1] if self._scores else 0, device=self._device)
        if dist.is_initialized():
            dist.all_reduce(classes, dist.ReduceOp.MAX)
        return int(classes)

    def _all(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the rows of all ranks, of which each has any number."""
        rows = rows.to(self._device)
        if not dist.is_initialized():
            return rows
        counts = [torch.zeros(1, dtype=torch.int64, device=self._device) for _ in range(dist.get_world_size())]
        dist.all_gather(counts, torch.tensor([len(rows)], device=self._device))
        most = max(int(count) for count in counts)
        padded = torch.zeros(most, rows.shape[1], device=self._device)
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[: int(count)] for part, count in zip(parts, counts, strict=True)])


def average_precision(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return each class's average precision, float64, NaN without images; scores are (N, classes), targets the same of bool.

    Images of equal scores share the precision at the end of their run, whatever their order.
    """
    n = len(scores)
    order = scores.argsort(0, descending=True)
    ranked, right = scores.gather(0, order), targets.gather(0, order).double()
    places = torch.arange(n, device=scores.device)[:, None].expand_as(order)
    ends = torch.ones_like(targets)
    ends[:-1] = ranked[:-1] != ranked[1:]
    last = torch.where(ends, places, n).flip(0).cummin(0).values.flip(0) if n else places  # of each one's run
    precision = right.cumsum(0).gather(0, last) / (last + 1)
    return (precision * right).sum(0) / right.sum(0)
