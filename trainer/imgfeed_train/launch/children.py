"""The ranks of a node as children of one process, which torch's elastic launcher starts, watches and ends.

That is the part of torchrun that runs a node. Its agent above it is not used: after a signal it kills ranks within 30 seconds,
in which no evaluation ends, and it takes --stopped-status for a failure. So this process passes SIGTERM and Ctrl-C on and
waits, and a rank that stopped says so in its note and ends with 0. Where all ranks are on this node, they meet at a store of
this process, as under torchrun.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from ..errors import AgreedError, LostRankError, TrainError
from .notes import STOPPED, read_note
from .place import HOW, NOTES, PARENT, Place

PR_SET_PDEATHSIG = 1  # of prctl(2)


def spawn(place: Place, arguments: Sequence[str], stopped: int | None) -> int:
    """Run this node's ranks as children; return 0, or ``stopped`` where they were stopped before their end.

    ``stopped`` is None for work that has no such end. When a rank fails, the others are ended and waited for. Raises TrainError
    that names the rank, how it ended, and its error.
    """
    from torch.distributed.elastic import multiprocessing as elastic  # noqa: PLC0415 - slow, and only such a parent needs it

    told: list[int] = []
    with ExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):  # torch takes these
            stack.callback(signal.signal, number, signal.getsignal(number))
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable()  # the error below says what torch would log
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="imgfeed-train-"))
        store = None if place.port else _store(place.host)
        notes = [os.path.join(folder, f"note-{local}") for local in range(place.spawn)]
        port = store.port if store else place.port
        try:
            ranks = elastic.start_processes(
                "imgfeed-train",
                sys.executable,
                dict.fromkeys(range(place.spawn), ("-m", "imgfeed_train", *arguments)),
                {local: _environment(place, local, port, notes[local], store is not None) for local in range(place.spawn)},
                elastic.DefaultLogsSpecs(log_dir=folder),
            )
            stack.callback(ranks.close)

            def pass_on(number: int, frame: Any) -> None:
                told.append(number)
                for pid in ranks.pids().values():
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)

            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, pass_on)
            failures = list(ranks.wait(period=0.05).failures.values())
        except elastic.SignalException as e:  # while they start, or of a terminal that is gone: they end with this process
            if e.sigval != signal.SIGTERM or stopped is None:
                raise KeyboardInterrupt from None
            return stopped
        read = [read_note(note) for note in notes]
    if stopped is not None:  # SIGTERM ends a rank that has not begun to train
        early = signal.SIGTERM in told and any(failure.exitcode == -signal.SIGTERM for failure in failures)
        if early or (not failures and any(note.doing == STOPPED for note in read)):
            return stopped
    if not failures:
        return 0
    if failures[0].exitcode in (130, -signal.SIGINT):
        raise KeyboardInterrupt
    raise TrainError(_account(place.rank, failures, read))


def follow_parent(env: Mapping[str, str]) -> None:
    """Have this rank told to stop, as by SIGTERM, when the process is killed that started it as above."""
    if PARENT in env:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(env[PARENT]):
            raise TrainError("the process that started this rank has ended")


def _store(host: str) -> Any:
    """Return a store of torch's at any free port of an address of this machine."""
    from torch.distributed import TCPStore  # noqa: PLC0415 - as above

    listener = socket.create_server((host, 0))
    port = listener.getsockname()[1]
    return TCPStore(host, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())


def _environment(place: Place, local: int, port: int, note: str, agent_store: bool) -> dict[str, str]:
    """Return the variables of a rank: torchrun's, and those that make it a child of this process."""
    return {
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // place.spawn))),
        "RANK": str(place.rank + local),
        "WORLD_SIZE": str(place.world),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(place.spawn),
        "MASTER_ADDR": place.host,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": str(agent_store),
        HOW: place.how,
        NOTES: note,
        PARENT: str(os.getpid()),
    }


def _account(first_rank: int, failures: Sequence[Any], notes: Sequence[Any]) -> str:
    """Return the error of the rank that failed first, as torch lists them, but for those that were ended for it.

    What a rank tells of itself goes before what one tells of another: that may come sooner, and means the same.
    """
    kinds = [failure.error_file_data.get("kind", "") for failure in failures]
    texts = [failure.error_file_data["message"] for failure in failures]
    at = min(range(len(failures)), key=lambda i: (i > 0 and not kinds[i], kinds[i] == LostRankError.__name__, i))
    failure, text = failures[at], texts[at]
    rank = f"rank {first_rank + failure.local_rank}"
    if kinds[at]:
        common = kinds[at] == AgreedError.__name__ or all(other == text for other in texts)  # which is no one rank's
        return text if common or rank in text else f"{rank}: {text}"
    note = notes[failure.local_rank]
    if failure.exitcode < 0:
        name = failure.signal_name()
        memory = ", perhaps by the kernel, for memory (see dmesg)" if name == "SIGKILL" else ""
        return f"{rank} was killed by {name}{memory}; it last {note}"
    return f"{rank} ended with exit status {failure.exitcode}; it last {note}"
