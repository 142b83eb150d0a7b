"""Checkpoints on their way: into a folder at once, to a store beside the training.

A model's checkpoint has hundreds of megabytes, and a store takes seconds to minutes for them. So a run that keeps its
checkpoints at a URL writes each on this machine's disk, and a thread sends it while the training goes on:

    training   step step [save 1] step step step [save 2] step step [save 3] step ... end [wait]
    thread                        1 last, 1 best ----------> 3 last ------------------>

One file is under way at a time. What is due meanwhile waits, and under each name only the newest: 2 never left. Files leave in
the order in which they were saved, a save's ``last.pt`` before its ``best.pt``.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from ..errors import StorageError
from . import files, storage

TRIES = 2  # uploads in a row that may fail before the run does


class Saver:
    """Keeps the checkpoints of one process's run. Its methods are called by one thread."""

    def __init__(self, folder: str) -> None:
        """Take the folder or URL."""
        self._folder = folder
        self._lock = threading.Lock()  # of all that follows
        self._waiting: dict[str, Path] = {}  # by name, in the order in which they leave
        self._sending: Path | None = None
        self._thread: threading.Thread | None = None
        self._failed: list[StorageError] = []  # in a row
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def save(self, state: dict[str, Any], *names: str) -> None:
        """Keep a state under these names; it may change once this returns.

        Raises StorageError where a folder does not take it. For a URL that is told when the upload has failed, by a line on
        standard error; the next save tries again, and raises once TRIES uploads in a row have failed.
        """
        if not storage.is_url(self._folder):
            files.save(state, self._folder, *names)
            return
        with self._lock:
            if len(self._failed) >= TRIES:
                raise self._failed[-1]
            if self._scratch is None:
                self._scratch = tempfile.TemporaryDirectory(prefix="imgfeed-train-", ignore_cleanup_errors=True)
            self._count += 1
            folder, name = self._scratch.name, f"{self._count}.pt"
        files.save(state, folder, name)
        with self._lock:
            for other in names:
                before = self._waiting.pop(other, None)
                self._waiting[other] = Path(folder) / name
                self._discard(before)
        self._go_on()

    @property
    def busy(self) -> bool:
        """Whether anything is still to be sent."""
        with self._lock:
            return bool(self._waiting or self._sending)

    def wait(self) -> None:
        """Return when everything is where it belongs. What failed is tried once more; raises StorageError if it fails again."""
        for _ in range(2):
            thread = self._go_on()
            if thread is not None:
                thread.join()
        with self._lock:
            failed = self._failed[-1] if self._waiting else None
            self._waiting.clear()
            if self._scratch is not None:
                self._scratch.cleanup()
                self._scratch = None
        if failed is not None:
            raise failed

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
            failed: StorageError | None = None
            try:
                storage.send(self._folder, name, here)
            except StorageError as e:
                failed = e
            except Exception as e:  # as a missing package: storage.check has tried it before
                failed = StorageError(str(e))
            with self._lock:
                self._sending = None
                if failed is None:
                    self._failed.clear()
                    self._discard(here)
                    continue
                self._failed.append(failed)
                if name not in self._waiting:
                    self._waiting = {name: here, **self._waiting}
                self._discard(here)
                last = len(self._failed) >= TRIES
                self._thread = None
            if not last:
                again = "it is tried again with the next checkpoint, or at the end"
                print(f"imgfeed-train: {failed}; {again}", file=sys.stderr, flush=True)
            return

    def _discard(self, path: Path | None) -> None:
        """Remove a file that no name stands for any more."""
        if path is not None and path != self._sending and path not in self._waiting.values():
            path.unlink(missing_ok=True)
