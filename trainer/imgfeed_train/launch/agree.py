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
