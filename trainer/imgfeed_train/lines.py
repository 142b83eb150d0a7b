"""What is told every ``--log-every`` batches: gathered from all ranks, printed, and written to all logs by rank 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from .blame import Share, straggler
from .gauges import FEED_WAITS, HARDWARE, FeedGauge, GpuGauge, hardware
from .pace import Pace
from .watch import Meters, Watch

#: What every rank tells, in this order; then its HARDWARE, then the sums: loss, first right, in the first five, samples.
TOLD = ("passed", "waited", "data", "compute", "collective", "batches", "waiting", "disk", "decode", "client")


@dataclass(frozen=True)
class At:
    """The place in the training that a line is about; ``batches`` of ``total`` are done in this epoch."""

    epoch: int
    batches: int
    total: int
    step: int
    lr: float


class Lines:
    """Measures between lines, and writes them. Every rank has one and calls it at the same batches."""

    def __init__(self, watch: Watch, device: torch.device, world: int, separable: bool) -> None:
        """Take where to write. separable: whether waiting for other ranks happens only behind the own backward."""
        self.pace = Pace(device, world)
        self._watch, self._device, self._world, self._separable = watch, device, world, separable
        self._gpu = GpuGauge(device)
        if self._gpu.why is not None:
            watch.say(f"the GPU's utilisation and power are not logged: {self._gpu.why}")
        self._meters = Meters()
        self._feed: FeedGauge | None = None

    def begin_epoch(self, loader: Any) -> None:
        """Begin an epoch's means, and the feed's account."""
        self._meters = Meters()
        self._feed = FeedGauge(loader)
        self.pace.begin()

    def write(self, at: At, sums: torch.Tensor) -> None:
        """Write a line about what happened since the last."""
        assert self._feed is not None
        feed = self._feed.take()  # before anything waits for the GPU or for others: meanwhile the feed would fill up
        spent = self.pace.take()
        told = [spent.passed, spent.waited, spent.data, spent.compute, spent.collective, spent.batches]
        told += [FEED_WAITS.index(feed.waiting), feed.disk, feed.decode, feed.client, *hardware(self._gpu, self._device)]
        mine = torch.cat([torch.tensor(told, dtype=torch.float64, device=self._device), sums])
        rows = [mine]
        if self._world > 1:
            rows = [torch.empty_like(mine) for _ in range(self._world)]
            dist.all_gather(rows, mine)
        table = torch.stack(rows).cpu()
        ranks = {name: table[:, i].tolist() for i, name in enumerate((*TOLD, *HARDWARE))}
        self._tell(at, ranks, table[:, len(ranks) :].sum(0).tolist())
        self.pace.begin()

    def _tell(self, at: At, ranks: dict[str, list[float]], sums: list[float]) -> None:
        loss, first, five, samples = sums
        values = {"loss": loss / samples, "acc1": 100 * first / samples, "acc5": 100 * five / samples, "lr": at.lr}
        batches, seconds = ranks["batches"][0], max(ranks["passed"])
        shares = [
            Share(*(min(1.0, ranks[name][r] / seconds) for name in ("data", "compute", "collective")))
            for r in range(len(ranks["passed"]))
        ]
        feeds = [FEED_WAITS[int(i)] for i in ranks["waiting"]]
        meters = self._meters
        meters.time.add(ranks["passed"][0] / batches, batches)
        meters.data.add(ranks["waited"][0] / batches, batches)
        for meter, name in ((meters.loss, "loss"), (meters.acc1, "acc1"), (meters.acc5, "acc5")):
            meter.add(values[name], samples)
        late = straggler(shares, self._separable)
        words = "" if late is None else "\t" + late.words(feeds)
        self._watch.say(meters.line(at.epoch, at.batches, at.total) + words)
        times = {
            "wait": [s.data for s in shares],
            "compute": [s.compute for s in shares],
            "collective": [s.collective for s in shares],
        }
        machine = {name: ranks[name] for name in HARDWARE if not all(map(math.isnan, ranks[name]))}
        account = {name: ranks[name] for name in ("disk", "decode", "client")}
        rate = samples / seconds
        self._watch.event(
            "step",
            **values,
            **times,
            epoch=at.epoch,
            batch=at.batches,
            batches=at.total,
            step=at.step,
            images_per_second=rate,
            straggler=None if late is None else late.rank,
            why=None if late is None else late.why,
            feed=feeds[0],
            feeds=feeds,
            feed_share=account,
            hardware={name: [None if math.isnan(v) else v for v in row] for name, row in machine.items()},
        )
        names = {"loss": "Loss/train", "acc1": "Accuracy/train", "acc5": "Accuracy5/train", "lr": "lr"}
        shown = {names[key]: value for key, value in values.items()}
        shown["images_per_second"] = rate
        for name, row in {**times, **machine}.items():
            shown |= {f"{name}/rank{r}": v for r, v in enumerate(row) if not math.isnan(v)}
        shown |= {f"feed/{name}": row[0] for name, row in account.items()}
        shown |= {f"feed/waits_for_{what}": float(feeds[0] == what) for what in FEED_WAITS[:3]}
        self._watch.scalars(at.step, shown)

    def close(self) -> None:
        """End the sampling of the GPU."""
        self._gpu.close()
