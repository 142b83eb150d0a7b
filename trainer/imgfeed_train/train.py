"""``imgfeed-train``: from a command line to a trained model. Reads from top to bottom as a run goes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import launch, report
from .errors import TrainError
from .settings import Settings, parse


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, or compare runs. Exits with 1 where something outside the program is wrong, and says what."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if argv[:1] in (["compare"], ["report"]):
            report.main(argv)
            return
        s = parse(argv)
        status = start(s, argv)
    except TrainError as e:
        sys.exit(f"imgfeed-train: {e}")
    if status:
        sys.exit(status)


def start(s: Settings, argv: Sequence[str]) -> int:
    """Find out which rank this is; run it, or the ranks of this node. Return the exit status."""
    gpus = 0 if s.device == "cpu" else _gpus()
    if s.device == "cuda" and not gpus:
        raise TrainError("--device cuda, but torch finds no GPU")
    place = launch.discover(s, os.environ, gpus)
    if place.spawn:
        return launch.spawn(place, argv)
    import torch  # noqa: PLC0415 - slow: the parent of a node's ranks, --help and compare do without

    os.environ["LOCAL_WORLD_SIZE"] = str(place.local_world)  # imgfeed shares this node's CPUs by it
    device = torch.device("cuda", place.local_rank) if gpus else torch.device("cpu")
    if gpus:
        if place.local_rank >= gpus:
            raise TrainError(f"rank {place.rank} is the {place.local_rank + 1}th of this node, which has {gpus} GPUs")
        torch.cuda.set_device(device)
    launch.rendezvous(place, "nccl" if gpus else "gloo", s.rendezvous_timeout)
    try:
        return train(s, place, device)
    finally:
        if place.world > 1 and torch.distributed.is_initialized() and sys.exc_info()[0] is None:
            torch.distributed.destroy_process_group()


def _gpus() -> int:
    import torch  # noqa: PLC0415 - as above

    return int(torch.cuda.device_count())


def train(s: Settings, place: launch.Place, device: Any) -> int:
    """Run one rank's training; returns the exit status: 0, or --stopped-status where it stopped before its end."""
    import imgfeed  # noqa: PLC0415 - as torch
    import torch  # noqa: PLC0415

    from . import checkpoint, data  # noqa: PLC0415
    from .engine import Trainer  # noqa: PLC0415
    from .watch import Watch  # noqa: PLC0415

    if s.amp == "fp16" and device.type == "cpu":
        print("imgfeed-train: no GPU: --amp fp16 is off", flush=True)
        s.amp = "off"
    torch.use_deterministic_algorithms(s.deterministic)
    torch.backends.cudnn.benchmark = not s.deterministic
    torch.set_float32_matmul_precision("high")
    checkpoint.seed_all(s.seed)  # the same weights on all ranks
    watch = Watch(s, place.rank, device)
    try:
        found = data.splits(s.data)
        train_split, val_split = data.choose_splits(s, found)
        for line in data.describe(s, found, place, device):
            watch.say(line)
        feed, model, stats = _open(s, place, device, train_split)
        val = data.make_loader(
            s, val_split, place, device, batch_size=feed.batch_size, stats=stats, transform=data.eval_transform(s), exact=True
        )
        trainer = Trainer(s, place, device, model=model, feed=feed, val=val, watch=watch)
        checkpoint.seed_all(s.seed + place.rank)  # but mixed and dropped by each rank's own draws
        what = s.resume or ("auto" if place.attempt else None)
        if what:
            trainer.resume(what)
        signal.signal(signal.SIGTERM, lambda *_: setattr(trainer, "stopping", True))
        finished = trainer.run()
    except (imgfeed.ImgfeedError, LookupError) as e:
        raise TrainError(f"rank {place.rank}: {e}") from e
    finally:
        watch.close()
    if place.rank == 0 and finished:
        print(f"report: {report.write(Path(s.output))}", flush=True)
    return 0 if finished else s.stopped_status


def _open(s: Settings, place: launch.Place, device: Any, split: str) -> tuple[Any, Any, Any]:
    """Return the training feed, the distributed model, and what its images are normalised by."""
    import torch  # noqa: PLC0415

    from . import data, models, optim  # noqa: PLC0415

    probe = data.make_loader(s, split, place, device, batch_size=1, stats=None, transform="eval")
    classes = len(probe.dataset.classes)
    probe.close()
    model, stats = models.build(s, classes)
    if s.batch_size != "auto":
        size = int(s.batch_size)
    elif device.type != "cuda":
        raise TrainError("--batch-size auto measures a GPU's memory, and there is none: give a number")
    else:
        on_gpu = model.to(device)
        size = optim.largest_that_fits(lambda n: optim.fits_gpu(on_gpu, s, device, classes, n))
        smallest = torch.tensor(size, device=device)
        if place.world > 1:
            torch.distributed.all_reduce(smallest, torch.distributed.ReduceOp.MIN)
        size = int(smallest)
        if not size:
            raise TrainError("--batch-size auto: not even 8 images fit the GPU")
        if place.rank == 0:
            print(f"--batch-size auto: {size} images of {s.size} pixels a GPU", flush=True)
    model = models.distribute(model, s, place, device)
    return data.Feed(s, split, place, device, batch_size=size, stats=stats), model, stats
