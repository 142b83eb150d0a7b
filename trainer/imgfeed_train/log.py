"""The log of a run: lines, log.jsonl, TensorBoard, Weights & Biases. Each rank gives its part; rank 0 writes."""

import contextlib
import fcntl
import json
import os
import platform
import resource
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from . import files
from .checkpoint import Progress
from .errors import TrainError
from .evaluate import Score, score_of
from .flags import Settings, write_recipe
from .ranks import Rank, gather, on_first
from .report import events
from .step import Step

WAITING = 0.05  # share of the time; lines above it say why the ranks waited for data


def hardware(device: torch.device) -> dict[str, float]:
    """Return a GPU's utilisation in percent, by NVML over the last second or less, and the peaks of memory in MB."""
    found = {"host_memory_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    if device.type == "cuda":
        found["gpu_memory_peak_mb"] = torch.cuda.max_memory_allocated(device) / 2**20
        with contextlib.suppress(Exception):  # nvidia-ml-py is optional, and NVML's errors have no base in common
            found["gpu_utilisation_percent"] = float(torch.cuda.utilization(device))
    return found


class Log:
    """The log of a run. Each rank has one."""

    def __init__(self, s: Settings, rank: Rank) -> None:
        """Open log.jsonl, and hold its lock. Raises TrainError where another run has it."""
        self._s, self._rank, self._folder = s, rank, Path(s.output)
        self._board: Any = None
        self._wandb: Any = None
        on_first(rank, self._open)

    def _open(self, content: str | None = None) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if content is not None:
                files.write(self._folder / "log.jsonl", content)
            self._file = (self._folder / "log.jsonl").open("a", buffering=1)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until this process ends, however it does
        except BlockingIOError as e:
            raise TrainError(f"--output {self._s.output}: another run writes there; wait for it, or take another folder") from e
        except OSError as e:
            raise TrainError(f"--output {self._s.output} can't be written: {e.strerror}") from e

    def begin(self, at: Progress, resumed: str, **plan: Any) -> None:
        """Begin the log of this start, at a checkpoint's progress. A resumed run continues its log, without lines behind it.

        Raises TrainError where the folder has the log of another run.
        """
        gpu = torch.cuda.get_device_name(self._rank.device) if self._rank.device.type == "cuda" else "none"
        cpus = str(len(os.sched_getaffinity(0)))
        machines = gather({"host": platform.node(), "cpus": cpus, "gpu": gpu, "torch": torch.__version__})
        on_first(self._rank, lambda: self._begin(at, resumed, machines=machines, **plan))

    def _begin(self, at: Progress, resumed: str, **plan: Any) -> None:
        rows, s = events(self._folder / "log.jsonl"), self._s
        own = any(row.get("run") == at.run for row in rows)
        if not own and any(row["event"] == "saved" for row in rows):
            what = f"{resumed} is not its checkpoint" if resumed else "its checkpoints are not where this run looks for them"
            raise TrainError(f"--output {s.output} has the log of another run, and {what}: take another --output")
        kept = []
        for row in rows if own else []:
            again = row["event"] == "epoch" and row["epoch"] >= at.scored
            reached = row.get("epoch", 0), row.get("step", 0), row.get("batch", 0)
            if not again and reached <= (at.epoch, at.steps, at.batches):
                kept.append(json.dumps(row) + "\n")
        self._replaced = self._file  # with its lock: another process may have opened it already
        self._open("".join(kept))
        if s.wandb:
            self._wandb = _open_wandb(s, at.run)
        with contextlib.suppress(ImportError):
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - optional

            self._board = SummaryWriter(str(self._folder / "tensorboard"), purge_step=at.steps + 1)
        self.event("start", run=at.run, settings=asdict(s), resumed=resumed, wandb=getattr(self._wandb, "url", None), **plan)
        write_recipe(self._folder / "run.yaml", s, batch_size=(plan["batch_size"], *s.batch_size[1:]))

    def event(self, kind: str, **values: Any) -> None:
        """Append a line to log.jsonl."""
        if self._rank.rank == 0:
            row = json.dumps({"event": kind, "at": time.time(), **values})  # NaN becomes null
            with self._full_disk():
                self._file.write(json.dumps(json.loads(row, parse_constant=lambda _: None)) + "\n")

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Send values to TensorBoard and Weights & Biases."""
        with self._full_disk():
            for name, value in values.items() if self._board else ():
                self._board.add_scalar(name, value, step)
        if self._wandb:
            self._wandb.log({**values, "step": step})

    def begin_epoch(self, loader: Any, step: Step, at: Progress) -> None:
        """Begin the lines of an epoch."""
        self._loader, self._step, self._batches = loader, step, len(loader)
        self._before, self._start, self._line = at.seconds, time.perf_counter(), time.perf_counter()
        self._waited, self._done, self._times = 0.0, 0, [0.0, 0.0, 0.0]  # seconds, seconds without data, batches

    def waiting(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield batches, and note how long each was waited for."""
        mark = time.perf_counter()
        for batch in batches:
            self._waited += time.perf_counter() - mark
            yield batch
            mark = time.perf_counter()

    def batch(self, at: Progress, due: bool) -> bool:
        """Note the end of a batch, and write a line if one is due; return whether it did. All ranks call it."""
        self._done += 1
        at.seconds = self._before + time.perf_counter() - self._start
        due = due or at.batches % self._s.log_every == 0 or at.batches == self._batches
        if due:
            self._write(at)
        return due

    def _write(self, at: Progress) -> None:
        has = hardware(self._rank.device)  # before anything waits for the GPU
        sums = self._step.sums.clone()
        if dist.is_initialized():
            dist.all_reduce(sums)
        self._step.sums.zero_()
        at.sums = [before + value for before, value in zip(at.sums, sums.tolist(), strict=True)]
        score, whole = score_of(sums.tolist()), score_of(at.sums)
        now = time.perf_counter()
        seconds, done, waited = now - self._line, self._done, self._waited
        self._line, self._done, self._waited = now, 0, 0.0
        self._times = [before + value for before, value in zip(self._times, (seconds, waited, done), strict=True)]
        said = str(self._loader.stats().get("verdict", ""))  # the server's sentence, whatever it is
        each = gather({"wait": min(1.0, waited / seconds), "said": said, "hardware": has})
        worst = max(range(len(each)), key=lambda i: each[i]["wait"])
        waits, wait = [one["wait"] for one in each], each[worst]["wait"]
        said = each[worst]["said"] if wait > WAITING else ""
        mark = "(mixed)" if self._step.mix is not None else ""  # lower than the model deserves
        shown = [
            f"Epoch: [{at.epoch}][{at.batches:{len(str(self._batches))}d}/{self._batches}]",
            f"Time {seconds / done:6.3f} ({self._times[0] / self._times[2]:6.3f})",
            f"Data {waited / done:6.3f} ({self._times[1] / self._times[2]:6.3f})",
            f"Loss {score.loss:.4e} ({whole.loss:.4e})",
            f"Acc@1{mark} {score.acc1:6.2f} ({whole.acc1:6.2f})",
            f"Acc@5{mark} {score.acc5:6.2f} ({whole.acc5:6.2f})",
        ]
        if said:
            shown.append(f"{f'rank {worst} ' if len(each) > 1 else ''}waited for data {wait:.0%} of the time: {said}")
        self._rank.say("\t".join(shown))
        values = {"loss": score.loss, "acc1": score.acc1, "acc5": score.acc5, "lr": self._step.schedule.rate}
        progress = {"epoch": at.epoch, "batch": at.batches, "batches": self._batches, "step": at.steps, "seconds": seconds}
        more = {"samples": score.samples, "images_per_second": score.samples / seconds, "wait": waits, "feed": said}
        self.event("step", **progress, **values, **more, hardware=[one["hardware"] for one in each])
        names = ("Loss/train", "Accuracy/train", "Accuracy5/train", "lr", "images_per_second", "wait")
        board = zip(names, (*values.values(), score.samples / seconds, wait), strict=True)
        self.scalars(at.steps, dict(board) | each[0]["hardware"])

    def end_training(self, at: Progress) -> None:
        """Write the line of an epoch's training."""
        score = score_of(at.sums)
        rate = score.samples / max(1e-9, at.seconds)
        self._rank.say(f" * Train {score} ({score.samples:,} images, {rate:,.0f}/s)")
        self.event("trained", epoch=at.epoch, step=at.steps, seconds=at.seconds, images_per_second=rate, **asdict(score))

    def end_epoch(self, at: Progress, score: Score | None, seconds: float, best: bool) -> None:
        """Write the line of an epoch's evaluation, which follows the epoch."""
        values = asdict(score) if score else {}
        self.event("epoch", epoch=at.epoch - 1, step=at.steps, best=best, eval_seconds=seconds, **values)
        if score:
            self._rank.say(f" * Val {score} ({score.samples:,} images, {seconds:.1f} s{', the best so far' if best else ''})")
            board = {"Loss/Val": score.loss, "Accuracy/Val": score.acc1, "Accuracy5/Val": score.acc5}
            self.scalars(at.steps, board)

    def close(self, **ending: Any) -> None:
        """Write how the run ended, and close all."""
        if self._rank.rank:
            return
        self.event("end", **ending)
        with self._full_disk():
            self._file.close()
        if self._board:
            with self._full_disk():
                self._board.close()
        if self._wandb:
            self._wandb.finish(exit_code=int(ending["state"] == "failed"))

    @contextlib.contextmanager
    def _full_disk(self) -> Iterator[None]:
        """Go on without a line that the disk does not take, and say so."""
        try:
            yield
        except OSError as e:
            print(f"imgfeed-train: the log in {self._folder} can't be written: {e.strerror}", flush=True)


def _open_wandb(s: Settings, run_id: str) -> Any:
    """Open Weights & Biases; a resumed run continues under its identifier, which its checkpoints hold."""
    import wandb  # noqa: PLC0415 - optional

    names = {"project": os.environ.get("WANDB_PROJECT", "imgfeed"), "name": Path(s.output).resolve().name}
    try:
        run = wandb.init(dir=s.output, config=asdict(s), id=run_id, resume="allow", **names)
    except wandb.Error as e:
        raise TrainError(f"--wandb: {e}; `wandb login`, or set WANDB_MODE=offline and `wandb sync` the run later") from e
    run.define_metric("*", step_metric="step")  # a resumed run repeats wandb's own count
    return run
