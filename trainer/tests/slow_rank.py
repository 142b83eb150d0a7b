"""imgfeed-train with rank SLOW_RANK made slow, SLOW_SECONDS a batch.

SLOW says where: in its loader (data), at the beginning of its backward (compute), or in the blocks of its forward (forward).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import timm
import torch

from imgfeed_train.command import main
from imgfeed_train.watch import pace

KIND, SECONDS = os.environ["SLOW"], float(os.environ["SLOW_SECONDS"])


class SlowPace(pace.Pace):
    """Makes a rank slow where Pace measures, from the outside: its own code runs unchanged."""

    def next(self, batches: Iterator[Any]) -> Any:
        def late() -> Iterator[Any]:
            time.sleep(SECONDS)
            yield next(batches)

        return super().next(late() if KIND == "data" else batches)

    def backward(self, loss: torch.Tensor) -> None:
        if KIND == "compute":
            loss.register_hook(lambda _: time.sleep(SECONDS))
        super().backward(loss)


def warm_up() -> None:
    """Have torch load what it loads at the first step: that takes seconds, and not the same on all ranks."""
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), momentum=0.9)
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def lingering(block: Any, *arguments: Any, **options: Any) -> Any:
    """Compute a block of the vision transformer, a sixth of SECONDS too long."""
    if block.training:
        time.sleep(SECONDS / 6)
    return computed(block, *arguments, **options)


warm_up()
computed = timm.models.vision_transformer.Block.forward

if os.environ["RANK"] == os.environ["SLOW_RANK"]:
    from imgfeed_train.watch import lines

    lines.Pace = SlowPace  # type: ignore[misc]
    if KIND == "forward":
        timm.models.vision_transformer.Block.forward = lingering
main()
