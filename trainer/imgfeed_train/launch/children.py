"""The ranks of a node as children of one process: all started, all told to stop, all waited for, and one error for them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import TrainError
from .notes import read_child
from .place import HOW, LISTENER, NOTES, Place

NOTICING_SECONDS = 8.0  # in which the other ranks may find out that one has failed, and end by themselves
ENDING_SECONDS = 20.0  # for them, once they were told to end


@dataclass
class Child:
    """A rank's process, the memory of its notes, when it was found to have ended (from 1), and whether it was told to."""

    rank: int
    process: subprocess.Popen[bytes]
    notes: int
    ended: int = 0
    told: bool = False


def spawn(place: Place, arguments: Sequence[str], stopped: int = 0) -> int:
    """Run this node's ranks as children; return 0, or ``stopped`` where all have ended and some with that status.

    When one fails, the others are ended and waited for. Raises TrainError that names the rank, how it ended, and its error.
    """
    children: list[Child] = []

    def stop(number: int, frame: Any) -> None:
        for child in children:
            if child.process.poll() is None:
                child.process.send_signal(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        # A port that is chosen here stays bound until rank 0 has it: it needs seconds to start, in which others ask for ports.
        with socket.socket() as held:
            if not place.port:
                held.bind((place.host, 0))
                place = replace(place, port=held.getsockname()[1], listener=held.fileno())
            for local in range(place.spawn):
                children.append(_start(place, local, arguments))
        if _ended(children, stopped, None):
            return max(child.process.returncode for child in children)
        _end(children, stop)
        if all(child.process.returncode in (130, -signal.SIGINT) for child in children):
            raise KeyboardInterrupt
    finally:
        stop(signal.SIGTERM, None)
        for number, handler in before.items():
            signal.signal(number, handler)
    raise TrainError(_account(children, stopped))


def _start(place: Place, local: int, arguments: Sequence[str]) -> Child:
    rank = place.rank + local
    notes = os.memfd_create(f"imgfeed-train-rank-{rank}")
    env = {
        **{"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // place.spawn))},
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(place.world),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(place.spawn),
        "MASTER_ADDR": place.host,
        "MASTER_PORT": str(place.port),
        HOW: place.how,
        NOTES: str(notes),
    }
    passed = [notes]
    if place.listener >= 0 and local == 0:
        passed.append(place.listener)
        env[LISTENER] = str(place.listener)
    command = [sys.executable, "-m", "imgfeed_train", *arguments]
    return Child(rank, subprocess.Popen(command, env=env, pass_fds=tuple(passed)), notes)


def _ended(children: list[Child], stopped: int, seconds: float | None) -> bool:
    """Wait until all have ended, and return True; False as soon as one has failed, or after so many seconds."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        _mark(children)
        states = [child.process.poll() for child in children]
        if deadline is None and any(state not in (None, 0, stopped) for state in states):
            return False
        if None not in states:
            return True
        if deadline is not None and time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def _mark(children: list[Child]) -> None:
    """Number those that have ended since the last look."""
    count = max(child.ended for child in children)
    for child in children:
        if not child.ended and child.process.poll() is not None:
            child.ended = count + 1


def _end(children: list[Child], stop: Any) -> None:
    """End those that do not end by themselves, by force where asking does not do, and wait for them."""
    if _ended(children, 0, NOTICING_SECONDS):
        return
    for child in children:
        child.told = not child.ended
    stop(signal.SIGTERM, None)
    if not _ended(children, 0, ENDING_SECONDS):
        stop(signal.SIGKILL, None)
        _ended(children, 0, ENDING_SECONDS)


def _account(children: list[Child], stopped: int) -> str:
    """Return the error of the rank that failed first, but for those that were ended for it.

    What a rank tells of itself goes before what one tells of another: that may come sooner, and means the same.
    """
    told = {child.rank: read_child(child.notes) for child in children}
    failed = [child for child in children if child.process.returncode not in (0, stopped)]
    first = min(failed, key=lambda child: (child.told and not told[child.rank][1], told[child.rank][2], child.ended))
    note, error, _ = told[first.rank]
    status = first.process.returncode
    if error:
        common = all(told[child.rank][1] == error for child in failed)  # what all agreed on is no one rank's
        return error if common or f"rank {first.rank}" in error else f"rank {first.rank}: {error}"
    if status < 0:
        name = signal.Signals(-status).name
        memory = ", perhaps by the kernel, for memory (see dmesg)" if name == "SIGKILL" else ""
        return f"rank {first.rank} was killed by {name}{memory}; it last {note}"
    return f"rank {first.rank} ended with exit status {status}; it last {note}"
