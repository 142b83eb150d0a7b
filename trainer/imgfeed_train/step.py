"""One batch: forward, backward, and the optimiser's step with everything that hangs on it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from . import data, models, optim
from .evaluate import autocast, correct
from .settings import Settings

SUMS = 4  # loss, first right, in the first five, samples


class Step:
    """A model with its optimiser, schedule, loss scale and moving average. Every rank has one."""

    def __init__(self, s: Settings, device: torch.device, model: nn.Module, *, classes: int, steps_per_epoch: int) -> None:
        """Take the distributed model; steps_per_epoch counts the optimiser's steps."""
        self.s, self.device, self.model = s, device, model
        self.optimizer = optim.optimizer(model, s)
        self.schedule = optim.schedule(self.optimizer, s, steps_per_epoch)
        self.scaler = torch.amp.GradScaler(device.type, enabled=s.amp == "fp16")
        self.loss = nn.CrossEntropyLoss(label_smoothing=s.label_smoothing)
        self.mix = data.mixer(s, classes)
        self.ema: AveragedModel | None = None
        if s.ema:
            self.ema = AveragedModel(models.bare(model), multi_avg_fn=get_ema_multi_avg_fn(s.ema), use_buffers=True)
        self.total = s.epochs * steps_per_epoch
        self._moved = False  # whether the optimiser has stepped; asking the scaler would wait for the GPU
        self.optimizer.register_step_post_hook(lambda *_: setattr(self, "_moved", True))
        self.skipped = 0  # steps that an overflow of fp16 gradients cost
        self.sums = torch.zeros(SUMS, dtype=torch.float64, device=device)
        self.backward: Callable[[torch.Tensor], None] = torch.Tensor.backward  # what measures time may stand in for it
        self._form = torch.channels_last if s.channels_last else torch.preserve_format

    def batch(self, images: torch.Tensor, labels: torch.Tensor, share: float = 1.0, step: bool = True) -> None:
        """Add a batch's gradients, weighted by its share of the samples of the step; then step, if it is the step's last.

        images is (B, 3, H, W) float32, labels (B,) int64, on any device.
        """
        images = images.to(self.device, non_blocking=True, memory_format=self._form)
        targets = labels = labels.to(self.device, non_blocking=True)
        if self.mix is not None:
            images, targets = self.mix(images, labels)
        with models.syncing(self.model, step):
            with autocast(self.s, self.device):
                output = self.model(images)
            loss = self.loss(output.float(), targets)
            self.backward(self.scaler.scale(loss * share))
        if step:
            self._step()
        with torch.no_grad():
            first, five = correct(output, labels)
            count = torch.full_like(loss, len(labels))
            self.sums += torch.stack([part.double() for part in (loss * len(labels), first, five, count)])

    def averaged(self) -> nn.Module:
        """Return what is to be evaluated: the moving average, if there is one, else the model."""
        return self.model if self.ema is None else self.ema.module

    def _step(self) -> None:
        if self.s.clip_grad:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.s.clip_grad)
        self._moved = False
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        if not self._moved:  # an overflow: the optimiser has not stepped, so nothing else does
            self.skipped += 1
            return
        if self.schedule.last_epoch + 1 < self.total:  # the schedule has no value behind the last step
            self.schedule.step()
        if self.ema is not None:
            self.ema.update_parameters(models.bare(self.model))
