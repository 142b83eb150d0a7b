"""A process among the others of a training: its rank, the world's size, and its share of the samples and the processors."""

import logging
import math
import os
import sys
from pathlib import Path
from typing import Any

from .._arguments.numbers import INT64_MAX

log = logging.getLogger("imgfeed")

_CPU_LIMIT = "/sys/fs/cgroup/cpu.max"  # "QUOTA PERIOD" in microseconds, of this control group


def rank_and_world(rank: int | None, world: int | None) -> tuple[int, int] | None:
    """Return rank and world: as given, of torch.distributed's default group, or of torchrun's RANK and WORLD_SIZE; or None."""
    if (rank is None) != (world is None):
        raise ValueError("imgfeed: give both rank and world, or neither")
    if rank is None or world is None:
        if distributed := _distributed():
            rank, world = int(distributed.get_rank()), int(distributed.get_world_size())
        elif os.environ.get("RANK") or os.environ.get("WORLD_SIZE"):
            rank, world = _from_env("RANK", 0), _from_env("WORLD_SIZE", 1, low=1)
        else:
            return None
    if not 0 <= rank < world:
        raise ValueError(f"imgfeed: rank {rank} of a world of {world}: want 0 <= rank < world")
    return rank, world


def _distributed() -> Any:
    """Return torch.distributed if the program has initialised it, else None."""
    module = sys.modules.get("torch.distributed")
    return module if module is not None and module.is_available() and module.is_initialized() else None


def check_told(rank: int | None) -> None:
    """Raise ValueError for one of several processes without a rank: all would take the samples of rank 0.

    Launchers set WORLD_SIZE alone for programs that initialise torch.distributed later.
    """
    if rank is not None or os.environ.get("RANK") or _distributed():
        return
    world = _from_env("WORLD_SIZE", 1, low=1)
    if world > 1:
        raise ValueError(
            f"imgfeed: WORLD_SIZE is {world} and RANK is not set, so every process would take the samples of rank 0: "
            "initialise torch.distributed first, set RANK, or give rank= and world="
        )


def warn_in_worker() -> None:
    """Log what iterating a loader in a worker of torch's DataLoader gives, if this process is the first of them."""
    data = sys.modules.get("torch.utils.data")
    if data is not None and (worker := data.get_worker_info()) is not None and worker.id == 0:
        text = (
            "imgfeed: torch's DataLoader iterates this loader in its workers: each of them (num_workers=%d) gives every "
            "sample, and new ones repeat the epoch. Iterate the loader itself, which decodes in threads of its own"
        )
        log.warning(text, worker.num_workers)


def rank_samples(samples: int, rank: int, world: int, policy: str) -> int:
    """Return how many of samples a rank gets in a whole epoch."""
    if policy == "drop_last":
        return samples // world
    if policy == "uneven":
        return max(0, -(-(samples - rank) // world))
    return -(-samples // world)


def rank_batches(samples: int, rank: int, world: int, policy: str, batch_size: int) -> int:
    """Return how many batches a rank gets in a whole epoch. They are equally many on every rank, except with ``uneven``."""
    mine = rank_samples(samples, rank, world, policy)
    return mine // batch_size if policy == "drop_last" else -(-mine // batch_size)


def threads_default() -> int:
    """Return how many threads decode for this process: its processors, or its container's, shared with the node's ranks."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(here, _cpu_limit()) // max(1, _from_env("LOCAL_WORLD_SIZE", 1)))


def _cpu_limit() -> int:
    """Return how many processors the control group (cgroups(7), version 2) lets run at a time, rounded up."""
    try:
        quota, period = Path(_CPU_LIMIT).read_text().split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):  # no file of version 2, or its quota is "max"
        return sys.maxsize


def _from_env(name: str, default: int, low: int = 0) -> int:
    text = os.environ.get(name)
    if not text:
        return default
    wrong = f"imgfeed: the environment variable {name} is {text!r:.80}, want a whole number, {low} or more"
    try:
        number = int(text)
    except ValueError:
        raise ValueError(wrong) from None
    if not low <= number <= INT64_MAX:
        raise ValueError(wrong)
    return number
