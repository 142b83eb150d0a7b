"""The training itself: one batch, one epoch, all epochs, and the state between them."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn

from . import checkpoint, data, gathers, models, optim
from .errors import TrainError
from .evaluate import Score, evaluate
from .launch import Place
from .lines import At, Lines
from .saver import Saver
from .settings import Settings
from .step import Step
from .stop import Stop
from .watch import Watch, every_rank


class Trainer:
    """A training with all its state. Every rank has one, and all call the same methods in the same order."""

    def __init__(
        self, s: Settings, place: Place, device: torch.device, *, model: nn.Module, feed: data.Feed, val: Any, watch: Watch
    ) -> None:
        """Take the distributed model, the training feed, and the evaluation's loader."""
        self.s, self.place, self.device, self.watch = s, place, device, watch
        self.model, self.feed, self.val = model, feed, val
        self.saver = Saver(checkpoint.folder(s))
        self.steps_per_epoch = -(-len(feed.loader) // s.accumulate)
        classes = len(feed.loader.dataset.classes)
        self.step = Step(s, device, model, classes=classes, steps_per_epoch=self.steps_per_epoch)
        self.epoch = self.batches = self.steps = 0  # batches of this epoch; optimiser steps of all
        self.best = -1.0
        self.stop = Stop(place, device)
        # Sharing batch statistics makes ranks wait inside a layer, where it looks like computing; compiled code has no hooks.
        sharded = models.is_fsdp(model)
        self.lines = Lines(watch, device, place.world, separable=not (s.sync_bn or (sharded and s.compile)))
        self.step.backward = self.lines.pace.backward
        if sharded and not s.compile:
            gathers.bracket(model, self.lines.pace.enter, self.lines.pace.leave)

    def plan(self) -> dict[str, Any]:
        """Return the numbers that the settings leave open, for the log book."""
        return {
            "world": self.place.world,
            "how": self.place.how,
            "batch_size": self.feed.batch_size,
            "batches": len(self.feed.loader),
            "epochs": self.s.epochs,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "classes": len(self.feed.loader.dataset.classes),
            "encoding": self.feed.loader.dataset.encoding,
        }

    def run(self) -> bool:
        """Train to the last epoch; return False if it was stopped before, with a checkpoint."""
        with self.stop:
            while self.epoch < self.s.epochs:
                begun = time.perf_counter()
                if not self._train_epoch():
                    self._checkpoint("last.pt")
                    return self._stopped()
                trained = time.perf_counter() - begun
                score = evaluate(self.step.averaged(), self.val, self.s, self.device)
                self._end_epoch(score, trained, time.perf_counter() - begun - trained)
                if self.epoch < self.s.epochs and self.stop.agreed():
                    return self._stopped()
        return True

    def _stopped(self) -> bool:
        self.watch.say(f"stopped in epoch {self.epoch} after {self.batches} batches; go on with --resume auto")
        return False

    def _train_epoch(self) -> bool:
        batches = iter(self.feed.epoch(self.epoch))
        left, samples, accumulate = len(batches), self.feed.left(), self.s.accumulate
        total = self.batches + left
        self.model.train()
        self.watch.begin_epoch(self.epoch, self.batches, total)
        pace = self.lines.pace
        self.lines.begin_epoch(self.feed.loader)
        for i in range(left):
            images, labels = pace.next(batches)
            if i % accumulate == 0:
                group = min(samples, accumulate * self.feed.batch_size)  # samples of this rank in this step
                samples -= group
            stepped = (i + 1) % accumulate == 0 or i + 1 == left
            self._batch(images, labels, len(labels) / group, stepped)
            pace.done()
            self.watch.batch()
            if self.batches % self.s.log_every == 0 or i + 1 == left:
                self._line(total)
            if stepped and i + 1 < left and self._pause():
                if pace.batches:
                    self._line(total)
                return False
        next(batches, None)  # tells the loader that the epoch is over
        self.watch.end_epoch()
        return True

    def _batch(self, images: torch.Tensor, labels: torch.Tensor, share: float, stepped: bool) -> None:
        skipped = self.step.skipped
        self.step.batch(images, labels, share, stepped)
        self.batches += 1
        self.steps += stepped
        if self.step.skipped > skipped:
            scale = self.step.scaler.get_scale()
            self.watch.say(f"step {self.steps} skipped: fp16 gradients overflowed; the loss scale is {scale:g} now")

    def _pause(self) -> bool:
        """Save where the settings say so; return whether to stop here, the same on all ranks."""
        if self.s.max_steps and self.steps >= self.s.max_steps:
            return True
        if self.stop.agreed(self.steps):
            return True
        if self.s.checkpoint_every and self.steps % self.s.checkpoint_every == 0:
            self._checkpoint("last.pt")
        return False

    def _line(self, total: int) -> None:
        """Tell what happened since the last line."""
        at = At(self.epoch, self.batches, total, self.steps, self.step.optimizer.param_groups[0]["lr"])
        self.lines.write(at, self.step.sums)
        self.step.sums.zero_()

    def _end_epoch(self, score: Score, trained: float, evaluated: float) -> None:
        self.watch.say(
            f" * Epoch {self.epoch}: Acc@1 {score.acc1:.3f} Acc@5 {score.acc5:.3f} Loss {score.loss:.4f} on {score.samples:,} "
            f"samples; trained {trained:.1f} s, evaluated {evaluated:.1f} s"
        )
        values = {"loss": score.loss, "acc1": score.acc1, "acc5": score.acc5, "samples": score.samples}
        self.watch.event("epoch", epoch=self.epoch, **values, train_seconds=trained, eval_seconds=evaluated)
        board = {"Loss/Val": score.loss, "Accuracy/Val": score.acc1, "Accuracy5/Val": score.acc5}
        self.watch.scalars(self.steps, board)
        better = score.acc1 > self.best
        self.best = max(self.best, score.acc1)
        self.epoch, self.batches = self.epoch + 1, 0
        self._checkpoint("last.pt", *(["best.pt"] if better else []))

    def _checkpoint(self, *names: str) -> None:
        """Save the state under these names. All ranks call it; rank 0 writes."""
        step = self.step
        state = {
            **checkpoint.capture(self.model, step.optimizer),
            "version": checkpoint.VERSION,
            "settings": dict(vars(self.s)),
            "batch_size": self.feed.batch_size,
            "schedule": step.schedule.state_dict(),
            "total_steps": step.total,
            "scaler": step.scaler.state_dict(),
            "ema": None if step.ema is None else step.ema.state_dict(),
            "random": checkpoint.random_states(self.place, self.device),
            "loader": self.feed.loader.state_dict(),
            "progress": {"epoch": self.epoch, "batches": self.batches, "steps": self.steps, "best": self.best},
        }
        every_rank(None, failing=lambda: self.saver.save(state, *names) if self.place.rank == 0 else None)

    def resume(self, state: dict[str, Any], path: str) -> None:
        """Go on from the state of a checkpoint, which came from path. Raises TrainError where it doesn't fit."""
        step = self.step
        fresh = optim.hyperparameters(step.optimizer)
        try:
            checkpoint.restore(self.model, step.optimizer, state)
            if step.ema is not None:
                step.ema.load_state_dict(state["ema"] or {**step.ema.state_dict(), **_averaged(state["model"])})
        except (RuntimeError, ValueError, KeyError) as e:
            raise TrainError(f"{path} does not fit this model ({self.s.arch}) and optimiser: {str(e)[:300]}") from e
        if state["scaler"] and step.scaler.is_enabled():
            step.scaler.load_state_dict(state["scaler"])
        self.feed.loader.load_state_dict(state["loader"])
        progress = state["progress"]
        self.epoch, self.batches, self.steps, self.best = (progress[k] for k in ("epoch", "batches", "steps", "best"))
        self._resume_schedule(state, fresh)
        checkpoint.set_random_states(state["random"], self.place, self.device, self.s.seed + self.steps)
        self.watch.say(f"resumed {path}: epoch {self.epoch}, batch {self.batches}")
        self.watch.event("resume", epoch=self.epoch, batch=self.batches, step=self.steps, checkpoint=path)

    def _resume_schedule(self, state: dict[str, Any], fresh: list[dict[str, Any]]) -> None:
        """Set the schedule to its place; where steps or settings are others, a new one to the same part of the training.

        fresh is what the optimiser's groups held before the checkpoint's came.
        """
        step = self.step
        left = -(-self.feed.left() // self.feed.batch_size)  # batches of this epoch
        steps = (self.epoch + 1) * self.steps_per_epoch - -(-left // self.s.accumulate)
        changed = [name for name in optim.SCHEDULED if state["settings"].get(name) != getattr(self.s, name)]
        if state["total_steps"] == step.total and steps == self.steps and not changed:
            step.schedule.load_state_dict(state["schedule"])
            return
        for group, values in zip(step.optimizer.param_groups, fresh, strict=True):
            group.update(values)
        optim.advance(step.optimizer, step.schedule, self.s, self.steps_per_epoch, steps)
        why = f"{', '.join(changed)} changed; " if changed else ""
        self.watch.say(
            f"{why}the schedule goes on at step {steps} of {step.total}, where it was at {self.steps} of {state['total_steps']}"
        )
        self.steps = steps


def _averaged(weights: dict[str, Any]) -> dict[str, Any]:
    """Return weights under the names of an average, for a run that begins one at a checkpoint without."""
    return {f"module.{name}": tensor for name, tensor in weights.items()}
