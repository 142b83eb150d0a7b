"""A server that ends or hangs under an epoch: what comes is the plan, by index and by pixels, nothing twice or missing."""

import contextlib
import gc
import logging
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE, RANDOM, SAMPLES, Server, alive, copied, halt, imgshard, indices, own_pid, same, seen, wait_for

import imgfeed
from imgfeed import DataLoader, LostError, ServerError, StateError
from imgfeed._server import client, launcher

OPTIONS: dict[str, Any] = {"framework": "numpy", "with_index": True, "transform": RANDOM, "shuffle": True, "seed": 3}


@pytest.fixture
def server(shards: Path, tmp_path: Path) -> Iterator[Server]:
    with contextlib.closing(Server(shards, tmp_path / "sock")) as made:
        yield made


@pytest.fixture
def plan(socket: str) -> Callable[..., list[list[tuple[int, str]]]]:
    """What epochs give when nothing happens."""

    def of(epochs: range, batch_size: int, **options: Any) -> list[list[tuple[int, str]]]:
        with DataLoader(socket, batch_size, **{**OPTIONS, **options}) as loader:
            loader.set_epoch(epochs.start)
            return [seen(loader) for _ in epochs]

    return of


@pytest.mark.parametrize("transport", ["shm", "socket"])
def test_an_own_server_that_is_killed_again_and_again(
    shards: Path, plan: Callable[..., Any], transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    large = {**OPTIONS, "transform": [{"op": "RandomResizedCrop", "size": 112}]}  # more than a socket's buffers take
    with DataLoader(shards, 8, num_workers=1, transport=transport, slots=3, **large) as loader:
        got, held, kills = [], [], 0
        for n, batch in enumerate(loader):
            got += seen([batch])
            held.append((batch, copied(batch)))
            if n % 4 == 1:
                os.kill(own_pid(loader), signal.SIGKILL)
                kills += 1
        assert [got] == plan(range(1), 8, transform=large["transform"])
        assert all(same(a, b) for a, b in held), "a batch in the memory of a ring whose server is gone"
        lost = [r for r in caplog.records if "starting it again" in r.message]
        assert loader.stats()["reconnects"] == kills
        # The last kill, which comes after the last batch, is met by the epoch, which waits for its end, or by the question.
        assert {r.levelno for r in lost} == {logging.WARNING} and kills - 1 <= len(lost) <= kills
        assert re.search(r"the server ended \(signal 9\) at epoch 0, batch \d+; starting it again$", lost[0].message)
        back = [r for r in caplog.records if re.fullmatch(r"imgfeed: reconnected after \d+\.\d s", r.message)]
        assert {r.levelno for r in back} == {logging.WARNING} and len(back) == kills
        assert [seen(loader)] == plan(range(1, 2), 8, transform=large["transform"])


@pytest.mark.parametrize("kills", [2, 3])
def test_an_own_server_that_is_killed_while_it_starts(
    shards: Path, plan: Callable[..., Any], kills: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = plan(range(1), 8)
    connect = launcher.OwnServer._connect
    killed: list[int] = []

    def kill_and_connect(server: launcher.OwnServer, path: str) -> client.Session:
        if len(killed) < kills:
            killed.append(server.process.pid)
            os.kill(server.process.pid, signal.SIGKILL)
        return connect(server, path)

    monkeypatch.setattr(launcher.OwnServer, "_connect", kill_and_connect)
    if kills == 3:
        with pytest.raises(LostError, match="signal 9"):
            DataLoader(shards, 8, num_workers=1, **OPTIONS)
    else:
        with DataLoader(shards, 8, num_workers=1, **OPTIONS) as loader:
            assert [seen(loader)] == expected
    assert len(killed) == kills
    assert sum("starting it again" in r.message for r in caplog.records) == 2
    assert not any(map(alive, killed))


def test_a_server_that_dies_between_two_epochs(shards: Path, plan: Callable[..., Any]) -> None:
    with DataLoader(shards, 8, num_workers=1, **OPTIONS) as loader:
        assert [seen(loader)] == plan(range(1), 8)
        os.kill(own_pid(loader), signal.SIGKILL)
        assert len(loader.dataset.classes) == 5
        os.kill(own_pid(loader), signal.SIGKILL)
        assert [seen(loader)] == plan(range(1, 2), 8)


@pytest.mark.parametrize("ranks", [1, 8])
def test_a_shared_server_that_is_held_reloaded_killed_and_upgraded(
    server: Server, plan: Callable[..., Any], tmp_path: Path, ranks: int
) -> None:
    """All ranks iterate while a script ends the server, in one way or the other, and another binary takes its socket."""
    releases = [server.binary, shutil.copy(server.binary, tmp_path / "imgfeed-next")]
    server.start()
    chance, enough, ends = random.Random(ranks), threading.Event(), 0
    got: dict[int, list[list[tuple[int, str]]]] = {rank: [] for rank in range(ranks)}
    begun: set[int] = set()
    reconnects: list[int] = []
    failed: list[Exception] = []

    def iterate(rank: int) -> None:
        try:
            with DataLoader(f"unix:{server.socket}", 2, rank=rank, world=ranks, slots=2, **OPTIONS) as loader:
                while not enough.is_set():
                    got[rank].append(seen(loader))
                    begun.add(rank)
                reconnects.append(loader.stats()["reconnects"])
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=iterate, args=(rank,), daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(begun) == ranks)
    while ends < 5:
        time.sleep(chance.uniform(0.0, 0.1))
        halt(server.process.pid)
        time.sleep(0.02)
        server.process.send_signal(signal.SIGCONT)
        subprocess.run([server.binary, "reload", "--socket", server.socket], check=True, stdout=subprocess.DEVNULL)
        server.end(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        ends += 1
        server.binary, server.threads = str(releases[ends % 2]), 1 + ends % 2
        server.start()
    enough.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert not failed
    for rank, epochs in got.items():
        assert epochs == plan(range(len(epochs)), 2, rank=rank, world=ranks)
    assert len(reconnects) == ranks and all(n <= ends for n in reconnects) and sum(reconnects) > 0


@pytest.mark.parametrize("ranks", [1, 8])
def test_clients_may_start_before_their_server(server: Server, caplog: pytest.LogCaptureFixture, ranks: int) -> None:
    got: list[int] = []

    def iterate(rank: int) -> None:
        with DataLoader(f"unix:{server.socket}", 8, rank=rank, world=ranks, even_batches=False, slots=2, **OPTIONS) as loader:
            got.extend(indices(loader))

    threads = [threading.Thread(target=iterate, args=(rank,), daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    wait_for(lambda: caplog.text.count("is a server running there?; waiting up to 120 s") == ranks)
    server.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(got) == list(range(SAMPLES))
    assert caplog.text.count("waiting up to") == ranks


def test_a_server_that_never_comes(server: Server) -> None:
    with pytest.raises(LostError, match=r"is a server running there\? \(waited \d+ s\)"):
        DataLoader(f"unix:{server.socket}", 8, reconnect=0.2, **OPTIONS)
    server.start()
    with DataLoader(f"unix:{server.socket}", 4, slots=1, reconnect=0.2, **OPTIONS) as loader:
        iteration = iter(loader)
        next(iteration)
        server.end(signal.SIGTERM)
        with pytest.raises(LostError, match=r"\(waited "):
            list(iteration)
        state = loader.state_dict()
        server.start()
        loader.load_state_dict(state)
        assert len(indices(loader)) == SAMPLES - state["consumed"]


def test_a_timeout_while_the_server_is_away(server: Server, plan: Callable[..., Any]) -> None:
    server.start()
    with DataLoader(f"unix:{server.socket}", 4, slots=1, **OPTIONS) as loader:
        iteration = iter(loader)
        got = seen([next(iteration)])
        server.end(signal.SIGKILL)
        iteration.timeout = 0.1
        for _ in range(2):
            with pytest.raises(imgfeed.TimeoutError, match="no batch came in time"):
                while True:
                    got += seen([next(iteration)])
        iteration.timeout = 0
        server.start()
        assert [got + seen(iteration)] == plan(range(1), 4)


def test_a_client_that_outlives_many_servers_keeps_nothing_of_them(server: Server) -> None:
    """Its descriptors stay as many: a lost ring goes with its last batch, although the log's records are kept."""

    def epoch() -> int:
        batches = iter(loader)
        batch = next(batches)
        server.end(signal.SIGKILL)
        server.start()
        del batch  # its slot goes back to a server that is gone
        for _ in batches:
            pass
        return len(os.listdir("/proc/self/fd"))

    server.start()
    gc.disable()  # it may not come by for hours
    try:
        with DataLoader(f"unix:{server.socket}", 8, **OPTIONS, slots=3) as loader:
            counts = [epoch() for _ in range(6)]
            assert loader.stats()["reconnects"] == 6
            assert counts[-1] <= counts[0], counts
    finally:
        gc.enable()


def test_closing_wakes_a_thread_that_waits_for_a_server(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.start()
    loader = DataLoader(f"unix:{server.socket}", 4, slots=1, **OPTIONS)
    iteration = iter(loader)
    next(iteration)
    server.end(signal.SIGKILL)
    threading.Thread(target=lambda: (wait_for(lambda: "waiting up to" in caplog.text), loader.close())).start()
    with pytest.raises(ServerError, match="closed while another thread waited for the server"):
        list(iteration)


def test_the_server_says_the_rank(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that nothing tells its rank takes that of ``imgfeed serve SET --rank 1 --world 2``."""
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    server.flags = ["--rank", "1", "--world", "2"]
    server.start()
    address, options = f"unix:{server.socket}", {"with_index": True, "framework": "numpy", "slots": 1}
    with DataLoader(address, 4, rank=1, world=2, **options) as told, DataLoader(address, 4, **options) as loader:
        assert (loader.rank, loader.world) == (1, 2)
        assert repr(loader).endswith("rank=1, world=2)")
        assert indices(loader) == indices(told)
        assert len(loader) == len(told) == -(-SAMPLES // 2 // 4)
        next(iter(loader))
        assert loader.state_dict()["consumed"] == 2 * 4  # of both ranks
    with DataLoader(address, 4, rank=0, world=1, **options) as other:
        assert sorted(indices(other)) == list(range(SAMPLES))
    with DataLoader(address, 4, **options) as loader:
        next(iter(loader))
        server.end(signal.SIGTERM)
        server.start()
        assert len(indices(loader)) == -(-SAMPLES // 2)
        server.end(signal.SIGTERM)
        server.flags = ["--rank", "0", "--world", "2"]
        server.start()
        with pytest.raises(ServerError, match="serves rank 0 of 2 now, and served another one"):
            list(loader)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with DataLoader(address, 4, **options) as loader:
        assert (loader.rank, loader.world) == (1, 4)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ("more-shards", "fingerprint is [0-9a-f]{64}, and was [0-9a-f]{64}"),
        ("two-shards", "its .* have other content"),
        ("pixels", "its .* are stored as pixels"),
    ],
)
def test_other_data_is_refused(server: Server, tmp_path: Path, other: str, why: str) -> None:
    for name, seed, samples in (("one", "1", "9"), ("two", "2", "9"), ("more", "1", "10")):
        imgshard("synth", tmp_path / name, "--classes", "2", "--train", samples, "--val", "0", "--size", "40", "--seed", seed)
        imgshard("build", tmp_path / name / "train", "-o", tmp_path / f"{name}-shards")
    imgshard("repack", tmp_path / "one-shards", "-o", tmp_path / "pixels", "--resize", "40")
    server.data = tmp_path / "one-shards"
    server.start()
    with DataLoader(f"unix:{server.socket}", 4, slots=1, **OPTIONS) as loader:
        state = loader.state_dict()
        iteration = iter(loader)
        next(iteration)
        server.end(signal.SIGTERM)
        server.data = tmp_path / other
        server.start()
        with pytest.raises(ServerError, match=f"other data .*{why}"):
            list(iteration)
        with DataLoader(f"unix:{server.socket}", 4, slots=1, **OPTIONS) as changed:
            assert (changed.dataset.fingerprint == loader.dataset.fingerprint) == (other != "more-shards")
            if other == "pixels":  # a checkpoint goes on with another encoding
                changed.load_state_dict(state)
            else:
                with pytest.raises(StateError, match=r"other (content|data)"):
                    changed.load_state_dict(state)


def test_what_ends_every_server_ends_the_epoch(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DataLoader(shards, 4, num_workers=1, **OPTIONS) as loader:
        iteration = iter(loader)
        next(iteration)

        def lost(*_: Any, **__: Any) -> Any:
            raise LostError("imgfeed: the server closed the connection")

        monkeypatch.setattr(client.Session, "next", lost)
        with pytest.raises(LostError, match="closed the connection"):
            next(iteration)
        assert loader._service.reconnects == 3


def test_a_loss_may_be_an_error(shards: Path) -> None:
    with DataLoader(shards, 4, num_workers=1, slots=1, reconnect=0, **OPTIONS) as loader:
        iteration = iter(loader)
        next(iteration)
        os.kill(own_pid(loader), signal.SIGKILL)
        with pytest.raises(LostError, match=r"signal 9\)$"):
            list(iteration)
        assert next(iteration, None) is None
        assert len(indices(loader)) == SAMPLES
