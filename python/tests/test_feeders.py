"""Servers whose samples are made by feeders, real processes that are killed, stopped and started again."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import RANDOM, SAMPLES, answers, same, wait_for

from imgfeed import DataLoader
from imgfeed.launcher import find_binary

VIEWS = {"views": [[{"op": "RandomResizedCrop", "size": 32}], {"repeat": 2, "ops": [{"op": "RandomResizedCrop", "size": 24}]}]}
OPTIONS: dict[str, Any] = {"framework": "numpy", "with_index": True, "with_params": True, "shuffle": True, "seed": 3}
EPOCHS = 4


class Feeding:
    """A feeder that can be ended and started again at the same address."""

    def __init__(self, data: Path) -> None:
        self.data, self.address = data, "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        command = [find_binary(), "feed", str(self.data), "--listen", self.address, "--threads", "1"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        for line in self.process.stdout:
            if found := re.match(r"on (\S+)$", line):
                self.address = found[1]
                return
        raise AssertionError("the feeder does not listen")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def send(self, sig: signal.Signals) -> None:
        os.kill(self.process.pid, sig)


@contextlib.contextmanager
def serving(data: Path, folder: Path, *flags: str) -> Iterator[str]:
    """A server; the value is what DataLoader takes."""
    path = folder / f"{len(list(folder.iterdir()))}.sock"
    log = path.with_suffix(".log")
    with log.open("w") as to:
        server = subprocess.Popen([find_binary(), "serve", str(data), "--socket", str(path), *flags], stderr=to)
    try:
        wait_for(lambda: answers(path) or server.poll() is not None)
        yield f"unix:{path}"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def feeders(damaged: Path) -> Iterator[list[Feeding]]:
    """Two feeders of the damaged set."""
    made = [Feeding(damaged), Feeding(damaged)]
    yield made
    for feeder in made:
        feeder.kill()


def epochs(address: str, at: Callable[[int], None] = lambda _: None, **options: Any) -> tuple[list[Any], float]:
    """Return the batches of some epochs, and for how long the longest of them was waited. Each is told to at by its number."""
    got, longest = [], 0.0
    with DataLoader(address, 4, **{**OPTIONS, **options}) as loader:
        for epoch in range(EPOCHS):
            loader.set_epoch(epoch)
            started = time.monotonic()
            for batch in loader:
                longest = max(longest, time.monotonic() - started)
                got.append(
                    [np.array(array) for part in batch for array in (part if isinstance(part, (list, tuple)) else [part])]
                )
                at(len(got))
                started = time.monotonic()
    return got, longest


@pytest.mark.parametrize(
    "options", [{"on_error": "blank", "transform": RANDOM, "layout": "NCHW"}, {"on_error": "substitute", "transform": VIEWS}]
)
def test_batches_are_the_same_whatever_becomes_of_feeders(
    damaged: Path, feeders: list[Feeding], tmp_path: Path, options: dict[str, Any]
) -> None:
    with serving(damaged, tmp_path, "--threads", "1") as alone:
        want, _ = epochs(alone, **options)
    first, second = feeders
    batches = -(-SAMPLES // 4)
    events: dict[int, Callable[[], None]] = {
        batches // 2: first.kill,
        batches: lambda: second.send(signal.SIGSTOP),
        batches + 9: first.start,
        2 * batches + 9: lambda: second.send(signal.SIGCONT),
    }
    for flags in (["--threads", "0"], ["--threads", "1"]):
        with serving(damaged, tmp_path, *flags, "--feeders", f"{first.address},{second.address}") as fed:
            got, longest = epochs(fed, lambda batch: events.get(batch, lambda: None)(), **options)
        assert len(got) == len(want) and all(same(a, b) for a, b in zip(got, want, strict=True)), flags
        assert longest < 5, "a feeder that hangs costs less than a second, but for a machine that is busy"


def test_a_feeder_of_other_data_is_refused(shards: Path, tmp_path: Path, images: Path) -> None:
    other = tmp_path / "other-shards"
    subprocess.run(
        [find_binary("imgshard"), "build", str(images), "-o", str(other), "--seed", "5"], check=True, capture_output=True
    )
    feeder = Feeding(other)
    try:
        options = {"transform": [{"op": "RandomResizedCrop", "size": 32}]}
        with serving(shards, tmp_path, "--threads", "1") as alone:
            want, _ = epochs(alone, **options)
        with serving(shards, tmp_path, "--threads", "0", "--feeders", feeder.address) as fed:
            got, _ = epochs(fed, **options)
            log = Path(fed.removeprefix("unix:")).with_suffix(".log")
            wait_for(lambda: "the feeder serves other data than the server" in log.read_text())
        assert all(same(a, b) for a, b in zip(got, want, strict=True))
    finally:
        feeder.kill()
