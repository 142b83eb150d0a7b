"""``imgfeed-train``: which command it is, what it prints, and the status that it ends with."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from . import bench_settings, settings
from .errors import TrainError
from .launch import notes as noted
from .launch import place as places
from .launch.start import start
from .launch.surroundings import held_feed
from .report import page
from .settings import Settings

if TYPE_CHECKING:
    import torch

    from .watch.log import Watch


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, measure, or compare runs. Exits with 1 where something outside the program is wrong, and says what."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    status: int | str = 0
    try:
        status = run(argv)
    except TrainError as e:
        status = _told(e)
    except KeyboardInterrupt:
        status = 130
    if arguments is None:
        leave(status)
    if status:
        sys.exit(status)


def run(argv: Sequence[str]) -> int:
    """Run a command line; return the exit status. Raises TrainError."""
    if argv[:1] in (["compare"], ["report"]):
        page.main(argv)
        return 0
    if argv[:1] == ["prepare"]:
        from . import prepare  # noqa: PLC0415 - as bench: not everybody needs it

        prepare.main(argv[1:])
        return 0
    if argv[:1] == ["bench"]:
        measured = bench_settings.parse(argv[1:])
        from . import bench  # noqa: PLC0415 - needs torch

        with held_feed(measured.data):
            return start(measured, argv, bench.run)
    s = settings.parse(argv)
    other = _other(s)
    with held_feed(s.data):
        if other is not None:
            return start(s, argv, other)
        with _stopped_early(s.stopped_status):
            return start(s, argv, training, s.stopped_status)


@contextlib.contextmanager
def _stopped_early(status: int) -> Iterator[None]:
    """Have SIGTERM end the process with this status as long as there is nothing to save.

    A rank that has a parent dies of the signal, and the parent gives the status.
    """
    before = signal.getsignal(signal.SIGTERM)
    if places.HOW not in os.environ:
        signal.signal(signal.SIGTERM, lambda number, frame: leave(status))
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:  # a run that was stopped ignores what comes later
            signal.signal(signal.SIGTERM, before)


def _other(s: Settings) -> Any:
    """Return what is to be done instead of training, None if nothing is."""
    if s.dry_run:
        from . import dry_run  # noqa: PLC0415 - as bench

        return dry_run.run
    if s.evaluate:
        from . import score  # noqa: PLC0415 - as bench

        return score.run
    return None


def training(s: Settings, place: places.Place, device: torch.device, notes: noted.Notes) -> int:
    """Run one rank's training, in a log that says how it ended; return 0, or --stopped-status where it stopped before."""
    from .data import sets  # noqa: PLC0415 - as bench
    from .model import build  # noqa: PLC0415 - as bench
    from .train import train  # noqa: PLC0415 - as bench
    from .watch.log import Watch  # noqa: PLC0415 - as bench

    splits = sets.choose(s, place)  # slips in --data, --arch and --weights are told before the output has anything
    build.check(s)
    watch = Watch(s, place, device)
    ending = {"state": "failed"}
    try:
        finished = train(s, place, device, notes, watch, splits=splits)
        ending = {"state": "finished" if finished else "stopped"}
    except BaseException as e:
        ending["error"] = str(e) if isinstance(e, TrainError) else f"{type(e).__name__}: {e}"
        raise
    finally:
        _end(s, watch, ending)
    if ending["state"] == "finished":
        return 0
    notes.doing(noted.STOPPED)
    return 0 if place.notes else s.stopped_status  # which the parent gives, when all ranks have ended


def _end(s: Settings, watch: Watch, ending: dict[str, str]) -> None:
    """Close the log, and write rank 0's report of what was reached, however the run has ended."""
    watch.event("end", **ending)
    watch.close(0 if ending["state"] != "failed" else 1)
    if watch.on:
        with contextlib.suppress(page.NothingLoggedError):
            print(f"report: {page.write(Path(s.output))}", flush=True)


def _told(e: TrainError) -> int | str:
    """Return the status for an error: its text, or 1 where the parent of this rank tells it for all."""
    return 1 if noted.leave_error(e, os.environ) else f"imgfeed-train: {e}"


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
