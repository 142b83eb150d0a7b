"""A training, from top to bottom: ranks, data, model, optimiser, the checkpoint to continue from; then the epochs.

One batch is in step.py, an exact evaluation in evaluate.py, checkpoints are in checkpoint.py and store.py, lines in log.py.
"""

import contextlib
import copy
import dataclasses
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from . import checkpoint, data, flags, report
from .checkpoint import Progress
from .errors import TrainError
from .evaluate import autocast, evaluate
from .flags import Settings
from .log import Log
from .model import build, weights
from .ranks import Rank, Stop, on_first
from .step import Step

DRY_RUN = 60.0  # seconds
SCORED = ("arch", "size", "transform", "amp")  # settings that a score depends on


def train(s: Settings, rank: Rank, limit: float = math.inf) -> bool:
    """Train on this rank, for limit seconds at most; return False if stopped before the end. Each rank calls it."""
    begun = time.monotonic()
    splits = data.splits(s)
    log = Log(s, rank)
    ending = {"state": "failed"}
    try:
        training = Training(s, rank, log, splits)
        with contextlib.closing(training.keeper.store) as store:
            on_first(rank, lambda: store.claim(training.at.run, training.keeper.ahead))
            finished = training.run(limit)
            on_first(rank, lambda: training.keeper.finish(training.stop.told))
        ending = {"state": "finished" if finished else "stopped"}
        if finished:
            rank.say(f"Training complete in: {report.clock(time.monotonic() - begun)}")
    except BaseException as e:
        ending["error"] = str(e) if isinstance(e, TrainError) else f"{type(e).__name__}: {e}"
        raise
    finally:
        log.close(**ending)
        if rank.rank == 0 and report.write(s.output) and limit == math.inf:
            print(f"report: {Path(s.output) / 'report.md'}", flush=True)
    return finished


class Training:
    """A training with its state. Each rank has one, and all call its methods in the same order."""

    def __init__(self, s: Settings, rank: Rank, log: Log, splits: data.Splits) -> None:
        self.s, self.rank, self.splits, self.log = s, rank, splits, log
        self.keeper = checkpoint.Keeper(s, rank)
        path, state, run = on_first(rank, self.keeper.find)  # its machine alone needs the file

        # Data: what the labels of the sets mean.
        self.classes = data.classes(s, rank, splits.train, splits.val)

        # Model: the same weights on all ranks, and as many images as fit.
        torch.manual_seed(s.seed)
        model, images, _ = build.build(s, len(self.classes), rank, resumed=bool(state))
        model = model.to(rank.device)
        if s.channels_last:
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        images = weights.images_of(state or {}) or images
        size: Any = s.batch_size[0]
        if size == "auto":
            size = state["batch_size"] if state else self._largest_batch(model)

        # Batches, in the order and crops of the seed.
        self.loader = data.train_loader(s, splits.train, rank, size, images)
        self.val = data.eval_loader(s, splits.val, rank, size, images) if splits.val else None
        self.images = images
        build.check_last_batch(model, len(self.loader.sampler), size)

        # Optimiser, with its schedule, loss scale and moving average.
        self.steps_per_epoch = -(-len(self.loader) // s.accumulate)
        self.step = Step(s, rank, build.distribute(model, s, rank), len(self.classes), self.steps_per_epoch)

        # Where it continues. Each rank mixes and drops by numbers of its own.
        self.at = Progress(run=run)
        torch.manual_seed(s.seed + rank.rank)
        if state:
            self.at = checkpoint.restore(self.step, self.loader, state, path)
        self._begin(path)

    def _begin(self, path: str) -> None:
        s, at, rank, saved = self.s, self.at, self.rank, dataclasses.replace(self.at)
        scored = "" if self.val else "; no split to evaluate on"
        sizes = ", ".join(f"{name} ({samples:,})" for name, samples in sorted(self.splits.samples.items()))
        rank.say(f"data: {s.data}: {sizes}{scored}; ranks: {rank.world}; rank 0 on {rank.device}")
        if path:
            at.steps = min(at.epoch * self.steps_per_epoch + self._done() // s.accumulate, s.epochs * self.steps_per_epoch)
            other = f"; this is step {at.steps} of the schedule, and was {saved.steps}" if at.steps != saved.steps else ""
            rank.say(f"resumed {path}: epoch {at.epoch}, batch {self._done()}{other}")
        decay = self.step.ema.get_decay(s.epochs * self.steps_per_epoch) if self.step.ema else s.ema
        if decay < s.ema:
            rank.say(f"--ema {s.ema:.7g}: this run's steps are too few for it; the decay rises to {decay:.7g}")
        plan = {"world": rank.world, "batch_size": self.loader.batch_size, "batches": len(self.loader)}
        plan |= {"val_batches": len(self.val) if self.val else 0, "samples": self.splits.samples, "classes": len(self.classes)}
        self.log.begin(saved, path, parameters=sum(p.numel() for p in self.step.model.parameters()), **plan)

    def _done(self) -> int:
        """Return how many batches of its epoch the loader has given."""
        left = data.samples_left(self.loader, self.rank)
        return int(len(self.loader) - -(-left // self.loader.batch_size))

    def run(self, limit: float) -> bool:
        """Train to the last epoch, for limit seconds at most; return False if stopped before, with a checkpoint."""
        with Stop(self.rank, limit) as self.stop:
            if self.at.scored < self.at.epoch:  # the run ended between an epoch and its evaluation
                self._evaluate()
            while self.at.epoch < self.s.epochs:
                if self._enough() or self.stop.agreed() or not self._epoch():
                    at = self.at
                    self.rank.say(f"stopped in epoch {at.epoch} after {at.batches} batches; continue with --resume auto")
                    return False
                self._evaluate()
        return True

    def _epoch(self) -> bool:
        """Train on the rest of an epoch; return False if the run is stopped within it, with a checkpoint."""
        at, step, s = self.at, self.step, self.s
        self.loader.set_epoch(at.epoch)
        samples = data.samples_left(self.loader, self.rank)
        batches = iter(self.loader)
        left = len(batches)
        at.batches = len(self.loader) - left
        build.set_training(step.model, s)
        self.log.begin_epoch(self.loader, step, at)
        group = 0
        for i, (images, labels) in enumerate(self.log.waiting(batches), 1):
            if i % s.accumulate == 1 or s.accumulate == 1:  # a step begins, of so many samples of this rank
                group = min(samples, s.accumulate * self.loader.batch_size)
                samples -= group
            stepped = i % s.accumulate == 0 or i == left
            if len(labels) == 1 < self.loader.batch_size:  # the rest of a resumed epoch: one image has no statistics
                build.rest_norms(step.model)
            step.batch(images, labels, len(labels) / group, stepped, at.steps)
            at.batches, at.steps = at.batches + 1, at.steps + stepped
            if step.skipped:
                self.rank.say(f"step {at.steps} skipped: {step.skipped}")
            between = stepped and i < left
            stops = between and (self._enough() or self.stop.agreed(at.steps))
            saves = stops or (between and s.checkpoint_every > 0 and at.steps % s.checkpoint_every == 0)
            if self.log.batch(at, saves):  # a checkpoint has the means up to its last batch
                step.check_finite(at, saving=False)
            if saves:
                self._save()
            if stops:
                return False
        self.log.end_training(at)
        at.epoch, at.batches, at.sums = at.epoch + 1, 0, Progress().sums
        self.loader.set_epoch(at.epoch)
        self._save()  # before the evaluation, which may fail
        return True

    def _evaluate(self) -> None:
        """Score the moving average, or the model without one, and save the state."""
        at, begun, score = self.at, time.perf_counter(), None
        if self.val is not None:
            model = self.step.ema.module if self.step.ema else self.step.model
            score = evaluate(model, self.val, self.s, self.rank)
        best, before = score is not None and score.rank > at.best, at.best
        at.best = score.rank if score is not None and best else before
        self.log.end_epoch(at, score, time.perf_counter() - begun, best)
        at.scored, at.seconds = at.epoch, 0.0
        if not self._save(best) and best:
            at.best = before  # the disk did not take it: the next as good is the best

    def _save(self, best: bool = False) -> bool:
        """Save the state, unless its weights are not finite; return whether it was saved. All ranks call it."""
        self.step.check_finite(self.at, saving=True)
        state = checkpoint.capture(self.step, self.loader, self.at, self.classes, self.images)
        kept = self.keeper.save(state, best)
        if kept:
            self.log.event("saved", step=self.at.steps, epoch=self.at.epoch)
        return kept

    def _enough(self) -> bool:
        return 0 < self.s.max_steps <= self.at.steps

    def _largest_batch(self, model: nn.Module) -> int:
        """Return the largest batch that fits every rank's GPU, with room for the optimiser's state."""
        s, rank = self.s, self.rank
        if rank.device.type != "cuda":
            raise TrainError("--batch-size auto measures a GPU's memory, and there is no GPU: give a number")
        trial = copy.deepcopy(model)  # one copy of the weights; moments, DDP's buckets and an average may be more
        more = (s.optimizer != "sgd") + (rank.world > 1) + bool(s.ema)
        held = [torch.empty_like(p) for p in model.parameters() for _ in range(more)]

        def run(batch: int, _: object = held) -> None:
            with torch.random.fork_rng([rank.device]), autocast(s, rank.device):
                output = trial(torch.zeros(batch, 3, s.size[0], s.size[0], device=rank.device)).float()
                nn.functional.cross_entropy(output, output.argmax(1)).backward()

        size = build.largest_batch(run, rank) * (torch.cuda.device_count() if s.strategy == "dp" else 1)
        torch.cuda.reset_peak_memory_stats(rank.device)  # the training's alone is reported
        rank.say(f"--batch-size auto: {size} images a rank, {size * rank.world * s.accumulate} a step; --lr is as given")
        return size


def dry_run(s: Settings, rank: Rank) -> None:
    """Train for up to a minute in a temporary folder, and print the time and memory of the whole training."""
    with tempfile.TemporaryDirectory(prefix="imgfeed-train-") as folder:
        short = dataclasses.replace(s, output=folder, checkpoints=None, wandb=False)
        train(short, rank, DRY_RUN)
        numbers = report.write(folder) if rank.rank == 0 else {}
    for name, text in numbers.items():
        rank.say(f"{name:<16}{text}")
    rank.say("nothing was written; leave --dry-run out to train")


def score(s: Settings, rank: Rank, argv: Sequence[str]) -> None:
    """Print the score of weights on the split to evaluate on. A checkpoint brings the settings in SCORED; flags in argv win."""
    own = weights.own(s.file) if s.file else {}
    theirs, names, own = {n: v for n, v in own.get("settings", {}).items() if n in SCORED}, own.get("classes"), {}
    s = flags.parse(argv, flags.as_flags(theirs, str(s.file)))
    for name in (name for name, value in theirs.items() if getattr(s, name) != value):
        rank.say(f"{flags.flag(name)} is {getattr(s, name)} here, and was {theirs[name]} in the run of {s.file}")
    split = str(data.splits(s).val)
    classes = data.classes(s, rank, split)
    model, images, count = build.build(s, None, rank)
    if count != len(classes) or (names and names != classes):
        which = f"a head of {count} classes{f' ({names[0]}, ...)' if names else ''}"
        what = f"the weights have {which}, the set {split} has {len(classes)} ({classes[0]}, ...)"
        raise TrainError(f"{what}. A new head would be random: train it first, by --weights, or the head alone by --freeze")
    size = 64 if s.batch_size[-1] == "auto" else int(s.batch_size[-1])
    loader = data.eval_loader(s, split, rank, size, images)
    result = evaluate(model.to(rank.device), loader, s, rank)
    rank.say(f" * {result} on {result.samples:,} samples")
