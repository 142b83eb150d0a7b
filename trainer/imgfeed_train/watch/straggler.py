"""Which rank the others wait for, and why: the straggler, found in how each rank spends its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from . import feed

MARGIN = 0.05  # of all time: a rank that is busy so much longer than the median of the others is named
REASONS = {"data": "waits for data", "compute": "computes"}


@dataclass(frozen=True)
class Share:
    """How one rank spends its time: fractions of all time, from 0 to 1."""

    data: float
    compute: float
    collective: float

    @property
    def busy(self) -> float:
        """The part in which this rank keeps the others waiting, if they are ready."""
        return self.data + self.compute


@dataclass(frozen=True)
class Blame:
    """The rank that holds the others up, for ``data`` or for ``compute``: its fraction of that, and the others' median."""

    rank: int
    why: str
    share: float
    others: float
    wait: float  # the longest that another rank waits in collectives, as a fraction

    def words(self, feeds: Sequence[str] = ()) -> str:
        """Return it as a sentence. feeds are the words of each rank's feed: disk, cpu, client or idle."""
        text = f"rank {self.rank} holds the others up: it {REASONS[self.why]} {self.share:.0%} of the time"
        text += f" (the others {self.others:.0%})"
        if self.wait > MARGIN:
            text += f", and they wait for it up to {self.wait:.0%}"
        if self.why == "data" and self.rank < len(feeds):
            text += f"; {feed.of(feeds[self.rank]).its}"
        return text


def straggler(shares: Sequence[Share], separable: bool = True) -> Blame | None:
    """Return the rank that all others wait for, None if none is far from the rest.

    Without ``separable`` waiting for others is hidden in the time of computing, as with synchronised batch
    norm: then only the wait for data can be compared.
    """
    if len(shares) < 2:
        return None

    def others(rank: int, value: str) -> float:
        return float(median(getattr(s, value) for i, s in enumerate(shares) if i != rank))

    measure = "busy" if separable else "data"
    worst = max(range(len(shares)), key=lambda r: getattr(shares[r], measure))
    if getattr(shares[worst], measure) - others(worst, measure) <= MARGIN:
        return None
    excess = {why: getattr(shares[worst], why) - others(worst, why) for why in REASONS}
    why = max(excess, key=excess.__getitem__) if separable else "data"
    wait = max(s.collective for i, s in enumerate(shares) if i != worst)
    return Blame(worst, why, getattr(shares[worst], why), others(worst, why), wait)
