"""Unreadable samples: those a loader has met, and when they are too many."""

from __future__ import annotations

import logging
from collections.abc import Sized
from dataclasses import dataclass

from .._server.client import Batch
from ..errors import TooManyBadError

log = logging.getLogger("imgfeed")

_LOGGED = 3  # samples, in the line about a batch
_LISTED = 100  # samples, in the error


@dataclass(frozen=True)
class BadSample:
    """An unreadable sample, at its first time."""

    index: int
    #: Its name in the dataset, empty where that can't be read either.
    key: str
    #: The sample of its class that was delivered instead, None if a blank was.
    by: int | None
    #: Why, with file, record and offset where the shard is at fault.
    error: str
    epoch: int

    def __str__(self) -> str:
        named = f"sample {self.index} ({self.key})" if self.key else f"sample {self.index}"
        return f"{named}: {self.error}"


class BadSamples:
    """The bad samples that a loader has met, each once, and how many of them it bears."""

    def __init__(self, most: int | None) -> None:
        """Begin with none. most is how many may be bad; None: any number."""
        self.most = most
        self.met: dict[int, BadSample] = {}

    def note(self, batch: Batch, epoch: int, number: int) -> None:
        """Log the bad samples of an epoch's batch, and remember them. Raises TooManyBadError where they are too many by now."""
        told = []
        for one in batch.bad:
            sample = BadSample(one["index"], one.get("key", ""), one.get("by"), one["error"], epoch)
            self.met.setdefault(sample.index, sample)
            name = sample.key or f"sample {sample.index}"
            told.append(name if sample.by is None else f"{name} (replaced by sample {sample.by})")
        what = "blank" if any(one.get("by") is None for one in batch.bad) else "substituted"
        more = ["…"] if len(told) > _LOGGED else []
        text = "imgfeed: epoch %d, batch %d: %d %s %s, which can't be read: %s"
        log.warning(text, epoch, number, len(told), what, _samples(told), ", ".join(told[:_LOGGED] + more))
        if self.most is not None and len(self.met) > self.most:
            lines = [str(sample) for sample in list(self.met.values())[:_LISTED]]
            if len(self.met) > _LISTED:
                lines.append(f"and {len(self.met) - _LISTED} more")
            text = f"imgfeed: {len(self.met)} {_samples(self.met)} can't be read, and max_bad is {self.most}:"
            raise TooManyBadError("\n".join([text, *lines]))


def _samples(listed: Sized) -> str:
    return "sample" if len(listed) == 1 else "samples"
