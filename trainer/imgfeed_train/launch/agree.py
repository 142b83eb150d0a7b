"""What all ranks give or decide together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import AgreedError, TrainError


def every_rank(mine: Any, failing: Callable[[], None] | None = None) -> list[Any]:
    """Return what each rank gives, by rank. All ranks call it.

    ``failing`` is tried first; if it raises TrainError on any rank, all raise AgreedError, and none waits for one that is gone.
    """
    error = None
    if failing is not None:
        try:
            failing()
        except TrainError as e:
            error = str(e)
    given = [(mine, error)]
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        given = given * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(given, (mine, error))
    for _, said in given:
        if said is not None:
            raise AgreedError(said)
    return [value for value, _ in given]


def most(value: float, device: torch.device, of: Any = torch.distributed.ReduceOp.MAX) -> float:
    """Return the largest value that a rank gives, or what else of is, the same on all. All ranks call it."""
    given = torch.tensor(value, dtype=torch.float64, device=device)
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(given, of)
    return float(given)


def settle(device: torch.device) -> None:
    """Wait until the device has done what it was told to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
