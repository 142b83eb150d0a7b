"""The line of PyTorch's ImageNet example: last values, and in brackets the means of the epoch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Running:
    """The last value and the mean, in the form of torch's ImageNet example."""

    name: str
    form: str
    last: float = 0.0
    total: float = 0.0
    count: float = 0.0

    def add(self, mean: float, count: float = 1) -> None:
        """Take the mean of count values."""
        self.last, self.total, self.count = mean, self.total + mean * count, self.count + count

    def __str__(self) -> str:
        mean = self.total / self.count if self.count else 0.0
        return f"{self.name} {self.last:{self.form}} ({mean:{self.form}})"


class Meters:
    """The running values of one epoch."""

    def __init__(self, mixed: bool = False) -> None:
        """Mark accuracies as of mixed images, by their labels before mixing: lower than the model deserves."""
        mark = "(mixed)" if mixed else ""
        self.time = Running("Time", "6.3f")
        self.data = Running("Data", "6.3f")
        self.loss = Running("Loss", ".4e")
        self.acc1 = Running("Acc@1" + mark, "6.2f")
        self.acc5 = Running("Acc@5" + mark, "6.2f")

    def line(self, epoch: int, batch: int, batches: int) -> str:
        """Return ``Epoch: [1][ 100/2503]`` and the values, tab-separated."""
        place = f"[{batch:{len(str(batches))}d}/{batches}]"
        return "\t".join([f"Epoch: [{epoch}]{place}", *map(str, (self.time, self.data, self.loss, self.acc1, self.acc5))])
