"""Feeders and their links, killed, stopped, slowed, delayed, cut, reset and swapped at random. Batches stay the same."""

from __future__ import annotations

import contextlib
import hashlib
import random
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import RANDOM
from test_feeders import Feeding, serving

from imgfeed import DataLoader
from imgfeed.launcher import find_binary

EVENTS = 100
EVERY = 3  # batches
EPOCHS = 4  # different ones, again and again


class Link:
    """What lies between a server and a feeder: it passes bytes on, late or slowly or not at all."""

    def __init__(self, feeder: str) -> None:
        self.to = feeder
        self.delay, self.pause = 0.0, 0.0  # seconds, of each piece of at most 16 KiB
        self.passes = threading.Event()
        self.passes.set()
        self.sockets: set[socket.socket] = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self.join, args=(near,), daemon=True).start()

    def join(self, near: socket.socket) -> None:
        host, port = self.to.split(":")
        try:
            far = socket.create_connection((host, int(port)), timeout=5)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        self.sockets |= {near, far}
        threads = [threading.Thread(target=self.carry, args=pair, daemon=True) for pair in ((near, far), (far, near))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.sockets -= {near, far}
        near.close()
        far.close()

    def carry(self, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 14):
                time.sleep(self.delay + self.pause)
                self.passes.wait()
                to.sendall(data)
        for end in (source, to):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self, reset: bool) -> None:
        """End all connections, with a reset or as a program does that ends."""
        for end in list(self.sockets):
            with contextlib.suppress(OSError):
                if reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        self.delay = self.pause = 0.0
        self.passes.set()


class Fault:
    """What may become of a feeder and its link, and how it ends."""

    def __init__(self, feeder: Feeding, link: Link, data: Path, other: Path) -> None:
        self.feeder, self.link, self.data, self.other = feeder, link, data, other
        self.end: Callable[[], None] = lambda: None
        self.kinds = [self.kill, self.stop, self.slow, self.late, self.part, self.part_and_cut, self.cut, self.reset, self.swap]

    def begin(self, dice: random.Random) -> str:
        """End the fault that is there, and begin another one."""
        self.end()
        kind = dice.choice(self.kinds)
        self.end = kind() or (lambda: None)
        return kind.__name__

    def restart(self, data: Path) -> None:
        self.feeder.kill()
        self.feeder.data = data
        self.feeder.start()

    def kill(self) -> Callable[[], None]:
        self.feeder.kill()
        return self.feeder.start

    def stop(self) -> Callable[[], None]:
        self.feeder.send(signal.SIGSTOP)
        return lambda: self.feeder.send(signal.SIGCONT)

    def slow(self) -> Callable[[], None]:
        self.link.pause = 0.01
        return self.link.heal

    def late(self) -> Callable[[], None]:
        self.link.delay = 0.3
        return self.link.heal

    def part(self) -> Callable[[], None]:
        self.link.passes.clear()
        return self.link.heal

    def part_and_cut(self) -> Callable[[], None]:
        self.link.passes.clear()

        def end() -> None:
            self.link.cut(reset=False)
            self.link.heal()

        return end

    def cut(self) -> None:
        self.link.cut(reset=False)

    def reset(self) -> None:
        self.link.cut(reset=True)

    def swap(self) -> Callable[[], None]:
        self.restart(self.other)
        return lambda: self.restart(self.data)


@pytest.fixture
def faults(shards: Path, images: Path, tmp_path: Path) -> Iterator[list[Fault]]:
    other = tmp_path / "other-shards"
    subprocess.run([find_binary("imgshard"), "build", str(images), "-o", str(other), "--seed", "5", "-q"], check=True)
    feeders = [Feeding(shards) for _ in range(4)]
    made = [Fault(feeder, Link(feeder.address), shards, other) for feeder in feeders]
    yield made
    for fault in made:
        fault.end()
        fault.feeder.kill()
        fault.link.listener.close()
        fault.link.heal()
        fault.link.cut(reset=True)


def digest(loader: DataLoader, epoch: int, at: Callable[[], None] = lambda: None) -> tuple[str, list[int], float]:
    """Return an epoch's hash, the samples in their order, and the longest wait for a batch, without what at does."""
    digests, indices, longest = hashlib.sha256(), [], 0.0
    loader.set_epoch(epoch)
    began = time.monotonic()
    for batch in loader:
        longest = max(longest, time.monotonic() - began)
        for array in batch:
            digests.update(np.ascontiguousarray(array))
        indices += batch[-1].tolist()
        at()
        began = time.monotonic()
    return digests.hexdigest(), indices, longest


@pytest.mark.parametrize("threads", [0, 1])
def test_random_events(shards: Path, faults: list[Fault], tmp_path: Path, threads: int) -> None:
    options: dict[str, Any] = {"transform": RANDOM, "shuffle": True, "seed": 3, "framework": "numpy", "with_index": True}
    options["slots"] = 4  # so that what is late is waited for
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    with serving(shards, sockets, "--threads", "1") as alone, DataLoader(alone, 4, **options) as loader:
        want = [digest(loader, epoch) for epoch in range(EPOCHS)]
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice, batches, events = random.Random(seed), 0, []

    def at() -> None:
        nonlocal batches
        batches += 1
        if batches % EVERY == 0 and len(events) < EVENTS:
            fault = dice.choice(faults)
            events.append(fault.begin(dice))

    addresses = ",".join(fault.link.address for fault in faults)
    with (
        serving(shards, sockets, "--threads", str(threads), "--feeders", addresses) as fed,
        DataLoader(fed, 4, **options) as loader,
    ):
        epoch = 0
        while len(events) < EVENTS:
            got = digest(loader, epoch % EPOCHS, at)
            assert got[:2] == want[epoch % EPOCHS][:2], f"epoch {epoch}, seed {seed}, after {events}"
            assert got[2] < 10, f"a batch took {got[2]:.1f} s, seed {seed}, after {events}"
            epoch += 1
            print(f"{got[2]:.1f} s", end=" ")
        assert re.search(r"kill", " ".join(events)) and len(set(events)) > 5
