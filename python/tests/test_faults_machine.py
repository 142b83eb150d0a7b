"""Machines that fail under a running server or client: a row of docs/reliability.md for each way."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE, RANDOM, STANDSTILL, Server, alive, halt, own_pid, script, seen, wait_for
from reliability import outcome

import imgfeed
from imgfeed import DataLoader
from imgfeed.programs import find_binary

OPTIONS: dict[str, Any] = {
    "framework": "numpy", "with_index": True, "transform": RANDOM, "shuffle": True, "seed": 3, "slots": 2
}  # fmt: skip
#: Batches of 600 kB, of which a ring holds more than there is memory.
LARGE: dict[str, Any] = {**OPTIONS, "transform": [{"op": "RandomResizedCrop", "size": 224}], "slots": 16}
LITTLE = 4096  # bytes: the next page that is touched is one too many
Seen = list[tuple[int, str]]


@pytest.fixture
def server(shards: Path, tmp_path: Path) -> Iterator[Server]:
    with contextlib.closing(Server(shards, tmp_path / "run" / "sock")) as made:
        made.start()
        yield made


def plan(data: Path, **options: Any) -> Seen:
    """What an epoch gives when nothing happens."""
    with DataLoader(data, 4, num_workers=1, **{**OPTIONS, **options}) as loader:
        return seen(loader)


@pytest.mark.parametrize("what", ["socket", "folder"])
def test_a_socket_that_vanishes(server: Server, shards: Path, tmp_path: Path, what: str) -> None:
    with DataLoader(f"unix:{server.socket}", 4, **OPTIONS) as loader:
        iteration = iter(loader)
        got = seen([next(iteration)])
        if what == "socket":
            server.socket.unlink()
        else:
            server.socket.parent.rename(tmp_path / "gone")
        got += seen(iteration)
        assert loader.stats()["reconnects"] == 0
    assert got == plan(shards)
    with pytest.raises(imgfeed.ServerError, match="is a server running there") as error:
        DataLoader(f"unix:{server.socket}", 4, reconnect=0, **OPTIONS)
    server.end(signal.SIGTERM)
    server.start()
    with DataLoader(f"unix:{server.socket}", 4, **OPTIONS) as later:
        assert seen(later) == got
    said = "open sessions continue with the same batches; new clients get an error until a server is started again"
    outcome("the socket is deleted, or its folder with it", said, str(error.value).replace(str(server.socket), "SOCKET"))


@pytest.fixture
def little_memory() -> Iterator[Path]:
    """The cgroup.procs of a control group in which a process that takes more memory than a few batches is killed."""
    old = Path("/sys/fs/cgroup/memory")
    folder = (old if old.is_dir() else old.parent) / f"imgfeed-test-{os.getpid()}"
    limits = {"memory.limit_in_bytes": LITTLE, "memory.swappiness": 0, "memory.max": LITTLE, "memory.swap.max": 0}
    try:
        if not old.is_dir():
            (old.parent / "cgroup.subtree_control").write_text("+memory")
        folder.mkdir()
        there = [file for file in limits if (folder / file).exists()]
        for file in there:
            (folder / file).write_text(str(limits[file]))
    except OSError as e:
        pytest.skip(f"needs a control group with a limit of memory: {e}")
    yield folder / "cgroup.procs"
    wait_for(lambda: not (folder / "cgroup.procs").read_text())
    folder.rmdir()
    assert there, "a control group without a limit of memory"


def test_a_server_that_takes_too_much_memory(shards: Path, server: Server, little_memory: Path) -> None:
    """What the server has by then is not the group's: what it takes from then on is."""
    kills: list[int] = []

    def start_the_next() -> None:
        kills.append(server.process.wait())
        server.start()

    starts = threading.Thread(target=start_the_next)
    starts.start()
    for data in (str(shards), f"unix:{server.socket}"):
        with DataLoader(data, 4, **OPTIONS) as loader:
            iteration = iter(loader)
            got = seen([next(iteration)])
            little_memory.write_text(str(own_pid(loader) if loader._service.server else server.process.pid))
            assert got + seen(iteration) == plan(shards)
            assert loader.stats()["reconnects"] == 1
    starts.join()
    assert kills == [-signal.SIGKILL]
    said = "the kernel kills the server; the same batches come from its successor: a loader's own is restarted at once"
    outcome("a server's control group runs out of memory", said)


def test_a_server_that_stands_still(shards: Path) -> None:
    with DataLoader(shards, 4, num_workers=1, **OPTIONS) as loader:
        halt(own_pid(loader))
        begin, length = time.monotonic(), min(STANDSTILL, 25.0)
        threading.Timer(length, os.kill, (own_pid(loader), signal.SIGCONT)).start()
        assert seen(loader) == plan(shards)
        assert time.monotonic() - begin > 0.9 * length
        assert loader.stats()["reconnects"] == 0
    outcome("a server is stopped (SIGSTOP), for less than 30 s", "batches wait for it, and stay the same")


def goes_on_after_a_halt(
    loader: DataLoader, server: Server, impatient: Callable[[], None], remedy: Callable[[], None], want: Seen
) -> None:
    """Stop a server in the middle of an epoch, and have a thread end that: the loader reconnects, and gives what it should."""
    iteration = iter(loader)
    got = seen([next(iteration)])
    halt(server.process.pid)
    impatient()
    thread = threading.Thread(target=remedy)
    thread.start()
    assert got + seen(iteration) == want
    thread.join()
    assert loader.stats()["reconnects"] == 1


def test_a_server_that_stands_still_for_long(
    shards: Path, server: Server, impatient: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    with DataLoader(shards, 4, num_workers=1, **OPTIONS) as loader:
        pid, iteration = own_pid(loader), iter(loader)
        got = seen([next(iteration)])
        halt(pid)
        impatient()
        assert got + seen(iteration) == plan(shards)
        assert not alive(pid) and loader.stats()["reconnects"] == 1
    caplog.clear()

    def replace() -> None:
        wait_for(lambda: "waiting up to" in caplog.text)
        server.end(signal.SIGKILL)
        server.start()

    with DataLoader(f"unix:{server.socket}", 4, **OPTIONS) as loader:
        goes_on_after_a_halt(loader, server, impatient, replace, plan(shards))
    said = "the same batches: a loader's own server is killed and restarted; it waits for a shared one, or for its successor"
    lost = [record.message for record in caplog.records if "waiting up to" in record.message]
    outcome("a server is stopped for longer", said, lost[0])


def test_a_clock_that_jumps(
    shards: Path,
    server: Server,
    impatient: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The client's, by a year to and fro each time it is read, while a server hangs for too long and goes on."""
    jumps, clock = itertools.cycle((0.0, 3.2e7, -3.2e7)), time.time
    monkeypatch.setattr(time, "time", lambda: clock() + next(jumps))
    begin = time.monotonic()

    def go_on() -> None:
        wait_for(lambda: "waiting up to" in caplog.text)
        server.process.send_signal(signal.SIGCONT)

    with DataLoader(f"unix:{server.socket}", 4, **OPTIONS) as loader:
        goes_on_after_a_halt(loader, server, impatient, go_on, plan(shards))
        stats = loader.stats()
        assert 0.5 < stats["epoch"]["waited"] <= stats["epoch"]["seconds"] < time.monotonic() - begin
    said = "the same batches: waits, timeouts and rates use the monotonic clock"
    outcome("the clock of a client's machine jumps a year, forth and back", said)


STOPS = """
import json, os, signal, sys
from conftest import seen
from test_faults_machine import OPTIONS
from imgfeed import DataLoader
with DataLoader(sys.argv[1], 4, **OPTIONS) as loader:
    iteration = iter(loader)
    got = seen([next(iteration)])
    os.kill(os.getpid(), signal.SIGSTOP)
    print(json.dumps(got + seen(iteration)))
"""


def test_a_client_that_stands_still(shards: Path, server: Server) -> None:
    process = script(STOPS, f"unix:{server.socket}")
    wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
    stopped = time.monotonic()
    expected = plan(shards)
    with DataLoader(f"unix:{server.socket}", 4, **OPTIONS) as loader:
        assert seen(loader) == expected
    time.sleep(max(0.0, stopped + STANDSTILL - time.monotonic()))
    process.send_signal(signal.SIGCONT)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert [tuple(sample) for sample in json.loads(out)] == expected
    said = "the server and its other clients continue; once resumed, the client gets the same batches from where it was"
    outcome("a client is stopped (SIGSTOP), for any time", said)


EPOCH = """
import json, sys, tempfile
from conftest import seen
from test_faults_machine import OPTIONS
import imgfeed
tempfile.tempdir = sys.argv[2]  # chosen before it was full
try:
    with imgfeed.DataLoader(sys.argv[1], 4, num_workers=1, **OPTIONS) as loader:
        print(json.dumps(seen(loader)))
except imgfeed.ImgfeedError as e:
    print(json.dumps([type(e).__name__, str(e)]))
"""


@pytest.fixture
def full() -> Callable[..., list[str]]:
    """What runs a program with a full tmpfs instead of a folder: of bytes, or of names as well."""

    def of(folder: str | Path, *, names: bool = False) -> list[str]:
        files = "nr_inodes=2" if names else "nr_inodes=100"
        fill = f'mount -t tmpfs -o size=64k,{files} tmpfs "$0" && ! head -c 1M /dev/zero 2>&- >"$0/full" && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", fill, str(folder)]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
            pytest.skip("needs root, to mount in a namespace")
        return command

    return of


def epoch(prefix: list[str], data: Path, tmp: Path) -> Any:
    """What a process with that prefix gets, of the set or as its error, with tmp for temporary files."""
    process = script(EPOCH, str(data), str(tmp), prefix=prefix)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return json.loads(out)


def test_full_shared_memory(shards: Path, full: Callable[..., list[str]], tmp_path: Path) -> None:
    assert list(map(tuple, epoch(full("/dev/shm"), shards, tmp_path))) == plan(shards)
    outcome("`/dev/shm` is full", "the same batches: a ring is not a file there, but a memfd")


def test_full_temporary_files(shards: Path, full: Callable[..., list[str]], tmp_path: Path) -> None:
    assert list(map(tuple, epoch(full(tmp_path), shards, tmp_path))) == plan(shards)
    _, said = epoch(full(tmp_path), Path(__file__), tmp_path)
    assert "cannot be indexed" in said  # the server's own words, for which there was no room on the disk
    kind, said = epoch(full(tmp_path, names=True), shards, tmp_path)
    error = getattr(imgfeed, kind)(said.replace(str(tmp_path), "/tmp"))
    outcome("`/tmp` is full", "the same batches: sockets take no space; without space for a file name, an error", error)


def test_a_default_socket_without_room(shards: Path, full: Callable[..., list[str]], tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": ""}
    command = [*full(tmp_path, names=True), find_binary(), "serve", str(shards)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    said = done.stderr.strip().replace(str(tmp_path), "/tmp")
    outcome("`/tmp` has no space for the default socket", "`imgfeed serve` does not start", said)
