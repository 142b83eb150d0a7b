"""One batch: forward, backward, and the optimiser's step with all that belongs to it."""

from typing import Any

import torch
import torch.distributed as dist
from imgfeed.batch import RandomErasing
from timm.loss import BinaryCrossEntropy
from timm.utils import ModelEmaV3
from torch import nn
from torchvision.transforms import v2

from . import optim
from .errors import TrainError
from .evaluate import SUMS, autocast, summed
from .flags import Settings
from .model.build import bare, syncing
from .ranks import Rank

NOT_FINITE_STEPS = 10  # in a row end a run


class MixedBinaryCrossEntropy(BinaryCrossEntropy):
    """timm's, which leaves the smoothing of mixed targets (B, classes) to whoever mixes them: torchvision does not smooth."""

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the loss of logits x (B, classes), by labels (B,) or targets."""
        even = self.smoothing * (1 / x.shape[1] - target) if target.shape == x.shape else 0
        return super().forward(x, target + even)  # type: ignore[no-any-return]


class Step:
    """A model with its optimiser, schedule, loss scale and moving average. Each rank has one."""

    def __init__(self, s: Settings, rank: Rank, model: nn.Module, classes: int, steps_per_epoch: int) -> None:
        self.s, self.rank, self.model = s, rank, model
        self.optimizer = optim.optimizer(model, s)
        self.schedule = optim.Schedule(self.optimizer, s, steps_per_epoch)
        self.scaler = torch.amp.GradScaler(rank.device.type, enabled=s.amp == "fp16")
        rise = {"use_warmup": True, "warmup_gamma": 10.0, "warmup_power": 1.0}  # to n / (n + 10) in n steps
        self.ema = ModelEmaV3(bare(model), decay=s.ema, **rise) if s.ema else None
        bce = MixedBinaryCrossEntropy(s.label_smoothing, s.bce_threshold or None)
        self.loss = bce if s.loss == "bce" else nn.CrossEntropyLoss(label_smoothing=s.label_smoothing)
        self.erase = RandomErasing(s.random_erasing) if s.random_erasing else None  # to the images' mean
        mixes: list[Any] = [v2.MixUp(alpha=s.mixup, num_classes=classes)] if s.mixup else []
        mixes += [v2.CutMix(alpha=s.cutmix, num_classes=classes)] if s.cutmix else []
        self.mix = v2.RandomChoice(mixes) if mixes else None  # with targets (B, classes)
        self.sums = torch.zeros(SUMS, dtype=torch.float64, device=rank.device)  # since the last line of the log
        self.skipped = ""  # why the last step was skipped, if it was
        self._moved = False  # whether the optimiser has stepped; to ask the scaler would wait for the GPU
        self.optimizer.register_step_post_hook(lambda *_: setattr(self, "_moved", True))
        self._finite = torch.ones((), dtype=torch.bool, device=rank.device)  # the losses of this step
        self._bad = torch.zeros(2, dtype=torch.int64, device=rank.device)  # bad steps in a row: now, and at most
        self._before: list[torch.Tensor] = []  # with --nan skip, the model's statistics before the step

    def batch(self, images: torch.Tensor, labels: torch.Tensor, share: float, last: bool, step: int) -> None:
        """Add a batch's gradients, weighted by its share of the step's samples; with the step's last batch, do the step.

        images are (B, 3, H, W) float32, labels (B,) int64, on the rank's device.
        """
        self.skipped = ""
        self.schedule.at(step)
        targets = labels
        if self.erase is not None:
            images = self.erase(images)
        if self.mix is not None:
            images, targets = self.mix(images, labels)
        if self.s.nan == "skip" and not self._before:
            self._before = [buffer.clone() for buffer in self.model.buffers()]
        with syncing(self.model, last):
            with autocast(self.s, self.rank.device):
                output = self.model(images)
            loss = self.loss(output.float(), targets)
            self.scaler.scale(loss * share).backward()
        with torch.no_grad():
            self._finite &= loss.isfinite()
            self.sums += summed(loss * len(labels), output, labels)
        if last:
            self._step(step)

    def _step(self, step: int) -> None:
        row = torch.where(self._finite, 0, self._bad[0] + 1)
        self._bad = torch.stack([row, torch.maximum(self._bad[1], row)])
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
        if not self._moved:
            self.skipped = f"fp16 gradients overflowed; the loss scale is {self.scaler.get_scale():g} now"
        elif self.ema is not None:
            self.ema.update(bare(self.model), step + 1)

    def _skip(self) -> bool:
        """Undo the step if its loss is not finite on any rank, and what its forward did to the model's statistics."""
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
        self.skipped = "its loss was not finite"
        return True

    def check_finite(self, at: Any, saving: bool) -> None:
        """Raise TrainError after too many steps in a row without a finite loss, or if the step before a checkpoint has none.

        ``at`` is the progress. All ranks call it.
        """
        if self.s.nan == "ignore":
            return
        bad = self._bad.clone()
        if dist.is_initialized():
            dist.all_reduce(bad, dist.ReduceOp.MAX)
        now, worst = bad.tolist()
        self._bad[1] = self._bad[0]
        if worst >= NOT_FINITE_STEPS or (saving and now and self.s.nan == "stop"):
            where = f"step {at.steps}, batch {at.batches} of epoch {at.epoch}, at a rate of {self.schedule.rate:.3g}"
            what = f"the loss was not finite for {max(now, worst)} steps in a row up to {where}"
            may = "A lower --lr, --warmup-epochs, --clip-grad 1, or --amp bf16 instead of fp16 may help"
            raise TrainError(f"{what}; the checkpoints are from before. {may}; --nan skip leaves out such steps")
