"""Processes: who starts, who ends, and what happens when one of them is killed."""

import json
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import PATIENCE, SAMPLES, SMALL, Server, alive, halt, indices, own, own_pid, script, wait_for

import imgfeed
from imgfeed import DataLoader
from imgfeed._server import launcher
from imgfeed.programs import find_binary

Load = Callable[..., DataLoader]

OWNER = """
import sys, time
from imgfeed import DataLoader
loader = DataLoader(sys.argv[1], 4, framework="numpy", transform="eval", num_workers=1)
it = iter(loader)
next(it)
print(loader._service.server.process.pid, flush=True)
"""


def test_programs_and_package_are_of_one_version() -> None:
    for name in ("imgfeed", "imgshard"):
        told = subprocess.run([find_binary(name), "version", "--json"], capture_output=True, text=True, check=True).stdout
        assert json.loads(told)["version"] == imgfeed.__version__, f"{name} was not built by make, or before the last change"


def test_own_server_ends_with_the_loader(shards: Path) -> None:
    with own(shards) as loader:
        pid = own_pid(loader)
        assert len(indices(loader)) == SAMPLES
        assert alive(pid)
    assert not alive(pid)


def test_own_server_ends_after_an_alarm_within_poll(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of a signal's handler there leaves the lock of Popen.wait taken."""
    monkeypatch.setattr(launcher, "END_TIMEOUT", 0.1)
    loader = own(shards)
    pid, server = own_pid(loader), loader._service.server
    assert server.process._waitpid_lock.acquire(blocking=False)
    loader.close()
    assert not alive(pid)


#: What an owner does in the end. After the last the process is another program, which goes on.
ENDS = (
    *("pass", "raise SystemExit(3)", "import os; os._exit(0)", "del loader, it; time.sleep(60)", "killed: time.sleep(60)"),
    "import os; os.execv('/bin/sleep', ['sleep', '60'])",
)


@pytest.mark.parametrize("end", ENDS)
def test_own_server_ends_with_its_owner(shards: Path, end: str) -> None:
    with script(OWNER + end.removeprefix("killed: "), str(shards)) as process:
        pid = int(process.stdout.readline())
        if end.startswith("killed"):
            assert alive(pid)
            process.kill()
        wait_for(lambda: not alive(pid))
        assert "execv" not in end or process.poll() is None
        process.kill()


def test_nothing_is_left_behind(shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with own(shards) as loader:
        assert list(tmp_path.iterdir()) == []
        next(iter(loader))
    assert list(tmp_path.iterdir()) == []


STARTING = """
import sys, time
from imgfeed import DataLoader
from imgfeed._server import launcher
launcher.OwnServer._connect = lambda server, path: (print(server.process.pid, flush=True), time.sleep(60))
DataLoader(sys.argv[1], 4, framework="numpy", transform="eval", num_workers=1)
"""


def test_nothing_is_left_of_a_start_that_was_killed(shards: Path, tmp_path: Path) -> None:
    with script(STARTING, str(shards), prefix=["env", f"TMPDIR={tmp_path}"]) as process:
        pid = int(process.stdout.readline())
        wait_for(lambda: len(list(tmp_path.glob("imgfeed-*/sock"))) == 1)
        process.kill()
        wait_for(lambda: not alive(pid))
    assert list(tmp_path.iterdir()) == [tmp_path / f"imgfeed-{os.getuid()}"], "the folder of all servers of this user"
    assert list(tmp_path.glob("*/*")) == []


def test_a_long_folder_for_temporary_files(shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with own(shards) as loader:
        assert len(indices(loader)) == SAMPLES
    assert list(folder.iterdir()) == []


def test_a_path_that_looks_like_a_flag(shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "--threads").symlink_to(shards)
    monkeypatch.chdir(tmp_path)
    with own(Path("--threads")) as loader:
        assert len(indices(loader)) == SAMPLES


def test_the_working_directory_may_change(shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hydra, for one, gives each run a folder of its own, where other data may have the same name."""
    (tmp_path / shards.name).mkdir()
    monkeypatch.setenv("IMGFEED_BIN", os.path.relpath(find_binary(), shards.parent))
    monkeypatch.chdir(shards.parent)
    relative = Path(shards.name)
    options = {"framework": "numpy", "with_index": True, "decode": "full", "map": lambda image: image[:32, :32].copy()}
    with own(relative) as loader, DataLoader(relative, 8, num_workers=1, **options) as whole:
        assert re.match(r"<imgfeed LoaderDataset: split 'train', \d+ samples, original>", repr(loader.dataset))
        assert re.match(r"<imgfeed Sampler: \d+ samples of epoch 0, rank 0 of 1>", repr(loader.sampler))
        assert f"'{shards}'" in repr(loader) and repr(imgfeed.Dataset(relative)).startswith(f"imgfeed.Dataset('{shards}'")
        iteration = iter(loader)
        got = indices([next(iteration)])
        monkeypatch.chdir(tmp_path)
        os.kill(own_pid(loader), signal.SIGKILL)
        assert got + indices(iteration) == list(range(SAMPLES)) == indices(whole)
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert indices(copy) == list(range(SAMPLES))


def test_closing_wakes_a_thread_that_waits(shards: Path, tmp_path: Path) -> None:
    """The server is held, so that no batch comes: of a server of others, closing is all that can end the wait."""
    server = Server(shards, tmp_path / "sock")
    server.start()
    loader = DataLoader(f"unix:{server.socket}", 4, framework="numpy", transform=SMALL, slots=1)
    iteration = iter(loader)
    held = next(iteration)
    halt(server.process.pid)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(list, iteration)
        (thread,) = pool._threads
        wait_for(lambda: sys._current_frames()[thread.ident or 0].f_code.co_name == "ready")
        loader.close()
        with pytest.raises(imgfeed.ServerError, match=r"the loader was closed during this iteration$"):
            waits.result(PATIENCE)
    server.process.send_signal(signal.SIGCONT)
    server.end(signal.SIGTERM)
    assert held[0].any()


def test_timeout_leaves_the_epoch_whole(shards: Path) -> None:
    with own(shards, slots=1) as loader:
        iteration = iter(loader)
        seen = indices([next(iteration)])
        halt(own_pid(loader))
        iteration.timeout = 0.2  # and none while the server runs, which on a busy machine may be held up for as long
        try:
            with pytest.raises(TimeoutError):
                while True:
                    seen += indices([next(iteration)])
        finally:
            os.kill(own_pid(loader), signal.SIGCONT)
            iteration.timeout = 0
        seen += indices(iteration)
        assert seen == list(range(SAMPLES))


def test_ctrl_c_interrupts_the_wait_for_a_batch(shards: Path) -> None:
    code = """
import os, signal, sys, threading, time
from conftest import halt
from imgfeed import DataLoader
loader = DataLoader(sys.argv[1], 4, framework="numpy", transform="eval", num_workers=1, slots=1)
it = iter(loader)
halt(loader._service.server.process.pid)
try:
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    for _ in it: pass
except KeyboardInterrupt:
    os.kill(loader._service.server.process.pid, signal.SIGCONT)
    print("interrupted", sum(len(i) for i, _ in loader), flush=True)
"""
    with script(code, str(shards)) as process:
        out, err = process.communicate(timeout=PATIENCE)
        assert out.split() == ["interrupted", str(SAMPLES)], err


def _in_child(loader: DataLoader, iteration: object, results: object) -> None:
    try:
        next(iteration)
        error = "none"
    except imgfeed.ServerError as e:
        error = str(e)
    results.put((error, indices(loader)))
    loader.close()


def test_a_forked_child_connects_anew(load: Load, shards: Path) -> None:
    fork = multiprocessing.get_context("fork")
    for loader in (load(8), own(shards)):
        iteration = iter(loader)
        held = next(iteration)
        want = held[0].copy()
        results = fork.Queue()
        child = fork.Process(target=_in_child, args=(loader, iteration, results))
        child.start()
        error, got = results.get(timeout=PATIENCE)
        child.join()
        assert "fork" in error and "ended" not in error
        assert got == list(range(SAMPLES))
        assert indices(iteration) == list(range(8, SAMPLES))  # the parent's epoch goes on undisturbed
        assert (held[0] == want).all()
        loader.close()


def test_the_first_batch_waits_for_no_timeout(shards: Path) -> None:
    """It takes a tenth of a second; a busy machine may make more of that, but not each time as much as a wait would."""

    def seconds() -> float:
        begin = time.perf_counter()
        with own(shards) as loader:
            next(iter(loader))
            return time.perf_counter() - begin

    assert any(seconds() < 4 for _ in range(20))


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IMGFEED_BIN", str(tmp_path / "imgfeed"))
    with pytest.raises(imgfeed.BinaryNotFoundError, match="IMGFEED_BIN"):
        DataLoader(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_data_that_is_no_set_says_what_was_found(tmp_path: Path) -> None:
    with pytest.raises(imgfeed.ServerError, match="did not start") as caught:
        DataLoader(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("limit", "size", "says"),
    [
        ("AS", 1 << 29, "start: the limit of virtual memory (ulimit -v) is 0.5 GiB: raise it to 4 GiB or more\n"),
        ("FSIZE", 1 << 16, "bytes: file too large: raise the limit of a file's size (ulimit -f)\n"),
    ],
)
def test_a_small_limit_is_named(shards: Path, limit: str, size: int, says: str) -> None:
    small = f"resource.setrlimit(resource.RLIMIT_{limit}, ({size}, {size}))"
    code = f"import sys, resource, imgfeed; {small}; imgfeed.DataLoader(sys.argv[1], 8, framework='numpy')"
    with script(code, str(shards)) as process:
        assert process.communicate(timeout=PATIENCE)[1].endswith(says)


def test_of_a_server_that_crashed_the_reason_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "imgfeed"
    reason = "runtime: may need to increase max user processes (ulimit -u)\nfatal error: newosproc"
    stack = "\n".join(f"main.f{n}(...)\n\tmain.go:{n} +0x1" for n in range(100))
    program.write_text(f"#!/bin/sh\ncat >&2 <<'.'\nopening\n{reason}\n\ngoroutine 1 [running]:\n{stack}\n.\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("IMGFEED_BIN", str(program))
    with pytest.raises(imgfeed.ServerError, match="did not start") as caught:
        own(tmp_path)
    assert str(caught.value).endswith(f"did not start: {reason}")


def test_a_server_that_opens_its_data_slowly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shards: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each line that it prints begins the time-out anew, by a clock that goes on with the lines."""
    program, lines = tmp_path / "imgfeed", tmp_path / "lines"
    lines.touch()
    opening = f"for n in 1 2 3; do echo opening: $n of 4 shards >&2; echo >>{lines}; sleep 0.3; done"
    program.write_text(f'#!/bin/sh\n{opening}\nexec {find_binary()} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("IMGFEED_BIN", str(program))
    monkeypatch.setattr(launcher, "START_TIMEOUT", 5.0)
    clock = SimpleNamespace(monotonic=lambda: 4.0 * lines.stat().st_size, sleep=time.sleep)
    monkeypatch.setattr(launcher, "time", clock)
    with own(shards) as loader:
        assert next(iter(loader)) is not None
    assert clock.monotonic() > 2 * launcher.START_TIMEOUT and re.search(r"is starting: opening: \d of 4 shards", caplog.text)
    program.write_text(f"#!/bin/sh\necho hello >&2\nwhile sleep 0.1; do echo >>{lines}; done\n")
    with pytest.raises(imgfeed.TimeoutError, match=r"did not start within 5 s: hello"):
        own(shards)


def test_other_systems_are_told_what_works(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "sys", SimpleNamespace(platform="darwin"))
    with pytest.raises(imgfeed.UnsupportedError, match=r"no server for darwin: .* Train on Linux, or in a container"):
        DataLoader(shards)
    script = "import sys; sys.platform = 'darwin'; import imgfeed; print(imgfeed.__version__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{imgfeed.__version__}\n"
    assert "RuntimeWarning: imgfeed: there is no server for darwin" in done.stderr and "imgshard packs sets" in done.stderr
