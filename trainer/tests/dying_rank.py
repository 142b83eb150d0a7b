"""imgfeed-train whose rank DYING_RANK is killed when it asks for batch DYING_BATCH, counted from 1; not after a restart."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

from imgfeed_train.command import main
from imgfeed_train.watch import lines, pace


class DyingPace(pace.Pace):
    """Counts the batches of all epochs where Pace takes them, from the outside: its own code runs unchanged."""

    left = int(os.environ["DYING_BATCH"])

    def next(self, batches: Iterator[Any]) -> Any:
        DyingPace.left -= 1
        if not DyingPace.left:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().next(batches)


if os.environ["RANK"] == os.environ["DYING_RANK"] and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    lines.Pace = DyingPace  # type: ignore[misc]
main()
