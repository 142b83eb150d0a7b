"""``imgfeed-train``: from a command line to a trained model. Reads from top to bottom as a run goes."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from . import launch, report, startup
from .errors import TrainError
from .prepare import main as prepare_data
from .recipes import rate_note
from .settings import Settings, parse


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, measure, or compare runs. Exits with 1 where something outside the program is wrong, and says what."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    status: int | str = 0
    try:
        if argv[:1] in (["compare"], ["report"]):
            report.main(argv)
            return
        if argv[:1] == ["prepare"]:
            prepare_data(argv[1:])
            return
        if argv[:1] == ["bench"]:
            from . import bench  # noqa: PLC0415 - needs torch

            settings, work = bench.parse(argv[1:]), bench.run
        else:
            settings, work = parse(argv), train
        with startup.held_feed(settings.data):
            status = start(settings, argv, work)
    except TrainError as e:
        status = f"imgfeed-train: {e}"
    except KeyboardInterrupt:
        status = 130
    if arguments is None:
        leave(status)
    if status:
        sys.exit(status)


def leave(status: int | str) -> NoReturn:
    """End the process with a status, or with 1 and a text on standard error. What atexit knows is done.

    It ends with that also if a launcher repeats the Ctrl-C that stopped the run. The interpreter is not taken down: DDP keeps
    the threads of gloo, and one that lets go of its last tensor meanwhile would abort ("terminate called without an active
    exception").
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def start(s: Settings, argv: Sequence[str], work: Callable[[Settings, launch.Place, Any], int]) -> int:
    """Find out which rank this is; do its work, or start the ranks of this node. Return the exit status."""
    gpus = 0 if s.device == "cpu" else _gpus()
    if s.device == "cuda" and not gpus:
        raise TrainError("--device cuda, but torch finds no GPU")
    place = launch.discover(s, os.environ, gpus)
    if place.spawn:
        return launch.spawn(place, argv, getattr(s, "stopped_status", 0))
    import torch  # noqa: PLC0415 - slow: the parent of a node's ranks, --help and compare do without

    os.environ["LOCAL_WORLD_SIZE"] = str(place.local_world)  # imgfeed shares this node's CPUs by it
    device = torch.device("cuda", place.local_rank) if gpus else torch.device("cpu")
    if gpus:
        if place.local_rank >= gpus:
            raise TrainError(f"rank {place.rank} is the {place.local_rank + 1}th of this node, which has {gpus} GPUs")
        torch.cuda.set_device(device)
    _tell(s, place, device)
    launch.rendezvous(place, "nccl" if gpus else "gloo", s.rendezvous_timeout)
    try:
        return work(s, place, device)
    finally:
        if place.world > 1 and torch.distributed.is_initialized() and sys.exc_info()[0] is None:
            torch.distributed.destroy_process_group()


def _tell(s: Settings, place: launch.Place, device: Any) -> None:
    """Print what the run stands on, once for each node, before anything can fail or wait."""
    from . import data  # noqa: PLC0415 - as torch

    if place.local_rank == 0:
        for line in startup.surroundings(place, data.device_text(device), s.output):
            print(f"node of rank {place.rank}: {line}" if place.rank else line, flush=True)


def _gpus() -> int:
    import torch  # noqa: PLC0415 - as above

    return int(torch.cuda.device_count())


def train(s: Settings, place: launch.Place, device: Any) -> int:
    """Run one rank's training; returns the exit status: 0, or --stopped-status where it stopped before its end."""
    import imgfeed  # noqa: PLC0415 - as torch

    from . import checkpoint, data  # noqa: PLC0415
    from .engine import Trainer  # noqa: PLC0415
    from .watch import Watch, every_rank  # noqa: PLC0415

    prepare(s, place, device)
    checkpoint.seed_all(s.seed)  # the same weights on all ranks
    watch = Watch(s, place.rank, device)
    trainer: Trainer | None = None
    ending = {"state": "failed"}
    try:
        every_rank(None, failing=lambda: checkpoint.try_folder(s) if place.rank == 0 else None)
        found = data.splits(s.data)
        train_split, val_split = data.choose_splits(s, found)
        watch.say(startup.data_line(s.data, found))
        what = s.resume or ("auto" if place.attempt else None)
        path, state = checkpoint.find(s, what) if what else ("", None)
        feed, model, stats = open_feed(s, place, device, train_split, state["batch_size"] if state else None)
        val = data.make_loader(
            s,
            val_split,
            place,
            device,
            batch_size=feed.batch_size,
            stats=stats,
            transform=data.eval_transform(s),
            even_batches=False,
        )
        trainer = Trainer(s, place, device, model=model, feed=feed, val=val, watch=watch)
        checkpoint.seed_all(s.seed + place.rank)  # but mixed and dropped by each rank's own draws
        watch.event("plan", **trainer.plan(), train_samples=found[train_split], val_samples=found[val_split])
        if state:
            trainer.resume(state, path)
        images = feed.batch_size * place.world * s.accumulate
        if note := rate_note(s.recipe, s.lr, images):
            watch.say(note)
        finished = trainer.run()
        if trainer.saver.busy:
            watch.say(f"waiting for the last checkpoints to reach {checkpoint.folder(s)}")
        trainer.saver.wait()
        ending = {"state": "finished" if finished else "stopped"}
    except (imgfeed.ImgfeedError, LookupError) as e:
        ending["error"] = str(e)
        raise TrainError(f"rank {place.rank}: {e}") from e
    except BaseException as e:
        ending["error"] = f"{type(e).__name__}: {e}"
        raise
    finally:
        watch.event("end", **ending)
        watch.close(0 if ending["state"] != "failed" else 1)
        if trainer is not None:
            if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
                with contextlib.suppress(TrainError):
                    trainer.saver.wait()  # what failed elsewhere may still have a checkpoint under way
            trainer.lines.close()
            _report(s, place)
    return 0 if ending["state"] == "finished" else int(s.stopped_status)


def _report(s: Settings, place: launch.Place) -> None:
    """Write rank 0's report of what was reached, however the run has ended."""
    if place.rank == 0:
        with contextlib.suppress(report.NothingLoggedError):
            print(f"report: {report.write(Path(s.output))}", flush=True)


def prepare(s: Settings, place: launch.Place, device: Any) -> None:
    """Set what holds for the whole process: determinism, precision of matrix products. Says what a CPU makes of a setting."""
    import torch  # noqa: PLC0415

    torch.use_deterministic_algorithms(s.deterministic)
    torch.backends.cudnn.benchmark = not s.deterministic
    torch.set_float32_matmul_precision("high")
    if device.type == "cpu" and place.rank == 0:
        if s.amp == "fp16":
            print("no GPU: --amp fp16 is computed as told, but many times slower than --amp bf16 or off", flush=True)
        if s.strategy == "dp":
            print("no GPU: --strategy dp has nothing to spread the batch over; this is the plain model", flush=True)


def open_feed(s: Settings, place: launch.Place, device: Any, split: str, found: int | None) -> tuple[Any, Any, Any]:
    """Return the training feed, the distributed model, and what its images are normalised by.

    found is the batch size of the run that is resumed; ``auto`` takes it and does not search again.
    """
    from . import data, fit, models  # noqa: PLC0415

    probe = data.make_loader(s, split, place, device, batch_size=1, stats=None, transform="eval")
    classes = len(probe.dataset.classes)
    model, stats = models.build(s, classes, place)
    size = found if s.batch_size == "auto" else int(s.batch_size)
    if size is None:
        size = fit.batch_size(model.to(device), s, place, device, classes)
    model = models.distribute(model, s, place, device)
    feed = data.Feed(s, split, place, device, batch_size=size, stats=stats)
    probe.close()
    return feed, model, stats
