"""Checkpoints on their way: into a folder at once, to a store beside the training.

A model's checkpoint has hundreds of megabytes, and a store takes seconds to minutes for them. So a run that keeps its
checkpoints at a URL writes each on this machine's disk, and a thread sends it while the training goes on:

    training   step step [save 1] step step step [save 2] step step [save 3] step ... end [wait]
    thread                        1 last, 1 best ----------> 3 last ------------------>

One file is under way at a time. Checkpoints that are due meanwhile wait, and under each name only the newest: 2 never left.
Files leave in the order in which they were saved, a save's ``last.pt`` before its ``best.pt``.

A store that fails does not end the run. Each save tries again, and the end for some time; what it then has not taken stays on
this machine.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from ..errors import StorageError
from . import files, storage

SLOW = 60.0  # seconds after which an upload that says nothing is told
PATIENCE = 120.0  # seconds after the end of a run for which a store is tried again
PAUSE = 5.0  # seconds between two tries then


class Saver:
    """Keeps the checkpoints of one process's run. Its methods are called by one thread."""

    def __init__(self, folder: str, kept: Path) -> None:
        """Take the folder or URL, and the folder of this machine where checkpoints stay that a URL does not take."""
        self._folder, self._kept = folder, kept
        self._lock = threading.Lock()  # of all that follows
        self._waiting: dict[str, Path] = {}  # by name, in the order in which they leave
        self._sending: Path | None = None
        self._sent_as = ""  # the name of what is being sent
        self._thread: threading.Thread | None = None
        self._failed: StorageError | None = None  # of the last upload
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def save(self, state: dict[str, Any], *names: str) -> None:
        """Keep a state under these names; it may change once this returns.

        Raises StorageError where a folder does not take it. If the upload to a URL fails, a line on standard error
        says so, and the next save tries again.
        """
        if not storage.is_url(self._folder):
            files.save(state, self._folder, *names)
            return
        here = self._next()
        files.save(state, str(here.parent), here.name)
        self._leave(here, *names)

    def send_kept(self) -> None:
        """Send what an earlier run had to keep on this machine."""
        for kept in sorted(self._kept.glob("*.pt")):
            shutil.copyfile(kept, here := self._next())
            self._leave(here, kept.name)

    def _next(self) -> Path:
        """Return the path of the next file in the scratch folder."""
        with self._lock:
            if self._scratch is None:
                self._scratch = tempfile.TemporaryDirectory(prefix="imgfeed-train-", ignore_cleanup_errors=True)
            self._count += 1
            return Path(self._scratch.name) / f"{self._count}.pt"

    def _leave(self, here: Path, *names: str) -> None:
        """Have a file leave under each name."""
        with self._lock:
            for name in names:
                before = self._waiting.pop(name, None)
                self._waiting[name] = here
                self._discard(before)
        self._go_on()

    @property
    def busy(self) -> bool:
        """Whether anything is still to be sent."""
        with self._lock:
            return bool(self._waiting or self._sending)

    def wait(self) -> None:
        """Return when everything is where it belongs. What failed is tried again for PATIENCE seconds.

        Checkpoints that the store has not taken then, or when this is interrupted, stay on this machine. Raises StorageError,
        which says where.
        """
        kept, until = "", time.monotonic() + PATIENCE
        try:
            while (thread := self._go_on()) is not None:
                thread.join()
                if not self.busy or time.monotonic() >= until:
                    break
                time.sleep(PAUSE)
        finally:
            kept = self._keep()
        if kept:
            raise StorageError(f"{self._failed}; the newest checkpoints stay on this machine: {kept}")

    def _keep(self) -> str:
        """Move what waits to this machine's folder for it, and remove the rest. Return where it is, "" if nothing waited."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            if self._sending is not None:  # the process ends before that does
                waiting = {self._sent_as: self._sending, **waiting}
            for name, here in waiting.items():
                self._kept.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(here, self._kept / f".{name}.partial")
                (self._kept / f".{name}.partial").replace(self._kept / name)
            if self._scratch is not None and self._sending is None:
                self._scratch.cleanup()
                self._scratch = None
        if not waiting:
            return ""
        said = ", ".join(str(self._kept / name) for name in waiting)
        print(f"imgfeed-train: kept on this machine: {said}; --resume auto goes on from there", file=sys.stderr, flush=True)
        return said

    def _go_on(self) -> threading.Thread | None:
        """Return the thread that sends what waits, None if nothing does."""
        with self._lock:
            if self._thread is None and self._waiting:
                # A daemon: whoever ends the process at once does not wait for it, and the store keeps what it had.
                self._thread = threading.Thread(target=self._send, name="checkpoints", daemon=True)
                self._thread.start()
            return self._thread

    def _send(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                name = next(iter(self._waiting))
                here = self._sending = self._waiting.pop(name)
                self._sent_as = name
            failed: StorageError | None = None
            said = f"imgfeed-train: {name} has been on its way to {self._folder} for {SLOW:g} s; the training goes on"
            slow = threading.Timer(SLOW, print, [said], {"file": sys.stderr, "flush": True})
            slow.daemon = True
            slow.start()
            try:
                storage.send(self._folder, name, here)
            except StorageError as e:
                failed = e
            except Exception as e:  # as a missing package: storage.check has tried it before
                failed = StorageError(str(e))
            finally:
                slow.cancel()
            with self._lock:
                self._sending, self._failed = None, failed
                if failed is None:
                    self._discard(here)
                    with contextlib.suppress(OSError):
                        (self._kept / name).unlink()  # of an earlier run, which this one went on with
                        self._kept.rmdir()
                    continue
                if name not in self._waiting:
                    self._waiting = {name: here, **self._waiting}
                self._discard(here)
                self._thread = None
            again = "it is tried again with the next checkpoint, or at the end"
            print(f"imgfeed-train: {failed}; {again}", file=sys.stderr, flush=True)
            return

    def _discard(self, path: Path | None) -> None:
        """Remove a file that no name stands for any more."""
        if path is not None and path != self._sending and path not in self._waiting.values():
            path.unlink(missing_ok=True)
