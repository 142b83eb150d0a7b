"""One batch: forward, backward, and the optimiser's step with everything that hangs on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.swa_utils import AveragedModel

from . import optim
from .data.transforms import eraser, mixer
from .errors import TrainError
from .evaluate import SUMS, autocast, criterion, summed
from .model import parallel
from .settings import Settings

NOT_FINITE_STEPS = 10  # in a row whose loss is not finite end a run


class Step:
    """A model with its optimiser, schedule, loss scale and moving average. Every rank has one."""

    def __init__(self, s: Settings, device: torch.device, model: nn.Module, *, classes: int, steps_per_epoch: int) -> None:
        """Take the distributed model; steps_per_epoch counts the optimiser's steps."""
        self.s, self.device, self.model = s, device, model
        self.optimizer = optim.optimizer(model, s)
        self.schedule = optim.schedule(self.optimizer, s, steps_per_epoch)
        self.scaler = torch.amp.GradScaler(device.type, enabled=s.amp == "fp16")
        self.loss = criterion(s, classes)
        self.erase = eraser(s)
        self.mix = mixer(s, classes)
        self.ema: AveragedModel | None = optim.averaged(parallel.bare(model), s.ema) if s.ema else None
        self.total = s.epochs * steps_per_epoch
        self.rate = optim.rate(self.optimizer)  # that the last batch is trained at
        self._moved = False  # whether the optimiser has stepped; asking the scaler would wait for the GPU
        self.optimizer.register_step_post_hook(lambda *_: setattr(self, "_moved", True))
        self.skipped = 0  # steps that an overflow of fp16 gradients cost, or with --nan skip a loss that is not finite
        self.sums = torch.zeros(SUMS, dtype=torch.float64, device=device)
        self.bad = torch.zeros(2, dtype=torch.int64, device=device)  # steps whose loss is not finite: in a row now, at most
        self.backward: Callable[[torch.Tensor], None] = torch.Tensor.backward  # what measures time may stand in for it
        self._form = torch.channels_last if s.channels_last else torch.preserve_format
        self._finite = torch.ones((), dtype=torch.bool, device=device)  # the losses of the step under way
        self._before: list[torch.Tensor] = []  # with --nan skip, the model's statistics before that step

    def batch(self, images: torch.Tensor, labels: torch.Tensor, share: float = 1.0, step: bool = True) -> None:
        """Add a batch's gradients, weighted by its share of the samples of the step; then step, if it is the step's last.

        images is (B, 3, H, W) float32, labels (B,) int64 or with --target (B, classes), on any device.
        """
        self.rate = optim.rate(self.optimizer)
        images = images.to(self.device, non_blocking=True, memory_format=self._form)
        targets = labels = labels.to(self.device, non_blocking=True)
        if labels.dim() > 1:
            targets = labels = labels.float()
        if self.erase is not None:
            images = self.erase(images)
        if self.mix is not None:
            images, targets = self.mix(images, labels)
        if self.s.nan == "skip" and not self._before:
            self._before = [buffer.clone() for buffer in self.model.buffers()]
        with parallel.syncing(self.model, step):
            with autocast(self.s, self.device):
                output = self.model(images)
            loss = self.loss(output.float(), targets)
            self.backward(self.scaler.scale(loss * share))
        with torch.no_grad():
            self._finite &= loss.isfinite()
            self.sums += summed(loss * len(labels), output, labels)
        if step:
            self._step()

    @property
    def why_skipped(self) -> str:
        """Why the last step that was skipped was."""
        if self.s.nan == "skip":
            return "its loss was not finite"
        return f"fp16 gradients overflowed; the loss scale is {self.scaler.get_scale():g} now"

    def check_finite(self, where: str, kept: bool, weights: Iterable[torch.Tensor] | None = None) -> None:
        """Raise TrainError, unless --nan says otherwise, where too many steps in a row had a loss that is not finite.

        kept says that the weights are about to be: then the last step must not have had one. All ranks call it, or one
        alone with the weights, which has seen its own losses only: that another's was not finite shows in them.
        """
        if self.s.nan == "ignore":
            return
        bad = self.bad.clone()
        if weights is not None:
            if not all(bool(weight.isfinite().all()) for weight in weights):
                bad.clamp_(min=1)
        elif dist.is_initialized():
            dist.all_reduce(bad, dist.ReduceOp.MAX)
        now, most = bad.tolist()
        self.bad[1] = self.bad[0]
        if most >= NOT_FINITE_STEPS or (kept and now and self.s.nan == "stop"):
            raise TrainError(
                f"the loss was not finite for {max(now, most)} steps in a row up to {where}, at a rate of {self.rate:.3g}; the "
                "checkpoints are from before. A lower --lr, --warmup-epochs, --clip-grad 1, or --amp bf16 in place of fp16 may "
                f"help; {'' if self.s.nan == 'skip' else '--nan skip leaves out such steps, '}--nan ignore goes on"
            )

    def _step(self) -> None:
        row = torch.where(self._finite, 0, self.bad[0] + 1)
        self.bad = torch.stack([row, torch.maximum(self.bad[1], row)])
        if self.s.nan == "skip" and self._skip():
            return
        self._finite.fill_(True)
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
        if self.schedule.last_epoch + 1 < self.total:  # the schedule has no value after the last step
            self.schedule.step()
        if self.ema is not None:
            self.ema.update_parameters(parallel.bare(self.model))

    def _skip(self) -> bool:
        """Leave out the step if its loss is not finite on any rank, with what its forward did to the model's statistics."""
        finite = self._finite.to(torch.int32)
        if dist.is_initialized():
            dist.all_reduce(finite, dist.ReduceOp.MIN)
        before, self._before = self._before, []
        self._finite.fill_(True)
        if bool(finite):
            return False
        with torch.no_grad():
            for buffer, was in zip(self.model.buffers(), before, strict=True):
                buffer.copy_(was)
        self.optimizer.zero_grad(set_to_none=True)
        self.skipped += 1
        return True
