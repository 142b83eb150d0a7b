"""Servers whose samples real feeders make. Feeders and their links are killed, stopped, slowed, delayed, cut, reset and swapped
at random: batches stay the same."""

import contextlib
import hashlib
import random
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
from conftest import PATIENCE, RANDOM, answers, free_port, halt, imgshard, wait_for

from imgfeed import DataLoader
from imgfeed.programs import find_binary

VIEWS = {"views": [[{"op": "RandomResizedCrop", "size": 32}], {"repeat": 2, "ops": [{"op": "RandomResizedCrop", "size": 24}]}]}
OPTIONS: dict[str, Any] = {"framework": "numpy", "with_index": True, "with_params": True, "shuffle": True, "seed": 3}
EVERY = 3  # batches
EPOCHS = 4  # different ones, again and again


class Feeding:
    """A feeder that can be ended and started again at the same address."""

    def __init__(self, data: Path) -> None:
        self.data, self.address = data, f"127.0.0.1:{free_port()}"
        self.start()

    def start(self) -> None:
        command = [find_binary(), "feed", str(self.data), "--listen", self.address, "--threads", "1"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        for line in self.process.stdout:
            if line == f"on {self.address}\n":
                return
        raise AssertionError("the feeder does not listen")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


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

    KINDS = ("kill", "stop", "slow", "late", "part", "part_and_cut", "cut", "reset", "swap")

    def __init__(self, feeder: Feeding, link: Link, data: Path, other: Path) -> None:
        self.feeder, self.link, self.data, self.other = feeder, link, data, other
        self.end: Callable[[], None] = lambda: None

    def begin(self, kind: str) -> None:
        """End the fault that is there, and begin one of KINDS."""
        self.end()
        self.end = getattr(self, kind)() or (lambda: None)

    def restart(self, data: Path) -> None:
        self.feeder.kill()
        self.feeder.data = data
        self.feeder.start()

    def kill(self) -> Callable[[], None]:
        self.feeder.kill()
        return self.feeder.start

    def stop(self) -> Callable[[], None]:
        halt(self.feeder.process.pid)
        return lambda: self.feeder.process.send_signal(signal.SIGCONT)

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
def other(images: Path, tmp_path: Path) -> Path:
    """The same images in another order."""
    imgshard("build", images, "-o", tmp_path / "other-shards", "--seed", "5")
    return tmp_path / "other-shards"


@pytest.fixture
def faults(damaged: Path, other: Path) -> Iterator[list[Fault]]:
    feeders = [Feeding(damaged) for _ in range(4)]
    made = [Fault(feeder, Link(feeder.address), damaged, other) for feeder in feeders]
    yield made
    for fault in made:
        fault.end()
        fault.feeder.kill()
        fault.link.listener.close()
        fault.link.heal()
        fault.link.cut(reset=True)


def digest(loader: DataLoader, epoch: int, at: Callable[[], None] = lambda: None) -> tuple[str, list[int]]:
    """Return an epoch's hash and the samples in their order; at is called after each batch."""
    digests, indices = hashlib.sha256(), []
    loader.set_epoch(epoch)
    for batch in loader:
        for part in batch:
            for array in part if isinstance(part, list) else [part]:
                digests.update(np.ascontiguousarray(array))
        indices += batch[2].tolist()
        at()
    return digests.hexdigest(), indices


BLANKS = {"on_error": "blank", "transform": RANDOM, "layout": "NCHW"}
SUBSTITUTES = {"on_error": "substitute", "transform": VIEWS}


@pytest.mark.parametrize(
    ("threads", "options", "count"),
    [(0, BLANKS, 40), (1, SUBSTITUTES, 40)]
    + [pytest.param(threads, of, 200, marks=pytest.mark.long) for threads, of in ((0, SUBSTITUTES), (1, BLANKS))],
)
def test_batches_are_the_same_whatever_becomes_of_feeders(
    damaged: Path, faults: list[Fault], tmp_path: Path, threads: int, options: dict[str, Any], count: int
) -> None:
    options = {**OPTIONS, **options, "slots": 4}  # so that what is late is waited for
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    with serving(damaged, sockets, "--threads", "1") as alone, DataLoader(alone, 4, **options) as loader:
        want = [digest(loader, epoch) for epoch in range(EPOCHS)]
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice, batches, events, deck = random.Random(seed), 0, [], []

    def at() -> None:
        nonlocal batches
        batches += 1
        if batches % EVERY == 0 and len(events) < count:
            deck[:] = deck or dice.sample(Fault.KINDS, len(Fault.KINDS))  # each kind comes once before it comes again
            events.append(deck.pop())
            dice.choice(faults).begin(events[-1])

    addresses = ",".join(fault.link.address for fault in faults)
    with (
        serving(damaged, sockets, "--threads", str(threads), "--feeders", addresses) as fed,
        DataLoader(fed, 4, timeout=PATIENCE, **options) as loader,
    ):
        epoch = 0
        while len(events) < count:
            got = digest(loader, epoch % EPOCHS, at)
            assert got == want[epoch % EPOCHS], f"epoch {epoch}, seed {seed}, after {events}"
            epoch += 1
        assert {*events} == {*Fault.KINDS}


def test_a_feeder_of_other_data_is_refused(shards: Path, other: Path, tmp_path: Path) -> None:
    feeder = Feeding(other)
    try:
        with (
            serving(shards, tmp_path, "--threads", "0", "--feeders", feeder.address) as fed,
            DataLoader(fed, 4, transform=RANDOM, **OPTIONS) as loader,
        ):
            digest(loader, 0)
            log = Path(fed.removeprefix("unix:")).with_suffix(".log")
            wait_for(lambda: "the feeder serves other data than the server" in log.read_text())
    finally:
        feeder.kill()
