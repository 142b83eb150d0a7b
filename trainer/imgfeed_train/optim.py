"""Optimisers, of torch and of timm; schedules and the moving average of weights, all of torch's own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from .errors import TrainError
from .model.parallel import bare
from .settings import Settings

COSINE_END = 1e-6  # a cosine ends at this part of the highest rate
#: Settings that a schedule is made of: where a resumed run has others, its schedule is made anew.
SCHEDULED = ("epochs", "schedule", "lr", "warmup_epochs", "momentum", "weight_decay", "layer_decay")


def optimizer(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    """Return the optimiser; sgd, adam and adamw are torch's, others timm's of that name. Raises TrainError for no such one."""
    groups = _groups(model, s)
    if s.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=s.lr, momentum=s.momentum, weight_decay=s.weight_decay)
    if s.optimizer in ("adam", "adamw"):
        kind = torch.optim.Adam if s.optimizer == "adam" else torch.optim.AdamW
        return kind(groups, lr=s.lr, weight_decay=s.weight_decay)
    try:
        import timm.optim  # noqa: PLC0415 - optional
    except ImportError as e:
        raise TrainError(f"--optimizer {s.optimizer} is one of timm's, and timm is not installed: pip install timm") from e
    known = timm.optim.list_optimizers()
    if s.optimizer not in known:
        raise TrainError(f"--optimizer {s.optimizer} is none of torch's sgd, adam, adamw, nor of timm's: {', '.join(known)}")
    found: torch.optim.Optimizer = timm.optim.create_optimizer_v2(
        groups, opt=s.optimizer, lr=s.lr, weight_decay=s.weight_decay, momentum=s.momentum
    )
    return found


def _groups(model: nn.Module, s: Settings) -> list[dict[str, Any]]:
    """Return the parameters in groups of one rate and one decay each.

    Without decay_norm, tensors of one dimension (norms, biases) are not decayed. With layer_decay d, the last layer has the
    whole rate, the one before it d of that, and so on to the first: BEiT's and MAE's way to fine-tune.
    """
    if s.layer_decay:
        return _by_layer(model, s)
    trained = [p for p in model.parameters() if p.requires_grad]
    if s.decay_norm:
        return [{"params": trained}]
    return [
        {"params": [p for p in trained if p.ndim > 1]},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _by_layer(model: nn.Module, s: Settings) -> list[dict[str, Any]]:
    whole = bare(model)
    if not hasattr(whole, "group_matcher"):
        raise TrainError(f"--layer-decay: {s.arch} does not say which its layers are; models of timm do (--arch timm/NAME)")
    from timm.optim import param_groups_layer_decay  # noqa: PLC0415 - optional

    groups: list[dict[str, Any]] = param_groups_layer_decay(
        whole, weight_decay=s.weight_decay, layer_decay=s.layer_decay, min_scale=0.0
    )
    for group in groups:
        group["lr"] = s.lr * group["lr_scale"]
        if s.decay_norm:
            group["weight_decay"] = s.weight_decay
    return groups


def schedule(opt: torch.optim.Optimizer, s: Settings, steps_per_epoch: int) -> Any:
    """Return the schedule, which steps once an optimiser step for ``epochs * steps_per_epoch`` steps."""
    total = s.epochs * steps_per_epoch
    if s.schedule == "onecycle":
        highest = [s.lr * group.get("lr_scale", 1.0) for group in opt.param_groups]
        cycled = bool({"momentum", "betas"} & opt.defaults.keys())
        return lr_scheduler.OneCycleLR(opt, max_lr=highest, total_steps=total, cycle_momentum=cycled)
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


def rate(opt: torch.optim.Optimizer) -> float:
    """Return the rate that an optimiser is at: with layer_decay, that of the last layer."""
    return float(max(group["lr"] for group in opt.param_groups))


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


def decay_at(decay: float, updates: int) -> float:
    """Return the decay of an update, counted from 0: min(decay, (1 + n) / (10 + n)), as in TensorFlow's EMA.

    After 10 updates 0.55, after 100 0.92, after 1000 0.991: the average is over about the last tenth of what there was.
    """
    return min(decay, (1 + updates) / (10 + updates))


def averaged(model: nn.Module, decay: float) -> AveragedModel:
    """Return the average of a bare model's weights and buffers; the first update takes them as they are."""

    def update(averages: Any, values: Any, updates: Any) -> None:
        get_ema_multi_avg_fn(decay_at(decay, int(updates)))(averages, values, updates)

    return AveragedModel(model, multi_avg_fn=update, use_buffers=True)
