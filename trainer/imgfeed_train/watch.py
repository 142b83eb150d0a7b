"""What a run tells: the classic line, log.jsonl, TensorBoard, Weights & Biases; and who waits for whom.

nvidia-smi's utilisation reaches 100 % at a fifth of the power while a rank waits for another, so the fraction of time that
each rank waits for data is measured, and the rank that holds the others up is named.
"""

from __future__ import annotations

import contextlib
import json
import platform
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .errors import TrainError
from .settings import Settings

STRAGGLER_MARGIN = 0.05  # a rank that waits so much more of the time than the median rank is named


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


def straggler(waits: list[float]) -> int | None:
    """Return the rank that waits for data much more than the median rank, None if none does. waits are fractions of time."""
    if len(waits) < 2:
        return None
    worst = max(range(len(waits)), key=waits.__getitem__)
    others = sorted(waits[:worst] + waits[worst + 1 :])
    return worst if waits[worst] - others[len(others) // 2] > STRAGGLER_MARGIN else None


class Watch:
    """Writes what rank 0 knows; on other ranks it does nothing."""

    def __init__(self, s: Settings, rank: int, device: torch.device) -> None:
        """Open the outputs in the folder of the settings."""
        self.on = rank == 0
        self._device = device
        self._board: Any = None
        self._wandb: Any = None
        self._bar: Any = None
        if not self.on:
            return
        folder = Path(s.output)
        folder.mkdir(parents=True, exist_ok=True)
        self._log = (folder / "log.jsonl").open("a", buffering=1)
        if s.tensorboard:
            self._board = self._open_board(folder)
        if s.wandb:
            self._wandb = _open_wandb(s)
        self.event("start", settings=vars(s), machine=machine(device))

    def _open_board(self, folder: Path) -> Any:
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - optional
        except ImportError:
            self.say("tensorboard is not installed, so there will be no TensorBoard log: pip install tensorboard")
            return None
        return SummaryWriter(str(folder / "tensorboard"))

    def say(self, text: str) -> None:
        """Print a line, above the progress bar if there is one."""
        if self.on:
            self._bar.write(text) if self._bar is not None else print(text, flush=True)

    def event(self, kind: str, **values: Any) -> None:
        """Append a line to log.jsonl."""
        if self.on:
            self._log.write(json.dumps({"event": kind, "at": time.time(), **values}) + "\n")

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Send values to TensorBoard and Weights & Biases."""
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)
        if self._wandb is not None:
            self._wandb.log(values, step=step)

    def begin_epoch(self, epoch: int, done: int, batches: int) -> None:
        """Show a progress bar, where standard error is a terminal."""
        if self.on and sys.stderr.isatty():
            with contextlib.suppress(ImportError):
                from tqdm import tqdm  # noqa: PLC0415 - optional

                self._bar = tqdm(total=batches, initial=done, desc=f"epoch {epoch}", leave=False)

    def batch(self) -> None:
        """Move the progress bar on."""
        if self._bar is not None:
            self._bar.update()

    def end_epoch(self) -> None:
        """Remove the progress bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def hardware(self) -> dict[str, float]:
        """Return memory, and on a GPU its utilisation in percent and power in watts, of rank 0's device."""
        if self._device.type != "cuda":
            return {"memory/rss_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
        values = {"memory/gpu_peak_mb": torch.cuda.max_memory_allocated(self._device) / 2**20}
        query = ["nvidia-smi", f"--id={self._device.index or 0}", "--query-gpu=utilization.gpu,power.draw"]
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            text = subprocess.check_output([*query, "--format=csv,noheader,nounits"], text=True, timeout=5)
            values["gpu/utilisation"], values["gpu/power_w"] = (float(v) for v in text.splitlines()[0].split(","))
        return values

    def close(self) -> None:
        """Close the outputs."""
        self.end_epoch()
        if self._board is not None:
            self._board.close()
        if self._wandb is not None:
            self._wandb.finish()
        if self.on:
            self._log.close()


def _open_wandb(s: Settings) -> Any:
    try:
        import wandb  # noqa: PLC0415 - optional
    except ImportError as e:
        raise TrainError("--wandb, but wandb is not installed: pip install wandb") from e
    return wandb.init(project="imgfeed", dir=s.output, config=vars(s), name=Path(s.output).name)


def machine(device: torch.device) -> dict[str, str]:
    """Return what the run stands on: processor, GPU, versions."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    return {
        "host": platform.node(),
        "cpu": model,
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else "none",
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
