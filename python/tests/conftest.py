"""Datasets and loaders for the tests: everything runs on the real programs, on sets that the tests pack themselves."""

import contextlib
import gc
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import socket as sockets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest

from imgfeed import DataLoader
from imgfeed._server import client, wire
from imgfeed.programs import find_binary

CLASSES = 5
SAMPLES = 21 * CLASSES


def imgshard(*args: str | Path) -> str:
    """Run imgshard and return what it prints."""
    done = subprocess.run([find_binary("imgshard"), *map(str, args)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"imgshard {args}: {done.stderr}"
    return done.stdout


def listed(folder: Path, values: dict[str, dict[str, Any]]) -> Path:
    """List the images of class folders with values of each as fields, in JSON lines."""
    lines = [json.dumps({"path": key, "label": key.split("/")[0], **of}) for key, of in values.items()]
    (folder / "train.jsonl").write_text("\n".join(lines))
    return folder / "train.jsonl"


@pytest.fixture(scope="session", autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests leave the user's own cache alone, where indexes of datasets and packed ones would go."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache-home"))


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of class folders with small JPEGs."""
    folder = tmp_path_factory.mktemp("images")
    of_each = str(SAMPLES // CLASSES)
    imgshard(
        "synth", folder / "synth", "--classes", str(CLASSES), "--train", of_each, "--val", "0", "--size", "120", "--seed", "1"
    )
    return folder / "synth" / "train"


@pytest.fixture(scope="session")
def shards(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, packed for a world of two."""
    out = tmp_path_factory.mktemp("shards") / "train-shards"
    imgshard("build", images, "-o", out, "--partitions", "2")
    return out


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = needs.program("chromium")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def listing(shards: Path) -> list[dict[str, Any]]:
    """What `imgshard ls --json` says, by index."""
    rows = [json.loads(line) for line in imgshard("ls", shards, "--json").splitlines()]
    return sorted(rows, key=lambda row: row["index"])


@pytest.fixture(scope="session")
def socket(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that is there for all tests; the value is what DataLoader takes."""
    path = tmp_path_factory.mktemp("socket") / "sock"
    with subprocess.Popen([find_binary(), "serve", str(shards), "--socket", str(path), "--threads", "2"]) as server:
        wait_for(lambda: answers(path) or server.poll() is not None)
        assert server.poll() is None
        yield f"unix:{path}"
        server.terminate()


def loaders(data: Any, **defaults: Any) -> Iterator[Callable[..., DataLoader]]:
    """For a fixture: yield a function that makes loaders, and close them in the end."""
    with contextlib.ExitStack() as made:

        def make(batch_size: int = 8, data: Any = data, **options: Any) -> DataLoader:
            return made.enter_context(DataLoader(data, batch_size, **{**defaults, **options}))

        yield make


@pytest.fixture
def load(socket: str) -> Iterator[Callable[..., DataLoader]]:
    """Makes loaders of the common server that give numpy arrays and indices, and closes them."""
    yield from loaders(socket, framework="numpy", with_index=True, transform=SMALL)


@pytest.fixture
def damaged(shards: Path, tmp_path: Path) -> Path:
    """The common set with a byte changed in a record of each shard file."""
    copy = tmp_path / "damaged-shards"
    shutil.copytree(shards, copy)
    for path in copy.rglob("*.imgshard"):
        data = bytearray(path.read_bytes())
        at = len(data) // 3
        while not all(data[at : at + 8]):  # between two records are zeros
            at += 1
        data[at] ^= 0x40
        path.write_bytes(data)
    return copy


#: A transform with little output, so that tests are quick.
SMALL = [{"op": "Resize", "size": 40}, {"op": "CenterCrop", "size": 32}]
RANDOM = [{"op": "RandomResizedCrop", "size": 32}, {"op": "RandomHorizontalFlip"}]
#: Seconds for which disks, servers and clients stand still in tests; IMGFEED_STANDSTILL=60 is as long as some real ones do.
STANDSTILL = float(os.environ.get("IMGFEED_STANDSTILL", "1"))
#: Seconds after which a test that waits has failed. Only one that hangs takes so long, also on a busy machine.
PATIENCE = 300.0


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder by their paths in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def indices(batches: Any) -> list[int]:
    """Return the indices of all batches, in order."""
    return [int(i) for batch in batches for i in batch[2]]


def seen(batches: Any) -> list[tuple[int, str]]:
    """Return the index and the hash of each image's pixels, in order."""
    return [
        (int(i), hashlib.sha256(image.tobytes()).hexdigest())
        for images, _, index in batches
        for image, i in zip(images, index, strict=True)
    ]


def same(a: Any, b: Any) -> bool:
    """Whether two batches are equal in every array."""
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def copied(batch: Any) -> tuple[Any, ...]:
    """Return a batch in memory of its own."""
    return tuple(np.array(part) for part in batch)


def goes_on_after_interrupts(loader: DataLoader, raised: type[BaseException]) -> None:
    """Raise an exception in next() wherever Python runs signal handlers: the same batch comes next."""
    want = [copied(b) for b in loader]
    left = 1

    def interrupt(frame: Any, event: str, function: Any) -> None:
        nonlocal left
        left -= event in ("call", "c_return")
        if not left:
            sys.setprofile(None)
            raise raised

    for moment in itertools.count(1):
        loader.set_epoch(0)
        iteration = iter(loader)
        batch = next(iteration)
        got = [copied(batch)]
        left = moment
        while len(iteration):
            with contextlib.suppress(raised):  # what comes as a finalizer begins is lost, later in it the next batch raises it
                sys.setprofile(interrupt if left > 0 else None)
                for batch in iteration:
                    sys.setprofile(None)
                    got.append(copied(batch))
                    sys.setprofile(interrupt if left > 0 and len(got) < 3 else None)
                sys.setprofile(None)
        assert all(itertools.starmap(same, zip(got, want, strict=True))), moment
        if left > 0:
            break
    assert moment > 100


def installed_resampler() -> str:
    """Return the name of the resampler whose bits the installed Pillow has; skips the test where there is none."""
    image = pytest.importorskip("PIL.Image")
    return "pillow-13" if int(image.__version__.split(".")[0]) >= 13 else "pillow-12"


def wait_for(condition: Callable[[], Any]) -> None:
    """Wait until condition is true; fail after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def free_port() -> int:
    """Return a port that nobody has, below those that Linux gives out by itself: so it stays free until it is used."""
    while True:
        port = random.randrange(10000, 30000)
        if not listens(port):
            return port


def listens(port: int) -> bool:
    """Whether somebody listens at a port."""
    with sockets.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def answers(path: Path) -> bool:
    """Whether somebody listens on a socket; its file is there a moment before."""
    try:
        wire.connect(str(path)).close()
    except OSError:
        return False
    return True


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def own(data: Path, batch_size: int = 8, **options: Any) -> DataLoader:
    """Return a loader with a server of its own that gives numpy arrays and indices."""
    given: dict[str, Any] = {"framework": "numpy", "with_index": True, "transform": SMALL, "num_workers": 1, **options}
    return DataLoader(data, batch_size, **given)


def own_pid(loader: DataLoader) -> int:
    """Return the process of a loader's own server."""
    return loader._service.server.process.pid


def halt(pid: int) -> None:
    """Stop a process that this one has started. On a busy machine its threads run on for a while, until this returns."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)


def script(code: str, *args: str, prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start a Python process that can import this package and these helpers; prefix is a program that runs it."""
    path = os.pathsep.join(p for p in sys.path if p)
    env = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", code, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


class Server:
    """A server on a socket that can be ended and started again."""

    process: subprocess.Popen[bytes]  # once it was started

    def __init__(self, data: Path, socket: Path) -> None:
        self.data, self.socket = data, socket
        self.binary, self.threads, self.flags = find_binary(), 1, list[str]()

    def start(self) -> None:
        command = [self.binary, "serve", str(self.data), "--socket", str(self.socket), "--threads", str(self.threads)]
        self.process = subprocess.Popen([*command, "--log-level", "error", *self.flags], stdout=subprocess.DEVNULL)
        wait_for(lambda: answers(self.socket))

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait()

    def close(self) -> None:
        if hasattr(self, "process"):
            self.end(signal.SIGKILL)


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What comes out of finalizers is forgotten. pytest's hook would keep it, and by its frames batches and their slots."""
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    yield
    gc.collect()  # a connection that was broken off before anybody had it


@pytest.fixture
def impatient() -> Iterator[Callable[[], None]]:
    """Has clients give a silent server up after half a second instead of 30, until one has: the next server may be slow."""
    assert client.QUIET + client.HUNG == 30
    close = wire.Connection.close
    with pytest.MonkeyPatch.context() as patch:

        def begin() -> None:
            for owner, name, value in ((client, "QUIET", 0.2), (client, "HUNG", 0.3), (wire.Connection, "close", end)):
                patch.setattr(owner, name, value)

        def end(connection: wire.Connection) -> None:
            patch.undo()
            close(connection)

        yield begin if STANDSTILL < 30 else lambda: None
