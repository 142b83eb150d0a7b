"""Copies of the checkpoints at a URL (``s3://bucket/run``), sent by fsspec beside the training.

    OUTPUT/checkpoints/last.pt --hard link--> OUTPUT/unsent/last.pt --thread--> s3://bucket/run/last.pt

Files wait in a folder. A newer one replaces one that waits, and a file that the store refused outlives the process: the next
checkpoint tries again.
"""

import contextlib
import platform
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fsspec

from . import files
from .errors import TrainError
from .files import link

#: Stores that show an object when its upload is complete.
WHOLE_OBJECTS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
PATIENCE, PAUSE = 120.0, 5.0  # seconds that a run retries at its end, and between two tries
STOPPING = 10.0  # seconds that a run waits for the store after it was told to stop: it may be killed soon
CLAIM = "run.txt"  # names the run that keeps its checkpoints there, and this start of it, until it ends
ADVICE = {
    "credentials": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give a role",
    "access key id": "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "bucket does not exist": "make the bucket, or correct its name",
    "denied": "the key may not do that: check its policy",
    "connect": "check the network, AWS_ENDPOINT_URL and the region",
}


class Store:
    """The URL for copies of the checkpoints, or none. Its methods are called by one thread of rank 0."""

    def __init__(self, url: str | None, unsent: Path) -> None:
        self.url, self.unsent, self._failed, self._claim = url, unsent, "", ""
        self._using = f"--checkpoints {url} can't be used"
        self._lost = False  # whether another run, or another start of this one, has the store
        self._thread: threading.Thread | None = None
        self._placing = threading.Lock()  # held where a file begins to wait, so that an older one never replaces it

    def path(self, name: str) -> str:
        """Return the path of a file there."""
        return f"{(self.url or '').rstrip('/')}/{name}"

    def recover(self) -> None:
        """Let files that a killed process was sending wait for the next checkpoint."""
        for sending in self.unsent.glob(".*.sending"):
            waiting = self.unsent / sending.name[1 : -len(".sending")]
            sending.unlink() if waiting.exists() else sending.replace(waiting)

    def has(self, name: str) -> bool:
        """Return whether a file is there."""
        with _naming(self._using):
            fs, path = _open(self.path(name)) if self.url else (None, "")
            return bool(fs and fs.exists(path))

    def holder(self) -> str:
        """Return the text of the claim there; "" where no run has one."""
        with _naming(self._using):
            fs, path = _open(self.path(CLAIM))
            return str(fs.cat_file(path).decode(errors="replace")) if self.has(CLAIM) else ""

    def claim(self, run: str, ahead: Sequence[Path]) -> None:
        """Take the store for this start of a run, and send the files ahead of it. Of two runs the second keeps its files."""
        if not self.url:
            return
        held, mine = self.holder(), self.unsent / CLAIM
        killed = mine.exists() and mine.read_text() == held  # an earlier start here: the log's lock tells that it is over
        if held and not killed and not held.startswith(f"run {run},"):
            self._lost, how = True, f"take another, or, if that run is dead, remove {self.path(CLAIM)} and start again"
            self._failed = f"--checkpoints {self.url} is held by {held}, which has not ended; it gets no copies: {how}"
            print(f"imgfeed-train: {self._failed}", flush=True)
            return
        self._claim = f"run {run}, start {uuid.uuid4().hex}, on {platform.node()}"
        self.unsent.mkdir(parents=True, exist_ok=True)
        files.write(mine, self._claim)
        with _naming(self._using):
            fs, path = _open(self.path(CLAIM))
            if self.url.partition("://")[0] not in WHOLE_OBJECTS:  # where this would make a mistyped bucket
                fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            fs.pipe_file(path, self._claim.encode())
        for file in ahead:
            self.leave(file)

    def close(self) -> None:
        """Remove the claim, unless files wait for the store."""
        with contextlib.suppress(Exception):  # the same run may claim it anyway
            if self._claim and not self._busy() and self.holder() == self._claim:
                fs, path = _open(self.path(CLAIM))
                fs.rm_file(path)
                (self.unsent / CLAIM).unlink()

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
            self.unsent.mkdir(parents=True, exist_ok=True)
            with self._placing:
                link(file, self.unsent / file.name)
            self._send_on()

    def wait(self, told: bool = False) -> None:
        """Return when all files are sent; if told to stop, after STOPPING. Raises TrainError where one stays in the folder."""
        until = time.monotonic() + (STOPPING if told else PATIENCE)
        while True:
            self._send_on()
            if self._thread:
                self._thread.join(max(0.0, until - time.monotonic()) if told else None)
            if not self._busy():
                return
            if self._lost or time.monotonic() >= until:
                what = f"the newest checkpoints stay in {self.unsent}: --resume auto sends them"
                if self._lost or not told:
                    raise TrainError(f"{self._failed}; {what}")
                print(f"imgfeed-train: {self._failed or f'{self.url} is slow'}; {what}", flush=True)
                return
            time.sleep(min(PAUSE, max(0.0, until - time.monotonic())))

    def _busy(self) -> bool:
        """Return whether a file waits or is being sent."""
        return bool(self._waiting() or (self._thread and self._thread.is_alive()))

    def _waiting(self) -> list[Path]:
        """Return the waiting files."""
        return [file for name in ("best.pt", "last.pt") if (file := self.unsent / name).exists()]

    def _send_on(self) -> None:
        """Start a thread that sends the waiting files, unless one runs."""
        if self.url and not self._lost and self._waiting() and not (self._thread and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._send, name="checkpoints", daemon=True)
            self._thread.start()

    def _send(self) -> None:
        while waiting := self._waiting():
            file = waiting[0]
            sending = file.replace(file.with_name(f".{file.name}.sending"))
            try:
                if self._claim and self.holder() != self._claim:
                    self._lost = True
                    raise TrainError(f"another start of this run has taken --checkpoints {self.url}, or {CLAIM} there is gone")
                with _naming(f"{self.path(file.name)} can't be written"):
                    if file.name == "last.pt" and self.has("last.pt"):
                        fs, path = _open(self.path("last.pt"))
                        fs.cp_file(path, _open(self.path("previous.pt"))[1])
                    self._upload(sending, file.name)
            except TrainError as e:
                self._failed = str(e)
                print(f"imgfeed-train: {e}{'' if self._lost else '. It is tried again with the next checkpoint'}", flush=True)
                with self._placing:
                    sending.unlink() if file.exists() else sending.replace(file)
                return
            sending.unlink()

    def _upload(self, here: Path, name: str) -> None:
        fs, path = _open(self.path(name))
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
