"""Optimisers and schedules, all of torch's own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import lr_scheduler

from .settings import Settings

COSINE_END = 1e-6  # a cosine ends at this part of the highest rate
#: Settings that a schedule is made of: where a resumed run has others, its schedule is made anew.
SCHEDULED = ("epochs", "schedule", "lr", "warmup_epochs", "momentum", "weight_decay")


def optimizer(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    """Return the optimiser; without decay_norm, tensors of one dimension (norms, biases) are not decayed."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not s.decay_norm:
        decayed = [p for p in trained if p.ndim > 1]
        rest = [p for p in trained if p.ndim <= 1]
        groups: list[dict[str, Any]] = [{"params": decayed}, {"params": rest, "weight_decay": 0.0}]
    else:
        groups = [{"params": trained}]
    if s.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=s.lr, momentum=s.momentum, weight_decay=s.weight_decay)
    kind = torch.optim.Adam if s.optimizer == "adam" else torch.optim.AdamW
    return kind(groups, lr=s.lr, weight_decay=s.weight_decay)


def schedule(opt: torch.optim.Optimizer, s: Settings, steps_per_epoch: int) -> Any:
    """Return the schedule, which steps once an optimiser step for ``epochs * steps_per_epoch`` steps."""
    total = s.epochs * steps_per_epoch
    if s.schedule == "onecycle":
        return lr_scheduler.OneCycleLR(opt, max_lr=s.lr, total_steps=total)
    warm = min(round(s.warmup_epochs * steps_per_epoch), total - 1)
    if s.schedule == "cosine":
        main: Any = lr_scheduler.CosineAnnealingLR(opt, T_max=total - warm, eta_min=s.lr * COSINE_END)
    elif s.schedule == "linear":
        main = lr_scheduler.LinearLR(opt, start_factor=1.0, end_factor=0.0, total_iters=total - warm)
    else:
        main = lr_scheduler.ConstantLR(opt, factor=1.0)
    if not warm:
        return main
    rise = lr_scheduler.LinearLR(opt, start_factor=1 / (warm + 1), total_iters=warm)
    return lr_scheduler.SequentialLR(opt, [rise, main], milestones=[warm])


def hyperparameters(opt: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Return the groups of an optimiser without their tensors: rates, momenta, and what a schedule has noted there."""
    return [{key: value for key, value in group.items() if key != "params"} for group in opt.param_groups]


def advance(opt: torch.optim.Optimizer, plan: Any, s: Settings, steps_per_epoch: int, steps: int) -> None:
    """Set a schedule that has not begun, and its optimiser, to where they are after so many steps.

    A stand-in without tensors takes the steps, since torch's schedules count on the order optimiser, schedule, and only
    some can be computed for a step directly.
    """
    groups = [{**group, "params": [torch.zeros(1)]} for group in hyperparameters(opt)]
    stand_in = type(opt)(groups)  # type: ignore[call-arg]
    ahead = schedule(stand_in, s, steps_per_epoch)
    for _ in range(min(steps, s.epochs * steps_per_epoch - 1)):
        stand_in.step()
        ahead.step()
    plan.load_state_dict(ahead.state_dict())
    for group, there in zip(opt.param_groups, hyperparameters(stand_in), strict=True):
        group.update(there)
