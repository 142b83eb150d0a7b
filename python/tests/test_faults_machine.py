"""Machines that fail under a running server or client: a row of docs/reliability.md for each way."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import RANDOM, Feeder, seen
from reliability import outcome

from imgfeed import DataLoader

OPTIONS: dict[str, Any] = {
    "framework": "numpy", "with_index": True, "transform": RANDOM, "shuffle": True, "seed": 3, "slots": 2
}  # fmt: skip
Seen = list[tuple[int, str]]


@pytest.fixture
def feeder(shards: Path, tmp_path: Path) -> Iterator[Feeder]:
    made = Feeder(shards, tmp_path / "run" / "sock")
    made.start()
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def plan(data: Path, **options: Any) -> Seen:
    """What an epoch gives when nothing happens."""
    with DataLoader(data, 4, num_workers=1, **{**OPTIONS, **options}) as loader:
        return seen(loader)


@pytest.mark.parametrize("what", ["socket", "folder"])
def test_a_socket_that_vanishes(feeder: Feeder, shards: Path, what: str) -> None:
    with DataLoader(f"unix:{feeder.socket}", 4, **OPTIONS) as loader:
        iteration = iter(loader)
        got = seen([next(iteration)])
        if what == "socket":
            feeder.socket.unlink()
        else:
            shutil.rmtree(feeder.socket.parent)
        got += seen(iteration)
        assert loader.stats()["reconnects"] == 0
    with DataLoader(f"unix:{feeder.socket}", 4, **OPTIONS) as later:
        assert seen(later) == got == plan(shards)
    feeder.end(signal.SIGTERM)
    assert not feeder.socket.parent.exists()
    said = "the same bits: sessions go on, and for new clients, who wait, the server puts it back"
    outcome("the socket is removed, or its folder with it", said)
