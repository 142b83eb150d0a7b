"""The report of every ``--log-every`` batches and after each epoch: gathered from all ranks, printed, and logged by rank 0."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist

from ..checkpoint.state import Progress
from ..evaluate import Score
from ..launch.place import Place
from ..model import parallel
from ..settings import Settings
from ..step import Step
from . import gathers
from .feed import WAITS
from .gauges import HARDWARE, FeedGauge, GpuGauge, hardware
from .log import Watch
from .pace import Pace
from .straggler import Share, straggler

#: What every rank tells, in this order; then its HARDWARE, then the sums of evaluate.SUMS.
TOLD = ("passed", "waited", "data", "compute", "collective", "batches", "waiting", "disk", "decode", "client")
WORDS = tuple(WAITS)


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


class Lines:
    """Measures between lines, and writes them. Every rank has one and calls it at the same batches.

    One clock: the lines of an epoch divide the time from its beginning to the end of its last batch among them. So images/s of
    a line, of an epoch and of a run are images over seconds of training, and nothing else.
    """

    def __init__(self, s: Settings, place: Place, watch: Watch, step: Step) -> None:
        """Measure the steps of a model, and write what they come to."""
        self.pace = Pace(step.device, place.world)
        self._s, self._watch, self._step, self._world = s, watch, step, place.world
        # Sharing batch statistics makes ranks wait inside a layer, where it looks like computing; compiled code has no hooks.
        sharded = parallel.is_fsdp(step.model)
        self._separable = not (s.sync_bn or (sharded and s.compile))
        step.backward = self.pace.backward
        if sharded and not s.compile:
            gathers.bracket(step.model, self.pace.enter, self.pace.leave)
        self._gpu = GpuGauge(step.device)
        if self._gpu.why is not None:
            watch.say(f"the GPU's utilisation and power are not logged: {self._gpu.why}")
        self._meters = Meters()
        self._feed: FeedGauge | None = None
        self._before = 0.0  # seconds of this epoch up to the last line

    def begin_epoch(self, loader: Any, at: Progress, batches: int) -> None:
        """Begin an epoch's means and the feed's account; batches are those of the whole epoch."""
        self._meters = Meters(mixed=self._step.mix is not None)
        self._feed = FeedGauge(loader)
        self._before = at.seconds
        self._watch.begin_epoch(at.epoch, at.batches, batches)
        self.pace.begin()

    def next(self, batches: Iterator[Any]) -> Any:
        """Return the next batch; what passes until it is there is the wait for data."""
        return self.pace.next(batches)

    def done(self, at: Progress, batches: int) -> bool:
        """Note the end of a batch, and write a line where one is due; return whether it was."""
        self.pace.done()
        self._watch.batch()
        due = at.batches % self._s.log_every == 0 or at.batches == batches
        if due:
            self.write(at, batches)
        return due

    def seconds(self, at: Progress) -> float:
        """Return the seconds of training in the epoch under way so far. Those after a line count once a batch has ended."""
        return at.seconds if self._feed is None else self._before + (self.pace.passed if self.pace.batches else 0.0)

    def write(self, at: Progress, batches: int) -> None:
        """Write a line about what happened since the last, if anything, and begin the next."""
        if self._feed is None or not self.pace.batches:
            return
        feed = self._feed.take()  # before anything waits for the GPU or for others: meanwhile the feed would fill up
        spent = self.pace.take()
        told = [spent.passed, spent.waited, spent.data, spent.compute, spent.collective, spent.batches]
        told += [WORDS.index(feed.waiting), feed.disk, feed.decode, feed.client]
        told += hardware(self._gpu, self._step.device)
        mine = torch.cat([torch.tensor(told, dtype=torch.float64, device=self._step.device), self._step.sums])
        rows = [mine]
        if self._world > 1:
            rows = [torch.empty_like(mine) for _ in range(self._world)]
            dist.all_gather(rows, mine)
        table = torch.stack(rows).cpu()
        ranks = {name: table[:, i].tolist() for i, name in enumerate((*TOLD, *HARDWARE))}
        self._before += max(ranks["passed"])
        at.seconds = self._before
        self._tell(at, batches, ranks, table[:, len(ranks) :].sum(0).tolist())
        self._step.sums.zero_()

    def _tell(self, at: Progress, batches: int, ranks: dict[str, list[float]], sums: list[float]) -> None:
        loss, first, five, labelled, samples = sums
        labelled = max(1.0, labelled)
        rate = self._step.rate
        values = {"loss": loss / samples, "acc1": 100 * first / labelled, "acc5": 100 * five / labelled, "lr": rate}
        done, seconds = ranks["batches"][0], max(ranks["passed"])
        shares = [
            Share(*(min(1.0, ranks[name][r] / seconds) for name in ("data", "compute", "collective")))
            for r in range(len(ranks["passed"]))
        ]
        feeds = [WORDS[int(i)] for i in ranks["waiting"]]
        meters = self._meters
        meters.time.add(ranks["passed"][0] / done, done)
        meters.data.add(ranks["waited"][0] / done, done)
        for meter, name in ((meters.loss, "loss"), (meters.acc1, "acc1"), (meters.acc5, "acc5")):
            meter.add(values[name], samples)
        late = straggler(shares, self._separable)
        words = "" if late is None else "\t" + late.words(feeds)
        self._watch.say(meters.line(at.epoch, at.batches, batches) + words)
        times = {name: [getattr(share, name) for share in shares] for name in ("data", "compute", "collective")}
        times = {"wait": times.pop("data"), **times}
        machine = {name: ranks[name] for name in HARDWARE if not all(map(math.isnan, ranks[name]))}
        account = {name: ranks[name] for name in ("disk", "decode", "client")}
        self._watch.event(
            "step",
            **values,
            **times,
            epoch=at.epoch,
            batch=at.batches,
            batches=batches,
            step=at.steps,
            samples=int(samples),
            seconds=seconds,
            images_per_second=samples / seconds,
            mixed=self._step.mix is not None,
            straggler=None if late is None else late.rank,
            why=None if late is None else late.why,
            feed=feeds[0],
            feeds=feeds,
            feed_share=account,
            hardware={name: [None if math.isnan(v) else v for v in row] for name, row in machine.items()},
        )
        names = {"loss": "Loss/train", "acc1": "Accuracy/train", "acc5": "Accuracy5/train", "lr": "lr"}
        shown = {names[key]: value for key, value in values.items()}
        shown["images_per_second"] = samples / seconds
        for name, row in {**times, **machine}.items():
            shown |= {f"{name}/rank{r}": v for r, v in enumerate(row) if not math.isnan(v)}
        shown |= {f"feed/{name}": row[0] for name, row in account.items()}
        shown |= {f"feed/waits_for_{what}": float(feeds[0] == what) for what in WORDS[:3]}
        self._watch.scalars(at.steps, shown)

    def end_epoch(self, at: Progress, images: int, scores: Mapping[str, Score], evaluated: float) -> None:
        """Tell what an epoch of so many images came to; scores are those of the model and of its average, by name."""
        self._feed = None
        self._watch.end_epoch()
        rate = images / at.seconds if at.seconds else 0.0
        time = f"trained {at.seconds:.1f} s, {rate:,.0f} images/s"
        for name, score in scores.items():
            which = f" ({name})" if len(scores) > 1 else ""
            best = ", the better" if len(scores) > 1 and name == at.scored else ""
            self._watch.say(
                f" * Epoch {at.epoch}: {score}{which} on {score.samples:,} samples{best}; {time}, evaluated {evaluated:.1f} s"
            )
        if not scores:
            self._watch.say(f" * Epoch {at.epoch}: {time}; there is no evaluation")
        said = asdict(scores[at.scored]) if scores else {"loss": None, "acc1": None, "acc5": None, "samples": 0}
        each = {name: asdict(score) for name, score in scores.items()}
        times = {"train_seconds": at.seconds, "images": images, "images_per_second": rate, "eval_seconds": evaluated}
        self._watch.event("epoch", epoch=at.epoch, **said, scored=at.scored, scores=each, **times)
        board: dict[str, Any] = {}
        if scores:
            board = {"Loss/Val": said["loss"], "Accuracy/Val": said["acc1"], "Accuracy5/Val": said["acc5"]}
        if said.get("mean_ap") is not None:
            board["mAP/Val"] = said["mean_ap"]
        if len(scores) > 1:
            board |= {f"Accuracy/Val_{name}": score.acc1 for name, score in scores.items()}
        self._watch.scalars(at.steps, board)

    def close(self) -> None:
        """End the sampling of the GPU."""
        self._gpu.close()
