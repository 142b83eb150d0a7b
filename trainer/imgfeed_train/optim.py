"""Optimisers of timm, and schedules that are functions of the step alone."""

from typing import Any

import timm.optim
import torch
from timm.scheduler import create_scheduler_v2
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from .errors import TrainError
from .flags import Settings
from .model.build import bare


def optimizer(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    """Return timm's optimiser of that name. sgd is plain momentum, as torch's; timm's own sgd is nesterov."""
    plain = s.optimizer == "sgd"
    how: dict[str, Any] = {"lr": s.lr, "weight_decay": s.weight_decay, "momentum": s.momentum, "filter_bias_and_bn": not plain}
    try:
        made: torch.optim.Optimizer = timm.optim.create_optimizer_v2(bare(model), "momentum" if plain else s.optimizer, **how)
    except (AssertionError, ValueError) as e:
        known = ", ".join(timm.optim.list_optimizers())
        raise TrainError(f"--optimizer {s.optimizer} can't be made ({e}); timm has {known}") from e
    return made


class Schedule:
    """Sets the learning rate of each step, counted from 0, so that a resumed run needs no state of it."""

    def __init__(self, opt: torch.optim.Optimizer, s: Settings, steps_per_epoch: int) -> None:
        self._opt, self._s, self.total = opt, s, s.epochs * steps_per_epoch
        names = {"cosine": "cosine", "linear": "poly", "step": "step", "constant": "step"}
        how: dict[str, Any] = {"num_epochs": s.epochs, "updates_per_epoch": steps_per_epoch, "step_on_epochs": False}
        how |= {"decay_epochs": s.decay_epochs, "decay_rate": s.decay_rate if s.schedule == "step" else 1.0}
        warm = {"warmup_epochs": s.warmup_epochs, "warmup_lr": s.lr / (1 + s.warmup_epochs * steps_per_epoch)}
        self._timm = None if s.schedule == "onecycle" else create_scheduler_v2(opt, names[s.schedule], **how, **warm)[0]
        self._cycle = torch.optim.SGD([torch.zeros(1)], s.lr, momentum=0.9)  # has no part in the training but its rates
        self._one_cycle = OneCycleLR(self._cycle, s.lr, total_steps=self.total)
        self._cycle.step()  # torch warns of a schedule without one
        self.at(0)

    def at(self, step: int) -> None:
        """Set the rates of a step; the highest of them is ``rate``."""
        if self._timm is not None:
            self._timm.step_update(step)
        self._one_cycle.last_epoch = min(step, self.total - 1) - 1
        self._one_cycle.step()
        rate, momentum = (self._cycle.param_groups[0][name] for name in ("lr", "momentum"))
        for group in self._opt.param_groups if self._timm is None else ():
            group["lr"] = rate
            if "momentum" in group:
                group["momentum"] = momentum
            elif "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
        self.rate = float(max(group["lr"] for group in self._opt.param_groups))
