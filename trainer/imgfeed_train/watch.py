"""Where a run tells what it does: the classic line, the progress bar, log.jsonl, TensorBoard, Weights & Biases."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .errors import TrainError
from .settings import LOG, Settings


@dataclass
class Running:
    """The last value and the mean, in the form of torch's ImageNet example."""

    name: str
    form: str
    last: float = 0.0
    total: float = 0.0
    count: float = 0.0

    def add(self, mean: float, count: float = 1) -> None:
        """Take the mean of count values."""
        self.last, self.total, self.count = mean, self.total + mean * count, self.count + count

    def __str__(self) -> str:
        mean = self.total / self.count if self.count else 0.0
        return f"{self.name} {self.last:{self.form}} ({mean:{self.form}})"


class Meters:
    """The running values of one epoch."""

    def __init__(self) -> None:
        self.time = Running("Time", "6.3f")
        self.data = Running("Data", "6.3f")
        self.loss = Running("Loss", ".4e")
        self.acc1 = Running("Acc@1", "6.2f")
        self.acc5 = Running("Acc@5", "6.2f")

    def line(self, epoch: int, batch: int, batches: int) -> str:
        """Return ``Epoch: [1][ 100/2503]`` and the values, tab-separated."""
        place = f"[{batch:{len(str(batches))}d}/{batches}]"
        return "\t".join([f"Epoch: [{epoch}]{place}", *map(str, (self.time, self.data, self.loss, self.acc1, self.acc5))])


class Watch:
    """Writes what rank 0 knows; on other ranks it does nothing."""

    def __init__(self, s: Settings, rank: int, device: torch.device) -> None:
        """Open the outputs in the folder of the settings. All ranks call it, for rank 0 asks each for its machine."""
        self.on = rank == 0
        self._folder = Path(s.output)
        self._board: Any = None
        self._wandb: Any = None
        self._bar: Any = None
        self._tensorboard = s.tensorboard
        machines = every_rank(machine(device), failing=lambda: self._open(s) if self.on else None)
        self.event("start", settings=vars(s), machine=machines[0], machines=machines)

    def _open(self, s: Settings) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._log = (self._folder / LOG).open("a", buffering=1)
            fcntl.flock(self._log, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until this process ends, however it does
        except BlockingIOError as e:
            raise TrainError(
                f"--output {s.output}: another run is writing there; wait for its end or take another folder"
            ) from e
        except OSError as e:
            raise TrainError(f"--output {s.output} can't be written: {e}") from e
        if s.wandb:
            self._wandb = _open_wandb(s)

    def say(self, text: str) -> None:
        """Print a line, above the progress bar if there is one."""
        if self.on:
            self._bar.write(text) if self._bar is not None else print(text, flush=True)

    def event(self, kind: str, **values: Any) -> None:
        """Append a line to the log."""
        if self.on:
            self._log.write(json.dumps({"event": kind, "at": time.time(), **values}) + "\n")

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Send values to TensorBoard and Weights & Biases, at an optimiser step."""
        if self.on and self._tensorboard and self._board is None:
            self._board = self._open_board(step)
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)
        if self._wandb is not None:
            self._wandb.log({**values, "step": step})

    def _open_board(self, step: int) -> Any:
        """Open TensorBoard's log; of an interrupted run it hides what came at this step and behind it."""
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - optional
        except ImportError:
            self._tensorboard = False
            self.say("tensorboard is not installed, so there will be no TensorBoard log: pip install tensorboard")
            return None
        return SummaryWriter(str(self._folder / "tensorboard"), purge_step=step)

    def begin_epoch(self, epoch: int, done: int, batches: int) -> None:
        """Show a progress bar, where standard error is a terminal."""
        if self.on and sys.stderr.isatty():
            with contextlib.suppress(ImportError):
                from tqdm import tqdm  # noqa: PLC0415 - optional

                self._bar = tqdm(
                    total=batches, initial=done, desc=f"epoch {epoch}", unit="batch", leave=False, dynamic_ncols=True
                )

    def batch(self) -> None:
        """Move the progress bar on."""
        if self._bar is not None:
            self._bar.update()

    def end_epoch(self) -> None:
        """Remove the progress bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def close(self, status: int = 0) -> None:
        """Close the outputs. status is what the run ends with: 0 for a good end."""
        self.end_epoch()
        if self._board is not None:
            self._board.close()
        if self._wandb is not None:
            self._wandb.finish(exit_code=status)
        if self.on:
            self._log.close()


def _open_wandb(s: Settings) -> Any:
    """Open Weights & Biases; a resumed run goes on under its identifier, which is kept in the output folder."""
    import wandb  # noqa: PLC0415 - optional

    kept = Path(s.output) / "wandb-id"
    run_id = kept.read_text().strip() if kept.exists() else secrets.token_hex(4)
    options = {"project": os.environ.get("WANDB_PROJECT", "imgfeed"), "name": Path(s.output).resolve().name}
    try:
        run = wandb.init(dir=s.output, config=vars(s), id=run_id, resume="allow", **options)
    except wandb.Error as e:
        raise TrainError(
            f"--wandb: {e}; log in by `wandb login` or WANDB_API_KEY, or set WANDB_MODE=offline and `wandb sync` the run later"
        ) from e
    kept.write_text(run_id + "\n")
    run.define_metric("*", step_metric="step")  # not wandb's own count: a resumed run repeats steps
    return run


def every_rank(mine: Any, failing: Callable[[], None] | None = None) -> list[Any]:
    """Return what each rank gives, by rank. All ranks call it.

    ``failing`` is tried first; if it raises TrainError on any rank, all raise it, so that none waits for one that is gone.
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
            raise TrainError(said)
    return [value for value, _ in given]


def machine(device: torch.device) -> dict[str, str]:
    """Return what a rank stands on: processor, GPU, versions."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    return {
        "host": platform.node(),
        "cpu": f"{model}, {len(os.sched_getaffinity(0))} of its threads for us",
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else "none",
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
