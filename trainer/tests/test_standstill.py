"""Ranks that are told to stop while some wait for a lost feed, and the others for them: each goes on at the last whole step."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest
import torch
from conftest import command, free_port, same, weights
from test_feed import served, steps

from imgfeed_train.errors import TrainError
from imgfeed_train.launch.place import Place
from imgfeed_train.launch.standstill import Standstill
from imgfeed_train.launch.stop import Stop

RANKS = 2
#: Statistics that each forward moves, numbers that each batch draws, and steps of two batches; 6 steps an epoch.
RUN = ["--arch", "resnet18", "--size", "32", "--device", "cpu", "--no-tensorboard", "--log-every", "2", "--mixup", "0.2"]
RUN += ["--batch-size", "4", "--accumulate", "2", "--epochs", "40", "--optimizer", "sgd", "--lr", "0.01"]
RUN += ["--schedule", "constant", "--stopped-status", "75"]


@contextlib.contextmanager
def feeds(sets: Path, folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run a feed for each rank."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(served(sets, folder / f"sock{rank}")) for rank in range(RANKS)]


def start(folder: Path, run: str, *more: str) -> list[subprocess.Popen[str]]:
    """Start the ranks of a run, each with a feed of its own, as a launcher does."""
    env = {**os.environ, "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = []
    for rank in range(RANKS):
        words = command("--data", f"unix:{folder / f'sock{rank}'}", "--output", str(folder / run), *RUN, *more)
        mine = {**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        started.append(subprocess.Popen(words, env=mine, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    return started


def end(ranks: Sequence[subprocess.Popen[str]], status: int) -> list[str]:
    """Return what the ranks have said, which end with this status."""
    try:
        said = [rank.communicate(timeout=120)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [status] * RANKS, said
    return said


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_ranks_stop_wherever_they_wait(sets: Path, tmp_path: Path, strategy: str) -> None:
    """The rank that writes the checkpoint, the other, or both have lost their feed; who has one is told to stop, or both."""
    reached, how = 0, ("--strategy", strategy)
    for starved, told in (((0,), (1,)), ((1,), (0,)), ((0, 1), (0, 1)))[: 3 if strategy == "ddp" else 2]:
        with feeds(sets, tmp_path) as servers:
            ranks = start(tmp_path, "run", "--resume", "auto", *how)
            before = steps(tmp_path / "run")
            while steps(tmp_path / "run") < before + 4:
                assert [rank.poll() for rank in ranks] == [None] * RANKS, end(ranks, 75)
                time.sleep(0.01)
            for rank in starved:
                servers[rank].kill()
                servers[rank].wait()
            still = time.monotonic()
            lines = steps(tmp_path / "run")
            while time.monotonic() < still + 1.5:  # for so long no line has come: all stand
                if steps(tmp_path / "run") > lines:
                    still, lines = time.monotonic(), steps(tmp_path / "run")
                time.sleep(0.01)
            for rank in told:
                ranks[rank].send_signal(signal.SIGTERM)
            since = time.monotonic()
            said = end(ranks, 75)
            assert time.monotonic() < since + 30, said
            assert "go on with --resume auto" in said[0]
        last = weights(tmp_path / "run")["progress"]["steps"]
        assert reached < last < 40 * 6
        reached = last
    with feeds(sets, tmp_path):
        end(start(tmp_path, "run", "--resume", "auto", "--max-steps", str(reached + 3), *how), 75)
        end(start(tmp_path, "calm", "--max-steps", str(reached + 3), *how), 75)
    same(tmp_path / "run", tmp_path / "calm")


class Asked:
    """A Stop that nobody has signalled."""

    asked = False

    def pressed(self) -> bool:
        return False

    def ask(self) -> None:
        self.asked = True


@pytest.mark.parametrize("broken", ["", "the disk is full"])
def test_what_becomes_of_the_checkpoint_is_told_to_all(broken: str) -> None:
    """Rank 1 comes to the step later; rank 0 writes the parts of both, or can't, which ends each with the same error."""
    store, stops, saved = torch.distributed.HashStore(), [Asked() for _ in range(RANKS)], []
    come = time.monotonic() + 1

    def save(parts: list[bytes]) -> None:
        saved.append(parts)
        if broken:
            raise OSError(broken)

    def part(rank: int, step: str) -> bytes:
        return b"" if rank and time.monotonic() < come else f"{step} of {rank}".encode()

    watches = []
    for rank, stop in enumerate(stops):
        of = functools.partial(part, rank)
        watches.append(Standstill(Place(rank=rank, world=RANKS), store, cast(Stop, stop), of, save))
    assert not watches[1].stopped()
    with pytest.raises(TrainError, match=broken) if broken else contextlib.nullcontext():
        watches[0].stop_at("3/14")
    with pytest.raises(TrainError, match=broken) if broken else contextlib.nullcontext():
        assert watches[1].stopped()
    for watch in watches:
        watch.close()
    assert saved == [[b"3/14 of 0", b"3/14 of 1"]] and time.monotonic() > come
    assert all(stop.asked for stop in stops)


def test_a_store_that_is_gone_ends_the_wait() -> None:
    class Gone(torch.distributed.HashStore):
        def check(self, keys: list[str]) -> bool:
            raise RuntimeError("connection reset")

    watch = Standstill(Place(rank=1, world=RANKS), Gone(), cast(Stop, Asked()), lambda _: b"", lambda _: None)
    with pytest.raises(TrainError, match=r"rank 1: .* the ranks' store does not answer: connection reset"):
        watch.stop_at("0/1")
    assert not watch.stopped()
    watch.close()
