"""A stop while the ranks stand still: some wait for a feed that is lost, and the others, in a collective, for them.

    rank 0   has batch 42, and waits in the reduction of its gradients        no Python runs there: a thread looks after it
    rank 1   waits for batch 42, and is told to stop                          says so in the store, and goes no further

Nothing that all ranks must take part in ends without rank 1, so the last whole step is the same on all, that of batch 41, and
weights are what it left. Each rank's thread leaves its part of the checkpoint in the store, and rank 0's writes the whole.
Whoever waited for a feed ends then; that ends its connections, and so the collectives of whoever waited for it.

A rank that stands in a collective handles a signal when that ends, but the system writes it to a pipe, which the thread reads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ..errors import TrainError
from .place import Place
from .stop import Stop

LOOK_SECONDS = 0.5  # between two looks into the store
PARTS_SECONDS = 120.0  # in which each rank comes to the last whole step: none lacks more of it than computing
LEAVING_SECONDS = 5.0  # for which rank 0, which may hold the store, lets the others see what became of the checkpoint
PIECE_BYTES = 4 << 20  # of a part, in the store; torch's takes up to 8 MiB at a time
ASKED, AT, SAVED = "standstill/asked", "standstill/at", "standstill/saved"


class Standstill:
    """The watch of one rank, a thread, over a stop that not all ranks can agree to. All ranks have one, or none."""

    def __init__(
        self, place: Place, store: Any, stop: Stop, part: Callable[[str], bytes], save: Callable[[list[bytes]], None]
    ) -> None:
        """Watch from now on.

        part returns this rank's part of the checkpoint of a step, b"" as long as it has not come there; save writes the
        checkpoint, on rank 0, of the parts of all. Both are called in the thread.
        """
        self._place, self._store, self._stop, self._part, self._save = place, store, stop, part, save
        self._closed = threading.Event()
        self._begun = threading.Event()  # some rank goes no further
        self._over = threading.Event()
        self._error = ""
        self._thread = threading.Thread(target=self._run, name="standstill", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the watch."""
        self._closed.set()
        self._thread.join(2 * LOOK_SECONDS)

    def stop_at(self, step: str) -> None:
        """Stop all ranks after this step, the last that was whole; return when that is saved. Raises TrainError."""
        if not self._begun.is_set():
            self._store.set(AT, step)
        while not self._over.wait(LOOK_SECONDS):
            pass
        self._raise()

    def stopped(self) -> bool:
        """Return whether a collective has failed because another rank has stopped in this way. Raises TrainError."""
        if not self._begun.is_set() or not self._over.wait(2 * LEAVING_SECONDS):
            return False
        self._raise()
        return True

    def _raise(self) -> None:
        if self._error:
            raise TrainError(self._error)

    def _run(self) -> None:
        try:
            while not self._store.check([AT]):
                if self._stop.pressed():
                    self._store.set(ASKED, "")
                if self._store.check([ASKED]):
                    self._stop.ask()
                if self._closed.wait(LOOK_SECONDS):
                    return
            self._begun.set()
            self._stop.ask()
            self._end(self._store.get(AT).decode())
        except Exception as e:  # the store's, which ends with rank 0
            self._error = f"rank {self._place.rank}: the run was to stop, but the ranks' store does not answer: {e}"
        finally:
            self._over.set()

    def _end(self, step: str) -> None:
        """Give this rank's part of the checkpoint, and wait until it is written; on rank 0, write it."""
        rank, ranks = self._place.rank, range(self._place.world)
        deadline = time.monotonic() + PARTS_SECONDS
        while not (mine := self._part(step)) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS / 10)
        if mine:
            self._leave(f"standstill/part/{rank}", mine)
        if rank == 0:
            self._store.set(SAVED, self._written([f"standstill/part/{r}" for r in ranks], deadline))
        self._await([SAVED], float("inf"))
        self._error = self._store.get(SAVED).decode()
        self._store.set(f"standstill/left/{rank}", "")
        if rank == 0:
            self._await([f"standstill/left/{r}" for r in ranks], time.monotonic() + LEAVING_SECONDS)

    def _written(self, parts: list[str], deadline: float) -> str:
        """Write the checkpoint; return what is wrong, "" if nothing is."""
        if not self._await(parts, deadline):
            return f"the run was to stop, but not all ranks came to the end of a step within {PARTS_SECONDS:g} s"
        try:
            self._save([self._taken(part) for part in parts])
        except Exception as e:
            return str(e) or type(e).__name__
        return ""

    def _leave(self, key: str, part: bytes) -> None:
        """Leave a part in the store, in pieces; it is there once its length is."""
        for at in range(0, len(part), PIECE_BYTES):
            self._store.set(f"{key}/{at}", part[at : at + PIECE_BYTES])
        self._store.set(key, str(len(part)))

    def _taken(self, key: str) -> bytes:
        """Return a part, which the store does not have any more then."""
        pieces = [f"{key}/{at}" for at in range(0, int(self._store.get(key)), PIECE_BYTES)]
        part = b"".join(self._store.get(piece) for piece in pieces)
        for piece in pieces:
            self._store.delete_key(piece)
        return part

    def _await(self, keys: list[str], deadline: float) -> bool:
        """Return whether the store has these before the deadline."""
        while not self._store.check(keys):
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS / 10)
        return True
