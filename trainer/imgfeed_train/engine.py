"""The training itself: one batch, one epoch, all epochs, and the state between them."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from . import checkpoint, data, models, optim
from .errors import TrainError
from .evaluate import Score, autocast, correct, evaluate
from .launch import Place
from .lines import At, Lines
from .settings import Settings
from .watch import Watch

SUMS = 4  # loss, first right, in the first five, samples


class Trainer:
    """A training with all its state. Every rank has one, and all call the same methods in the same order."""

    def __init__(
        self, s: Settings, place: Place, device: torch.device, *, model: nn.Module, feed: data.Feed, val: Any, watch: Watch
    ) -> None:
        """Take the distributed model, the training feed, and the evaluation's loader."""
        self.s, self.place, self.device, self.watch = s, place, device, watch
        self.model, self.feed, self.val = model, feed, val
        self.folder = checkpoint.folder(s)
        self.optimizer = optim.optimizer(model, s)
        self.steps_per_epoch = -(-len(feed.loader) // s.accumulate)
        self.schedule = optim.schedule(self.optimizer, s, self.steps_per_epoch)
        self.scaler = torch.amp.GradScaler(device.type, enabled=s.amp == "fp16")
        self.loss = nn.CrossEntropyLoss(label_smoothing=s.label_smoothing)
        self.mix = data.mixer(s, len(feed.loader.dataset.classes))
        self.ema: AveragedModel | None = None
        if s.ema:
            self.ema = AveragedModel(models.bare(model), multi_avg_fn=get_ema_multi_avg_fn(s.ema), use_buffers=True)
        self.epoch = self.batches = self.steps = 0  # batches of this epoch; optimiser steps of all
        self.best = -1.0
        self.stopping = False
        self.sums = torch.zeros(SUMS, dtype=torch.float64, device=device)
        # Gathering weights or statistics makes ranks wait inside their forward, where it looks like computing.
        separable = not (models.is_fsdp(model) or s.sync_bn)
        self.lines = Lines(watch, device, place.world, separable)

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
        while self.epoch < self.s.epochs:
            begun = time.perf_counter()
            if not self._train_epoch():
                self._checkpoint("last.pt")
                self.watch.say(f"stopped in epoch {self.epoch} after {self.batches} batches; go on with --resume auto")
                return False
            trained = time.perf_counter() - begun
            score = evaluate(self.ema.module if self.ema is not None else self.model, self.val, self.s, self.device)
            self._end_epoch(score, trained, time.perf_counter() - begun - trained)
        return True

    def _train_epoch(self) -> bool:
        batches = iter(self.feed.epoch(self.epoch))
        left, accumulate = len(batches), self.s.accumulate
        total = self.batches + left
        self.model.train()
        self.watch.begin_epoch(self.epoch, self.batches, total)
        pace = self.lines.pace
        self.lines.begin_epoch(self.feed.loader)
        for i in range(left):
            images, labels = pace.next(batches)
            group = min(accumulate, left - i // accumulate * accumulate)
            stepped = (i + 1) % accumulate == 0 or i + 1 == left
            self._batch(images, labels, group, stepped)
            pace.done()
            self.batches += 1
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

    def _batch(self, images: torch.Tensor, labels: torch.Tensor, group: int, step: bool) -> None:
        images, labels = images.to(self.device), labels.to(self.device)
        targets = labels
        if self.mix is not None:
            images, targets = self.mix(images, labels)
        with models.syncing(self.model, step):
            with autocast(self.s, self.device):
                output = self.model(images)
                loss = self.loss(output, targets)
            self.lines.pace.backward_of(loss)
            self.scaler.scale(loss / group).backward()
            self.lines.pace.reduced()
        if step:
            self._step()
        with torch.no_grad():
            first, five = correct(output, labels)
            count = torch.full_like(loss, len(labels))
            self.sums += torch.stack([part.double() for part in (loss * len(labels), first, five, count)])

    def _step(self) -> None:
        if self.s.clip_grad:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.s.clip_grad)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        if self.steps + 1 < self.s.epochs * self.steps_per_epoch:  # the schedule has no value behind the last step
            self.schedule.step()
        self.steps += 1
        if self.ema is not None:
            self.ema.update_parameters(models.bare(self.model))

    def _pause(self) -> bool:
        """Save where the settings say so; return whether to stop here. Ranks agree on a signal only at a line."""
        if self.s.max_steps and self.steps >= self.s.max_steps:
            return True
        alone = self.place.world == 1
        if self.stopping and (alone or self.batches % self.s.log_every == 0):
            return True
        if self.s.checkpoint_every and self.steps % self.s.checkpoint_every == 0:
            self._checkpoint("last.pt")
        return False

    def _line(self, total: int) -> None:
        """Tell what happened since the last line. At every log_every-th batch ranks agree whether to stop."""
        at = At(self.epoch, self.batches, total, self.steps, self.optimizer.param_groups[0]["lr"])
        stopping = self.lines.write(at, self.sums, self.stopping)
        self.sums.zero_()
        if self.batches % self.s.log_every == 0:
            self.stopping = stopping

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
        state = {
            **checkpoint.capture(self.model, self.optimizer),
            "version": checkpoint.VERSION,
            "settings": dict(vars(self.s)),
            "schedule": self.schedule.state_dict(),
            "total_steps": self.s.epochs * self.steps_per_epoch,
            "scaler": self.scaler.state_dict(),
            "ema": None if self.ema is None else self.ema.state_dict(),
            "random": checkpoint.random_states(self.place, self.device),
            "loader": self.feed.loader.state_dict(),
            "progress": {"epoch": self.epoch, "batches": self.batches, "steps": self.steps, "best": self.best},
        }
        if self.place.rank == 0:
            checkpoint.save(state, self.folder, *names)
        if self.place.world > 1:
            dist.barrier()

    def resume(self, what: str) -> bool:
        """Go on from a checkpoint: ``auto`` (the last one, if any), or a path or URL. Return whether there was one."""
        path = f"{self.folder}/last.pt" if what == "auto" else what
        state = checkpoint.load(path)
        if state is None:
            if what != "auto":
                raise TrainError(f"--resume {what}: there is no such checkpoint")
            return False
        try:
            checkpoint.restore(self.model, self.optimizer, state)
            if self.ema is not None and state["ema"] is not None:
                self.ema.load_state_dict(state["ema"])
        except (RuntimeError, ValueError, KeyError) as e:
            raise TrainError(f"{path} does not fit this model ({self.s.arch}) and optimiser: {str(e)[:300]}") from e
        self.scaler.load_state_dict(state["scaler"])
        self.feed.loader.load_state_dict(state["loader"])
        progress = state["progress"]
        self.epoch, self.batches, self.steps, self.best = (progress[k] for k in ("epoch", "batches", "steps", "best"))
        self._resume_schedule(state)
        checkpoint.set_random_states(state["random"], self.place, self.device, self.s.seed + self.steps)
        self.watch.say(f"resumed {path}: epoch {self.epoch}, batch {self.batches}")
        self.watch.event("resume", epoch=self.epoch, batch=self.batches, step=self.steps, checkpoint=path)
        return True

    def _resume_schedule(self, state: dict[str, Any]) -> None:
        """Set the schedule to its place; with another world or batch size, to the same part of the training."""
        total = self.s.epochs * self.steps_per_epoch
        if state["total_steps"] == total:
            self.schedule.load_state_dict(state["schedule"])
            return
        self.steps = round(state["progress"]["steps"] * total / state["total_steps"])
        fresh = optim.optimizer(self.model, self.s)
        self.schedule = optim.schedule(fresh, self.s, self.steps_per_epoch)
        fresh.load_state_dict({**fresh.state_dict(), "state": self.optimizer.state_dict()["state"]})
        self.optimizer = fresh
        for _ in range(self.steps):
            self.schedule.step()
        self.watch.say(
            f"the training has {total} steps now, not {state['total_steps']}; its schedule goes on at step {self.steps}"
        )
