"""From a command line to a rank that has met the others: which one it is, on what device, and what ends it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..errors import LostRankError, TrainError
from ..settings import Settings
from .children import follow_parent, spawn
from .notes import Notes
from .place import Place, discover
from .rendezvous import rendezvous
from .surroundings import device_text, surroundings

Some = TypeVar("Some", bound=Settings)
Work = Callable[[Some, Place, Any, Notes], int]
#: In the errors of torch's backends where another rank is late, and where one is gone.
LATE, GONE = ("timed out", "timeout"), ("connection closed", "connection reset", "broken pipe", "gloo", "nccl", "socket")


def start(s: Some, argv: Sequence[str], work: Work[Some], stopped: int | None = None) -> int:
    """Find out which rank this is; do its work, or start the ranks of this node. Return the exit status.

    stopped is that of work which SIGTERM stopped before it began; None where it dies of the signal.
    """
    follow_parent(os.environ)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # its warnings have C++ frames; what matters is an error here too
    gpus = 0 if s.device == "cpu" else _gpus()
    if s.device == "cuda" and not gpus:
        raise TrainError("--device cuda, but torch finds no GPU")
    place = discover(s, os.environ, gpus)
    if place.spawn:
        return spawn(place, argv, stopped)
    import torch  # noqa: PLC0415 - slow: --help and compare do without

    os.environ["LOCAL_WORLD_SIZE"] = str(place.local_world)  # imgfeed shares this node's CPUs by it
    device = torch.device("cuda", place.local_rank) if gpus else torch.device("cpu")
    if gpus:
        if place.local_rank >= gpus:
            raise TrainError(f"rank {place.rank} is the {place.local_rank + 1}th of this node, which has {gpus} GPUs")
        torch.cuda.set_device(device)
    _tell(s, place, device)
    return _work(s, place, device, work, "nccl" if gpus else "gloo")


def _work(s: Some, place: Place, device: Any, work: Work[Some], backend: str) -> int:
    """Meet the others, and do this rank's work. Errors of imgfeed name this rank, and torch's about another that one."""
    import imgfeed  # noqa: PLC0415 - as above
    import torch  # noqa: PLC0415 - as above

    notes = Notes(place, rendezvous(place, backend, s.rendezvous_timeout, s.collective_timeout))
    try:
        _settle(s, place, device)
        status = work(s, place, device, notes)
        if place.world > 1 and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        return status
    except (imgfeed.ImgfeedError, LookupError) as e:
        raise TrainError(f"rank {place.rank}: {e}") from e
    except ValueError as e:
        if "more than 1 value per channel" not in str(e):
            raise
        said = "a batch of one image has no statistics for batch norm: leave --no-drop-last out, or take another --batch-size"
        raise TrainError(f"rank {place.rank}: {said} ({e})") from e
    except RuntimeError as e:
        said = " ".join(str(e).split())
        if place.world == 1 or not any(sign in said.lower() for sign in (*LATE, *GONE)):
            raise
        raise LostRankError(f"rank {place.rank}: {_lost(s, said, notes.late())} ({said[:200]})") from e
    finally:
        notes.close()


def _lost(s: Settings, said: str, late: str) -> str:
    if any(sign in said.lower() for sign in LATE):
        return f"another rank kept it waiting for more than --collective-timeout {s.collective_timeout:g} s: {late}"
    return f"the connection to another rank is gone: {late}"


def _settle(s: Settings, place: Place, device: Any) -> None:
    """Set what holds for the whole process: determinism, precision of matrix products. Says what a CPU makes of a setting."""
    import torch  # noqa: PLC0415 - as above

    torch.use_deterministic_algorithms(s.deterministic)
    torch.backends.cudnn.benchmark = not s.deterministic
    torch.set_float32_matmul_precision("high")
    if device.type == "cpu" and place.rank == 0:
        if s.amp == "fp16":
            print("no GPU: --amp fp16 is computed as told, but many times slower than --amp bf16 or off", flush=True)
        if s.strategy == "dp":
            print("no GPU: --strategy dp has nothing to spread the batch over; this is the plain model", flush=True)


def _tell(s: Settings, place: Place, device: Any) -> None:
    """Print what the run stands on, once for each node, before anything can fail or wait."""
    if place.local_rank == 0:
        for line in surroundings(place, device_text(device), s.output):
            print(f"node of rank {place.rank}: {line}" if place.rank else line, flush=True)


def _gpus() -> int:
    import torch  # noqa: PLC0415 - as above

    return int(torch.cuda.device_count())
