"""The ranks: the one of this process, agreement among all, and the signals that stop them."""

import math
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType, TracebackType
from typing import Any

import torch
import torch.distributed as dist

from .errors import TrainError

TIMEOUT = timedelta(minutes=30)  # ranks wait so long for one another: rank 0's checkpoint or download delays all
AGREE_EVERY = 10  # steps between two agreements of several ranks on whether to stop
ONE_PRESS = 1.0  # seconds; Ctrl-C comes twice, from the terminal and from torchrun


@dataclass(frozen=True)
class Rank:
    """One process among ``world``, on its device. Rank 0 prints, logs and saves for all."""

    device: torch.device
    rank: int = 0
    world: int = 1
    local_rank: int = 0

    def say(self, text: str) -> None:
        """Print a line, on rank 0."""
        if self.rank == 0:
            print(text, flush=True)


def join() -> Rank:
    """Return this process's rank, after it has met the others. A launcher names it by RANK, WORLD_SIZE and LOCAL_RANK."""
    names = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    rank, world, local = (int(os.environ.get(name, default)) for name, default in names.items())
    gpus = torch.cuda.device_count()
    if gpus and local >= gpus:
        raise TrainError(f"rank {rank} is number {local + 1} on this machine, which has {gpus} GPUs: -g {gpus}")
    here = torch.device("cuda", local) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(here)
    if world > 1:
        try:
            dist.init_process_group("nccl" if gpus else "gloo", timeout=TIMEOUT)
        except (RuntimeError, ValueError) as e:
            master = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
            what = f"rank {rank} does not find the other {world - 1} at {master}"
            how = "have all of them started, and is the port open? On CPUs, GLOO_SOCKET_IFNAME names the network's interface"
            raise TrainError(f"{what}: {how} ({str(e)[:200]})") from e
    return Rank(here, rank, world, local)


def gather(value: Any) -> list[Any]:
    """Return the values of all ranks, by rank. All ranks call it."""
    given: list[Any] = [value]
    if dist.is_initialized():
        given = given * dist.get_world_size()
        dist.all_gather_object(given, value)
    return given


def on_first(rank: Rank, work: Callable[[], Any]) -> Any:
    """Run work on rank 0; return its result on all ranks, or raise its TrainError on all."""
    given: list[Any] = [None, None]
    if rank.rank == 0:
        try:
            given[0] = work()
        except TrainError as e:
            given[1] = str(e)
    if dist.is_initialized():
        dist.broadcast_object_list(given, device=rank.device)
    if given[1] is not None:
        raise TrainError(given[1])
    return given[0]


def most(value: float, rank: Rank, of: Any = dist.ReduceOp.MAX) -> float:
    """Return the largest value of a rank, the same on all. All ranks call it."""
    given = torch.tensor(value, dtype=torch.float64, device=rank.device)
    if dist.is_initialized():
        dist.all_reduce(given, of)
    return float(given)


class Stop:
    """Whether the run was asked to stop, by SIGTERM or Ctrl-C. A second Ctrl-C ends it at once.

    A rank may get its signal after the others have agreed to stop (``told``). So once they have, SIGTERM is ignored.
    """

    def __init__(self, rank: Rank, limit: float = math.inf) -> None:
        """Stop this rank after limit seconds without a signal, too."""
        self._rank, self._asked, self.told, self._first = rank, False, False, 0.0
        self._end = time.monotonic() + limit

    def __enter__(self) -> "Stop":
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Give the signals back, unless the run stops."""
        for number, handler in ({signal.SIGTERM: signal.SIG_IGN} if self.told else self._before).items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._first = self._first or time.monotonic()
        if number == signal.SIGINT and time.monotonic() - self._first > ONE_PRESS:
            raise KeyboardInterrupt
        if not self._asked and self._rank.rank == 0:  # not by print, which the signal may have interrupted
            os.write(2, b"imgfeed-train: stopping after this step, with a checkpoint; Ctrl-C again ends it at once\n")
        self._asked = True

    def agreed(self, steps: int = 0) -> bool:
        """Return whether any rank was asked, the same on all. All ranks call it after as many steps."""
        if self._rank.world > 1 and steps % AGREE_EVERY:
            return False
        self.told = bool(most(self._asked or time.monotonic() > self._end, self._rank))
        return self.told
