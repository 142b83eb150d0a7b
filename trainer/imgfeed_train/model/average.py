"""The moving average of a model's weights, with a decay that warms up: a short run is no average over random weights."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


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
