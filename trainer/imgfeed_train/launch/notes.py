"""What each rank is doing, told to the others and to its parent: so that an error can name the rank that is late, or gone.

A rank that waits in a collective knows only that somebody is missing. So every rank notes what it does, and a thread of its
own passes the note on to the others each second, also while the rank itself is stuck:

    rank 0   beat 41   epoch 3, batch 17: computes, for 12 s
    rank 1   beat 29   epoch 3, batch 17: waits for its data, for 0 s      <- its beats stand still: it is stopped, or gone

The others read the notes in the store of the rendezvous. The parent of a node's ranks reads them in a file for each child, and
a child's error in the file that torch's elastic launcher has for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import TrainError
from .place import HOW, Place

BEAT_SECONDS = 1.0
NOTE_BYTES = 4096  # of a child's note in its file
STOPPED = "stopped before its end"  # the last note of a rank that was told to


@dataclass(frozen=True)
class Note:
    """What a rank does, since how many seconds, and how far it is; beat counts on as long as its process runs."""

    doing: str = "starts"
    epoch: int = -1
    batch: int = 0
    seconds: float = 0.0
    beat: int = 0

    def __str__(self) -> str:
        """Return it as the end of a sentence that begins with the rank."""
        where = f"in epoch {self.epoch}, batch {self.batch}" if self.epoch >= 0 else "before the first epoch"
        return f"{self.doing} {where}"


class Notes:
    """The note of this rank, and those of the others."""

    def __init__(self, place: Place, store: Any = None) -> None:
        """Take the store of the rendezvous; None where there is one rank. Beats from now on."""
        self.place, self.store = place, store
        self._file = os.open(place.notes, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC) if place.notes else -1
        self._now: tuple[str, int, int, float] = ("starts", -1, 0, time.monotonic())
        self._beat = 0
        self._stop = threading.Event()
        self._leaving = threading.Lock()
        if store is not None or place.notes:
            threading.Thread(target=self._run, name="notes", daemon=True).start()

    def doing(self, what: str, epoch: int | None = None, batch: int | None = None) -> None:
        """Note what this rank does from now on; without a place, at the one before."""
        _, e, b, _ = self._now
        self._now = (what, e if epoch is None else epoch, b if batch is None else batch, time.monotonic())
        self._leave()  # at once, as the process may be killed before the next beat

    def together(self, epoch: int, batch: int, seconds: float) -> bool:
        """Say that this rank can't go on from a place; return whether all ranks say the same of it within so many seconds."""
        if self.store is None:
            return True
        keys = [f"stuck/{epoch}/{batch}/{rank}" for rank in range(self.place.world)]
        deadline = time.monotonic() + seconds
        self.store.set(keys[self.place.rank], "")
        while not self.store.check(keys):
            if time.monotonic() > deadline:
                self.store.delete_key(keys[self.place.rank])
                return False
            time.sleep(0.05)
        return True

    def close(self) -> None:
        """Pass on the last note."""
        self._stop.set()
        with contextlib.suppress(Exception):
            self._tell()

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # the store ends with rank 0
            while not self._stop.is_set():
                self._tell()
                self._stop.wait(BEAT_SECONDS)

    def _tell(self) -> None:
        self._beat += 1
        text = self._leave()
        if self.store is not None:
            self.store.set(f"note/{self.place.rank}", text)

    def _text(self) -> str:
        what, epoch, batch, since = self._now
        return json.dumps(asdict(Note(what, epoch, batch, time.monotonic() - since, self._beat)))

    def _leave(self) -> str:
        """Leave the parent a note, if there is one; return it."""
        with self._leaving:  # of two threads' notes the later one stays
            text = self._text()
            if self._file >= 0:
                with contextlib.suppress(OSError):  # no room: the note is older than it might be
                    os.pwrite(self._file, text.encode()[:NOTE_BYTES].ljust(NOTE_BYTES), 0)
            return text

    def late(self) -> str:
        """Return which rank the others wait for, as far as the notes tell; it takes some seconds. Empty for one rank."""
        if self.store is None:
            return ""
        try:
            before = self._read()
            time.sleep(3 * BEAT_SECONDS)
            return verdict(before, self._read(), self.place.rank)
        except Exception:  # whoever holds the store may be the one that is gone
            return "rank 0, which holds the ranks' notes, does not answer"

    def _read(self) -> list[Note]:
        return [
            Note(**json.loads(self.store.get(f"note/{rank}"))) if self.store.check([f"note/{rank}"]) else Note()
            for rank in range(self.place.world)
        ]


def verdict(before: Sequence[Note], now: Sequence[Note], mine: int) -> str:
    """Return who is late by two looks at the notes: a rank without a beat between them, else the one that is least far."""
    silent = [r for r, (a, b) in enumerate(zip(before, now, strict=True)) if a.beat == b.beat and r != mine]
    if silent:
        said = "; ".join(f"rank {r} is silent (stopped, killed, or its machine is gone); it last {now[r]}" for r in silent[:4])
        return f"{said} (and {len(silent) - 4} more)" if len(silent) > 4 else said
    reached = [(note.epoch, note.batch) for note in now]
    behind = [r for r, at in enumerate(reached) if at == min(reached)]
    if min(reached) != max(reached) and len(behind) == 1:
        return f"rank {behind[0]} is late: it {now[behind[0]]}, for {now[behind[0]].seconds:.0f} s"
    other = [r for r, note in enumerate(now) if note.doing != now[mine].doing]
    shown = other if len(other) == 1 else range(len(now))
    return "; ".join(f"rank {r} {now[r]}, for {now[r].seconds:.0f} s" for r in list(shown)[:8])


def read_note(path: str) -> Note:
    """Return a child's last note."""
    with contextlib.suppress(OSError, ValueError, TypeError):  # it may have left none, or have been killed while it wrote
        return Note(**json.loads(Path(path).read_bytes().rstrip(b"\0 ").decode()))
    return Note()


def leave_error(error: TrainError, env: Mapping[str, str]) -> bool:
    """Leave the parent this rank's error, to tell it once for all ranks. Returns False where there is no parent.

    The file is torch's, which has to be whole: reading another ends the launcher.
    """
    if HOW not in env:
        return False
    path = Path(env["TORCHELASTIC_ERROR_FILE"])
    written = path.with_suffix(".part")
    written.write_text(json.dumps({"message": str(error), "kind": type(error).__name__, "timestamp": int(time.time())}))
    written.replace(path)
    return True
