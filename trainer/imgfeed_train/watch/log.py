"""Where a run tells what it does: standard output, the progress bar, log.jsonl, TensorBoard, Weights & Biases."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import platform
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import torch

from ..data.loaders import Feed, names
from ..data.sets import Splits
from ..errors import TrainError
from ..flags import file_text
from ..launch.agree import every_rank
from ..launch.place import Place
from ..settings import CONFIG, LOG, Settings
from ..step import Step


class Watch:
    """Writes what rank 0 knows; on other ranks it does nothing."""

    def __init__(self, s: Settings, place: Place, device: torch.device) -> None:
        """Open the outputs in the folder of the settings. All ranks call it, for rank 0 asks each for its machine."""
        self.on = place.rank == 0
        self._s, self._folder = s, Path(s.output)
        self._board: Any = None
        self._wandb: Any = None
        self._bar: Any = None
        here = {**machine(device), "node": place.rank - place.local_rank}  # the first rank there; two may be on one machine
        machines = every_rank(here, failing=lambda: self._open(s) if self.on else None)
        self.event("start", settings=s.saved(), machine=machines[0], machines=machines)

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

    def identify(self, run: str, resumed: str, checkpoints: str) -> str:
        """Note which run this is, and return its name on rank 0: that of the resumed checkpoint, or a new one.

        Raises TrainError where the folder has the log of another run, which would then hold lines of both. A run that has
        written no checkpoint may begin again where its were to be, and with --overwrite any.
        """
        name = run or secrets.token_hex(8)

        def check() -> None:
            last = _last_run(self._folder / LOG)
            mine = last.get("run") == run if resumed else last.get("checkpoints") == checkpoints or self._s.overwrite
            if last and not mine and (run or not resumed):
                what = f"{resumed} is not its checkpoint" if resumed else f"its checkpoints are in {last['checkpoints']}"
                raise TrainError(
                    f"--output {self._s.output} has the log of another run, and {what}: take another --output"
                    + ("" if resumed else ", or begin anew there by --overwrite")
                )

        every_rank(None, failing=lambda: check() if self.on else None)
        self.event("run", run=name, checkpoints=checkpoints)
        return name

    def plan(self, step: int, **values: Any) -> None:
        """Note what the settings came to, write the file that repeats the run, and open the other logs, at a step.

        All ranks call it: opening takes seconds, which are not to be the first epoch's.
        """
        self.event("plan", **values)
        if self.on:
            found = {"batch_size": values["batch_size"], "drop_last": values["drop_last"]}
            ranks = f"{values['world']} ranks" if values["world"] > 1 else "one rank"
            note = [f"imgfeed-train --config THIS_FILE --output ANOTHER_FOLDER repeats this run, of {ranks}."]
            (self._folder / CONFIG).write_text(file_text({**self._s.to_repeat(), **found}, note))
        every_rank(None, failing=lambda: self._open_others(step) if self.on else None)

    def _open_others(self, step: int) -> None:
        if self._s.wandb:
            self._wandb = _open_wandb(self._s)
        if self._s.tensorboard:
            self._board = self._open_board(step)

    def say(self, text: str) -> None:
        """Print a line, above the progress bar if there is one."""
        if self.on:
            self._bar.write(text) if self._bar is not None else print(text, flush=True)

    def event(self, kind: str, **values: Any) -> None:
        """Append a line to the log."""
        if self.on:
            row = _finite({"event": kind, "at": time.time(), **values})
            self._log.write(json.dumps(row, allow_nan=False) + "\n")

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Send values to TensorBoard and Weights & Biases, at an optimiser step."""
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)
        if self._wandb is not None:
            self._wandb.log({**values, "step": step})

    def _open_board(self, step: int) -> Any:
        """Open TensorBoard's log; of an interrupted run it hides what came after this step."""
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - optional
        except ImportError:
            self.say("tensorboard is not installed, so there will be no TensorBoard log: pip install tensorboard")
            return None
        return SummaryWriter(str(self._folder / "tensorboard"), purge_step=step + 1)

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


def _last_run(log: Path) -> dict[str, Any]:
    """Return the last line of a log that says which run it is of; {} without one."""
    last: dict[str, Any] = {}
    for line in log.read_text(errors="replace").splitlines():
        with contextlib.suppress(ValueError, RecursionError):  # a line of a process that was killed
            row = json.loads(line)
            if isinstance(row, dict) and row.get("event") == "run" and {"run", "checkpoints"} <= row.keys():
                last = row
    return last


def plan(feed: Feed, step: Step, sets: Splits, place: Place) -> dict[str, Any]:
    """Return the numbers that the settings leave open."""
    return {
        "world": place.world,
        "how": place.how,
        "batch_size": feed.batch_size,
        "drop_last": feed.drop_last,
        "batches": len(feed.loader),
        "epochs": step.s.epochs,
        "parameters": sum(p.numel() for p in step.model.parameters()),
        "classes": len(names(step.s, feed.loader.dataset)),
        "encoding": feed.loader.dataset.encoding,
        "train_samples": sets.samples[sets.train],
        "val_samples": sets.samples[sets.val] if sets.val else 0,
    }


def _finite(value: Any) -> Any:
    """Return a value that JSON has: null for a number that is none."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(v) for name, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, list | tuple) else value


def _open_wandb(s: Settings) -> Any:
    """Open Weights & Biases; a resumed run goes on under its identifier, which is kept in the output folder."""
    import wandb  # noqa: PLC0415 - optional

    kept = Path(s.output) / "wandb-id"
    run_id = kept.read_text().strip() if kept.exists() else secrets.token_hex(4)
    options = {"project": os.environ.get("WANDB_PROJECT", "imgfeed"), "name": Path(s.output).resolve().name}
    try:
        run = wandb.init(dir=s.output, config=s.saved(), id=run_id, resume="allow", **options)
    except wandb.Error as e:
        raise TrainError(
            f"--wandb: {e}; log in by `wandb login` or WANDB_API_KEY, or set WANDB_MODE=offline and `wandb sync` the run later"
        ) from e
    kept.write_text(run_id + "\n")
    run.define_metric("*", step_metric="step")  # not wandb's own count: a resumed run repeats steps
    return run


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
