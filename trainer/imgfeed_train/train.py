"""A training, from top to bottom: data, model, optimiser; then the loop, evaluation, checkpoint.

Every rank comes here once the ranks have met (command.py, launch/). What a batch does to the weights is in step.py, what a
sample counts in an evaluation in evaluate.py; what is printed and logged in watch/, what goes to disk in checkpoint/.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import torch

from .checkpoint.keeper import Keeper
from .checkpoint.last_step import LastStep
from .checkpoint.state import Progress, resume, seed_all, snapshot
from .data import loaders, sets
from .errors import TrainError
from .evaluate import Score, evaluate
from .launch.notes import Notes
from .launch.place import Place
from .launch.stop import Stop
from .model import build, largest_batch, parallel, parts
from .recipes import rate_note
from .settings import Settings
from .starved import Starved, apart
from .step import Step
from .watch.lines import Lines
from .watch.log import Watch, plan


class Training:
    """A training with all its state. Every rank has one, and all call the same methods in the same order."""

    def __init__(
        self, s: Settings, place: Place, device: torch.device, notes: Notes, *, splits: sets.Splits, found: int | None = None
    ) -> None:
        """Open the data and make model and optimiser; found is the batch size of a run that is gone on with."""
        self.s, self.place, self.device, self.notes = s, place, device, notes

        # Data: what the labels of the sets mean.
        self.sets = splits
        self.classes = loaders.classes(s, self.sets.train, place)
        if self.sets.val is not None:
            sets.same_classes(self.sets.train, self.classes, self.sets.val, loaders.classes(s, self.sets.val, place))

        # Model: the same weights on all ranks; then as many images as fit, and spread over the ranks.
        seed_all(s.seed)
        notes.doing("builds the model")
        model, self.stats = build.build(s, len(self.classes), place)
        size = found if s.batch_size == "auto" else s.batch_size
        if size is None:
            size = largest_batch.batch_size(model.to(device), s, place, device, len(self.classes))
        drop_last = parts.has_batch_norm(model) if s.drop_last is None else s.drop_last
        model = parallel.distribute(model, s, place, device)

        # Batches, in the order and crops of the seed; an epoch's may grow.
        self.feed = loaders.Feed(s, self.sets.train, place, device, batch_size=size, stats=self.stats, drop_last=drop_last)
        self.val: Any = None
        if self.sets.val is not None:
            self.val = loaders.evaluation(s, self.sets.val, place, device, batch_size=size, stats=self.stats)

        # Optimiser, with its schedule, loss scale and moving average.
        self.step = Step(s, device, model, classes=len(self.classes), steps_per_epoch=self.feed.steps_per_epoch)
        self.at = Progress()
        self.last = LastStep(self.step, self.feed, place, copies=s.accumulate > 1 or apart(self.step, place))
        seed_all(s.seed + place.rank)  # each rank mixes and drops by draws of its own

    def run(self, watch: Watch, keeper: Keeper) -> bool:
        """Train from where the progress is to the last epoch; return False if stopped before, with a checkpoint."""
        self.watch, self.keeper, self.lines = watch, keeper, Lines(self.s, self.place, watch, self.step)
        with Stop(self.place, self.device) as self.stop, contextlib.closing(self.lines):
            self.starved = Starved(self.last, self.stop, self.lines, keeper, self.notes)
            finished = self.starved.run(self._epochs, self._save)
        if self.starved.ended:
            self.at = self.last.at
        return finished

    def _epochs(self) -> bool:
        while self.at.epoch < self.s.epochs:
            if self._enough():
                return False
            whole = self._epoch()
            self._save("last.pt")  # before the evaluation, which may fail
            if not whole:
                return False
            self._evaluate()
            if self.at.epoch < self.s.epochs and self.stop.agreed():
                return False
        return True

    def _epoch(self) -> bool:
        """Train on what is left of an epoch; return False if the run is to stop within it."""
        at, step, accumulate = self.at, self.step, self.s.accumulate
        self.last.keep(at)
        with self.stop.waiting():
            batches = self.feed.epoch(at.epoch)
        left, samples = len(batches), self.feed.left()
        total = at.batches + left
        step.model.train()
        with self.stop.waiting():
            self.lines.begin_epoch(self.feed.loader, at, total)
        for i in range(left):
            self.notes.doing("waits for its data", at.epoch, at.batches)
            with self.stop.waiting(self.starved.anywhere or i % accumulate == 0):
                images, labels = self.lines.next(batches)
            self.notes.doing("computes")
            if i % accumulate == 0:
                group = min(samples, accumulate * self.feed.batch_size)  # samples of this rank in this step
                samples -= group
            stepped = (i + 1) % accumulate == 0 or i + 1 == left
            skipped = step.skipped
            step.batch(images, labels, len(labels) / group, stepped)
            at.batches, at.steps = at.batches + 1, at.steps + stepped
            if stepped:
                self.last.keep(at)
            if step.skipped > skipped:
                self.watch.say(f"step {at.steps} skipped: {step.why_skipped}")
            with self.stop.waiting(self.starved.anywhere):
                told = self.lines.done(at, total)
            if told:
                step.check_finite(f"step {at.steps}, batch {at.batches} of epoch {at.epoch}", kept=False)
            if stepped and i + 1 < left:
                if self._enough() or self.stop.agreed(at.steps):
                    with self.stop.waiting(self.starved.anywhere):
                        self.lines.write(at, total)
                    return False
                if self.s.checkpoint_every and at.steps % self.s.checkpoint_every == 0:
                    self._save("last.pt")
        return True

    def _enough(self) -> bool:
        return 0 < self.s.max_steps <= self.at.steps

    def _evaluate(self) -> None:
        """Score the model and its moving average, and keep the state: as the last, and where it is that as the best."""
        at, begun = self.at, time.perf_counter()
        self.notes.doing("evaluates", at.epoch, at.batches)
        scores: dict[str, Score] = {}
        if self.val is not None:
            scores["model"] = evaluate(self.step.model, self.stop.each(self.val, self.starved.anywhere), self.s, self.device)
            if self.step.ema is not None:
                scores["average"] = evaluate(
                    self.step.ema.module, self.stop.each(self.val, self.starved.anywhere), self.s, self.device
                )
            at.scored = max(scores, key=lambda name: scores[name].rank)
        self.lines.end_epoch(at, self.feed.samples_per_epoch, scores, time.perf_counter() - begun)
        better = bool(scores) and scores[at.scored].rank > at.best
        at.best = max(at.best, scores[at.scored].rank) if scores else at.best
        epoch, at.epoch, at.batches, at.seconds = at.epoch, at.epoch + 1, 0, 0.0
        self.feed.loader.set_epoch(at.epoch)
        self.notes.doing("writes a checkpoint")
        self.keeper.save_epoch(snapshot(self.step, self.feed, at, self.place), epoch, better)

    def _save(self, *names: str) -> None:
        """Keep the state under these names, unless its weights are no numbers any more."""
        at = self.at
        self.notes.doing("writes a checkpoint", at.epoch, at.batches)
        self.step.check_finite(f"step {at.steps}, batch {at.batches} of epoch {at.epoch}", kept=True)
        at.seconds = self.lines.seconds(at)
        self.keeper.save(snapshot(self.step, self.feed, at, self.place), *names)


def train(s: Settings, place: Place, device: torch.device, notes: Notes, watch: Watch, *, splits: sets.Splits) -> bool:
    """Train on these splits, on this rank, from the beginning or where a checkpoint is. Return whether it came to its end."""
    keeper = Keeper(s, place)
    path, state = keeper.resumed()
    training = Training(s, place, device, notes, splits=splits, found=state["batch_size"] if state else None)
    watch.say(training.sets.line(s.data))
    if state:
        training.at, said = resume(training.step, training.feed, place, state, path)
    training.at.run = watch.identify(training.at.run, path if state else "", keeper.folder)
    watch.plan(training.at.steps, **plan(training.feed, training.step, training.sets, place))
    if state:
        for line in said:
            watch.say(line)
        watch.event("resume", epoch=training.at.epoch, batch=training.at.batches, step=training.at.steps, checkpoint=path)
    if s.warmup_epochs > s.epochs:
        watch.say(f"the rate rises over all {s.epochs} epochs, as --warmup-epochs is {s.warmup_epochs:g}")
    if note := rate_note(s.recipe, s.lr, training.feed.images_per_step):
        watch.say(note)
    try:
        finished = training.run(watch, keeper)
    except Exception:
        with contextlib.suppress(TrainError):
            keeper.wait()  # what failed elsewhere may still have a checkpoint under way
        raise
    if not finished:
        watch.say(f"stopped in epoch {training.at.epoch} after {training.at.batches} batches; go on with --resume auto")
    if keeper.busy:
        watch.say(f"waiting for the last checkpoints to reach {keeper.folder}")
    keeper.wait()
    return finished
