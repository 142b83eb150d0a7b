"""A caller's figures of a loader's epochs: images, time, and the part of it spent waiting for a batch."""

from __future__ import annotations

import operator
import sys
import time
from dataclasses import astuple, dataclass
from typing import Any


@dataclass(frozen=True)
class Account:
    """Sums over batches, or the difference of two of them."""

    images: int = 0
    batches: int = 0
    seconds: float = 0.0  # from an epoch's begin, or from one batch to the next
    waited: float = 0.0  # of these, in the loader, until it had the batch

    def __sub__(self, other: Account) -> Account:
        return Account(*map(operator.sub, astuple(self), astuple(other)))

    @property
    def images_per_second(self) -> float:
        """Images in a second of the caller's, 0 before the first."""
        return self.images / self.seconds if self.seconds else 0.0

    @property
    def wait_fraction(self) -> float:
        """The share of time, 0 to 1, that the caller has waited for data."""
        return self.waited / self.seconds if self.seconds else 0.0


class Meter:
    """Measures a loader's iterations. It is the caller's side: the server's statistics say what the server waits for."""

    def __init__(self) -> None:
        self.total = Account()  # of all epochs
        self._before = Account()  # the total at the running epoch's begin
        self._mark = 0.0  # when the last batch was handed out, or the epoch began

    @property
    def epoch(self) -> Account:
        """The running epoch's account, or the last one's."""
        return self.total - self._before

    def begin(self) -> None:
        self._before = self.total
        self._mark = time.perf_counter()

    def add(self, images: int, asked: float) -> None:
        """Note a delivered batch, and when the caller asked for it, by time.perf_counter()."""
        now, t = time.perf_counter(), self.total
        self.total = Account(t.images + images, t.batches + 1, t.seconds + now - self._mark, t.waited + now - asked)
        self._mark = now


def tell(epoch: int, account: Account, verdict: str) -> None:
    """Print a line about an epoch to stderr, above the bar of tqdm where there is one."""
    images = "1 image" if account.images == 1 else f"{account.images:,} images"
    line = (
        f"imgfeed: epoch {epoch}: {images} in {account.seconds:.1f} s, {account.images_per_second:,.0f}/s; "
        f"waited for data for {account.wait_fraction:.0%} of the time; {verdict}"
    )
    tqdm: Any = sys.modules.get("tqdm")
    if tqdm is not None:
        tqdm.tqdm.write(line, file=sys.stderr)
    else:
        print(line, file=sys.stderr)
