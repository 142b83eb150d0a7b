"""Copies of the checkpoints at a URL (``s3://bucket/run``), sent by fsspec beside the training.

    OUTPUT/checkpoints/last.pt --hard link--> OUTPUT/unsent/last.pt --thread--> s3://bucket/run/last.pt

Files wait in a folder. A newer one replaces one that waits, and a file that the store refused outlives the process: the next
checkpoint tries again.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec

from .errors import TrainError
from .files import link

#: Stores that show an object when its upload is complete.
WHOLE_OBJECTS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
PATIENCE, PAUSE = 120.0, 5.0  # seconds that a run retries at its end, and between two tries
ADVICE = {
    "credentials": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give a role",
    "access key id": "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "bucket does not exist": "make the bucket, or correct its name",
    "denied": "the key may not do that: check its policy",
    "connect": "check the network, AWS_ENDPOINT_URL and the region",
}


class Store:
    """A place for copies of the checkpoints, or none. Its methods are called by one thread of rank 0."""

    def __init__(self, url: str | None, unsent: Path) -> None:
        """Take the URL or folder, and this machine's folder for waiting files."""
        self.url, self._unsent, self._failed = url, unsent, ""
        self._thread: threading.Thread | None = None
        self._placing = threading.Lock()  # held where a file begins to wait, so that an older one never replaces it

    def _open(self, name: str) -> tuple[Any, str]:
        """Return the file system of a name there, and its path in a folder that exists."""
        fs, path = _open(self.path(name))
        if str(self.url).partition("://")[0] not in WHOLE_OBJECTS:  # where this would make a mistyped bucket
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        return fs, path

    def path(self, name: str) -> str:
        """Return the path of a file there."""
        return f"{(self.url or '').rstrip('/')}/{name}"

    def check(self) -> None:
        """Write, read and remove a small file. Raises TrainError where the store refuses."""
        if not self.url:
            return
        with _naming(f"--checkpoints {self.url} can't be used"):
            fs, path = self._open(f".imgfeed-train-{uuid.uuid4().hex}")
            fs.pipe_file(path, b"imgfeed-train")
            if fs.cat_file(path) != b"imgfeed-train":
                raise OSError("it does not give back what was written there")
        with contextlib.suppress(Exception):  # whoever may not delete can still train
            fs.rm_file(path)

    def recover(self) -> None:
        """Let files that a killed process was sending wait for the next checkpoint."""
        for sending in self._unsent.glob(".*.sending"):
            waiting = self._unsent / sending.name[1 : -len(".sending")]
            sending.unlink() if waiting.exists() else sending.replace(waiting)

    def has(self, name: str) -> bool:
        """Return whether a file is there."""
        with _naming(self.path(name)):
            fs, path = _open(self.path(name)) if self.url else (None, "")
            return bool(fs and fs.exists(path))

    def newest(self, name: str, folder: Path) -> str:
        """Return the path of the newest file of a name: unsent, at the URL, or in the run's folder."""
        if (self._unsent / name).exists():
            return str(self._unsent / name)
        return self.path(name) if self.has(name) else str(folder / name)

    @contextlib.contextmanager
    def local(self, path: str) -> Iterator[Path | None]:
        """Give a local copy of a file while the block runs; None if there is no such file."""
        if "://" not in path:
            yield Path(path) if Path(path).exists() else None
            return
        with tempfile.TemporaryDirectory(prefix="imgfeed-train-") as folder:
            here = Path(folder) / "file"
            with _naming(path):
                fs, there = _open(path)
                if fs.exists(there):
                    fs.get_file(there, str(here))
            yield here if here.exists() else None

    def replace(self, path: str, here: Path) -> None:
        """Replace a file, on this machine or at the URL, by one on this machine."""
        if "://" not in path:
            link(here, Path(path))
            return
        with _naming(f"{path} can't be written"):
            self._upload(here, path.rpartition("/")[2])

    def leave(self, file: Path) -> None:
        """Send a file under its name, instead of one that still waits."""
        if self.url:
            self._unsent.mkdir(parents=True, exist_ok=True)
            with self._placing:
                link(file, self._unsent / file.name)
            self._send_on()

    def wait(self) -> None:
        """Return when all files are sent. Raises TrainError where one stays in the folder."""
        until = time.monotonic() + PATIENCE
        while True:
            self._send_on()
            if self._thread:
                self._thread.join()
            if not self._waiting():
                return
            if time.monotonic() >= until:
                raise TrainError(f"{self._failed}; the newest checkpoints stay in {self._unsent}: --resume auto sends them")
            time.sleep(PAUSE)

    def _waiting(self) -> list[Path]:
        """Return the waiting files."""
        return [file for name in ("best.pt", "last.pt") if (file := self._unsent / name).exists()]

    def _send_on(self) -> None:
        """Start a thread that sends the waiting files, unless one runs."""
        if self.url and self._waiting() and not (self._thread and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._send, name="checkpoints", daemon=True)
            self._thread.start()

    def _send(self) -> None:
        while waiting := self._waiting():
            file = waiting[0]
            sending = file.replace(file.with_name(f".{file.name}.sending"))
            try:
                with _naming(f"{self.path(file.name)} can't be written"):
                    if file.name == "last.pt" and self.has("last.pt"):
                        fs, path = _open(self.path("last.pt"))
                        fs.cp_file(path, _open(self.path("previous.pt"))[1])
                    self._upload(sending, file.name)
            except TrainError as e:
                self._failed = str(e)
                print(f"imgfeed-train: {e}. It is tried again with the next checkpoint", flush=True)
                with self._placing:
                    sending.unlink() if file.exists() else sending.replace(file)
                return
            sending.unlink()

    def _upload(self, here: Path, name: str) -> None:
        fs, path = self._open(name)
        if str(self.url).partition("://")[0] in WHOLE_OBJECTS:
            fs.put_file(str(here), path)
        else:
            fs.put_file(str(here), f"{path}.partial")
            fs.mv(f"{path}.partial", path)


def _open(path: str) -> tuple[Any, str]:
    """Return fsspec's file system of a path, and the path there."""
    fs, inner = fsspec.core.url_to_fs(path, use_listings_cache=False, skip_instance_cache=True)
    return fs, str(inner)


@contextlib.contextmanager
def _naming(what: str) -> Iterator[None]:
    """Raise TrainError with a remedy for any error of a store's library: each has its own types."""
    try:
        yield
    except Exception as e:
        advice = next((f" - {advice}" for sign, advice in ADVICE.items() if sign in f"{type(e).__name__} {e}".lower()), "")
        raise TrainError(f"{what}: {type(e).__name__}: {e}{advice}") from e
