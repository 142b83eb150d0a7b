"""A small dataset, packed once, and runs of the trainer on it in this process."""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from imgfeed.programs import find_binary
from packaging.version import Version

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # here and in children
# Functions import torch and the trainer, which takes seconds: xdist's first process runs no tests.
for name, least in ("torch", "2.6"), ("timm", "0"), ("tyro", "0"):
    with contextlib.suppress(metadata.PackageNotFoundError):
        if Version(metadata.version(name)) >= Version(least):
            continue
    pytest.skip(f"needs {name}, {least} or later", allow_module_level=True)

TRAIN, VAL, CLASSES = 96, 27, 3
TINY = ["--arch", "timm/test_vit", "--size", "32", "--workers", "1", "--log-every", "2"]
#: An optimisation in which two ranks must do what one does with twice the batch.
PLAIN = ["--batch-size", "16", "--epochs", "2", "--optimizer", "sgd", "--lr", "0.05", "--schedule", "onecycle"]
PATIENCE = 300  # seconds; only a run that hangs takes so long


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Use one thread, here and in children: sums keep their order."""
    import torch  # noqa: PLC0415 - slow to import

    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sets train and val."""
    return pack(tmp_path_factory.mktemp("data"), CLASSES)


def pack(folder: Path, classes: int, size: int = 64) -> Path:
    """Return a folder with packed sets of synthetic images."""
    counts = ["--classes", str(classes), "--train", str(TRAIN // classes), "--val", str(VAL // classes)]
    for command in (
        ["synth", str(folder / "raw"), *counts, "--size", str(size)],
        ["build", str(folder / "raw"), "-o", str(folder / "sets")],
    ):
        subprocess.run([find_binary("imgshard"), *command], check=True, capture_output=True)
    return folder / "sets"


Train = Callable[..., Path]


@pytest.fixture
def train(sets: Path, tmp_path: Path) -> Train:
    """Train in this process; return the run's folder."""
    return runner(sets, tmp_path)


@pytest.fixture(scope="session")
def whole(sets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted; others must equal it, and leave it as it is."""
    return runner(sets, tmp_path_factory.mktemp("runs"))("whole")


def runner(sets: Path, folder: Path) -> Train:
    """Return the function that trains in this process, with runs in folder."""
    from imgfeed_train.command import main  # noqa: PLC0415 - slow to import

    def run(name: str, *arguments: str, base: Sequence[str] = (*TINY, *PLAIN)) -> Path:
        main(["--data", str(sets), "--output", str(folder / name), *base, *arguments])
        return folder / name

    return run


def free_port() -> int:
    """Return a port that nobody has, below those that Linux gives out by itself."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)):
                return port


def command(*arguments: str) -> list[str]:
    """Return the command line of a trainer in a process of its own."""
    return [sys.executable, "-m", "imgfeed_train", *arguments]


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    """Return a run's events of one kind."""
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [row for row in rows if row["event"] == kind]


def weights(run: Path, name: str = "last.pt") -> dict[str, Any]:
    """Return a checkpoint's state."""
    import torch  # noqa: PLC0415 - slow to import

    state: dict[str, Any] = torch.load(run / "checkpoints" / name, weights_only=True)
    return state


def same(a: Path, b: Path) -> None:
    """Assert that two runs ended with the same bits: weights, average, moments, generators, and positions."""
    one, two = weights(a), weights(b)
    for part in ("model", "optimizer", "model_ema", "scaler", "random", "loader"):
        assert equal(one[part], two[part]), part
    for name in ("epoch", "batches", "steps", "best", "scored"):
        assert one["progress"][name] == two["progress"][name], name


def equal(a: Any, b: Any) -> bool:
    """Return whether two states have the same bits."""
    import torch  # noqa: PLC0415 - slow to import

    if torch.is_tensor(a):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(value, b[name]) for name, value in a.items())
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)
