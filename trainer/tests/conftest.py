"""A small dataset, packed once, and runs of the trainer on it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6")

from imgfeed.launcher import find_binary  # noqa: E402

from imgfeed_train.command import main  # noqa: E402
from imgfeed_train.report import plots  # noqa: E402

TRAIN, VAL, CLASSES = 96, 27, 3
TINY = ["--arch", "timm/test_vit", "--size", "32", "--device", "cpu", "--workers", "1", "--no-tensorboard", "--log-every", "2"]
#: An optimisation in which two ranks must do what one does with twice the batch.
PLAIN = ["--batch-size", "16", "--epochs", "2", "--optimizer", "sgd", "--lr", "0.05", "--schedule", "onecycle"]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Use one thread here and in children: the machines of tests have few, and sums keep their order."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c() -> None:
    """Have children take Ctrl-C, which a shell's job in the background ignores, and all that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _plots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no reports of the quick tests' runs but where reports are tested: it takes twice as long as such a run itself."""
    if request.module.__name__ != "test_report" and request.node.get_closest_marker("long") is None:
        monkeypatch.setattr(plots, "draw", lambda *_: True)


@pytest.fixture(scope="session")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sets train and val."""
    folder = tmp_path_factory.mktemp("data")
    counts = ["--classes", str(CLASSES), "--train", str(TRAIN // CLASSES), "--val", str(VAL // CLASSES)]
    for command in (
        ["synth", str(folder / "raw"), *counts, "--size", "64"],
        ["build", str(folder / "raw"), "-o", str(folder / "sets")],
    ):
        subprocess.run([find_binary("imgshard"), *command], check=True, capture_output=True)
    return folder / "sets"


Train = Callable[..., Path]


@pytest.fixture
def train(sets: Path, tmp_path: Path) -> Train:
    """Train in this process; returns the run's folder."""

    def run(name: str, *arguments: str, base: Sequence[str] = (*TINY, *PLAIN)) -> Path:
        main(["--data", str(sets), "--output", str(tmp_path / name), *base, *arguments])
        return tmp_path / name

    return run


def free_port() -> int:
    """Return a port that nobody has, below those that Linux gives to whoever asks for any (32768 and up): it stays free."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
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
    state: dict[str, Any] = torch.load(run / "checkpoints" / name, weights_only=True)
    return state


def same(a: Path, b: Path) -> None:
    """Assert that two runs ended with the same bits: weights, moments and generators."""
    one, two = weights(a), weights(b)
    for name, tensor in one["model"].items():
        assert torch.equal(tensor, two["model"][name]), name
    for key, moments in one["optimizer"]["state"].items():
        for name, value in moments.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(two["optimizer"]["state"][key][name])), name
    for mine, other in zip(one["random"], two["random"], strict=True):
        assert torch.equal(mine["torch"], other["torch"]) and mine["python"] == other["python"]
    assert one["schedule"] == two["schedule"]
    assert one["loader"] == two["loader"]
