"""Loaders among processes and threads: made before or after, by every way to start one; several at once; group signals."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE, SAMPLES, alive, indices, own, own_pid, script, wait_for

from imgfeed import DataLoader

Load = Callable[..., DataLoader]
STARTS = ("fork", "spawn", "forkserver")


def _make_and_iterate(shards: Path, end: str, results: Any) -> None:
    """Make a loader in this process, and end without closing it."""
    loader = own(shards, shuffle=True, seed=5)
    seen = indices(loader)
    iteration = iter(loader)
    next(iteration)
    results.put((seen, own_pid(loader)))
    if end == "exit":
        sys.exit(0)
    if end == "raise":
        sys.stderr.close()  # multiprocessing prints it
        raise RuntimeError


@pytest.mark.parametrize("end", ["return", "exit", "raise"])
@pytest.mark.parametrize("start", STARTS)
def test_a_loader_made_in_another_process(shards: Path, start: str, end: str) -> None:
    """In one that may have no children of multiprocessing, as workers are, beside a loader of the parent that iterates."""
    context = multiprocessing.get_context(start)
    with own(shards, shuffle=True, seed=5) as loader:
        want = list(loader.sampler)
        iteration = iter(loader)
        seen = indices([next(iteration)])
        results = context.SimpleQueue()
        child = context.Process(target=_make_and_iterate, args=(shards, end, results), daemon=True)
        child.start()
        got, pid = results.get()
        child.join(PATIENCE)
        assert child.exitcode == (1 if end == "raise" else 0)
        assert got == want
        wait_for(lambda: not alive(pid))
        assert own_pid(loader) != pid and alive(own_pid(loader))
        assert seen + indices(iteration) == want


def test_a_forked_child_that_ends_leaves_its_parent_alone(shards: Path) -> None:
    """A plain fork, whose child ends as an interpreter does: with what it has inherited, and with an iteration of its own."""
    code = """
import os, sys
from imgfeed import DataLoader
small = [{"op": "Resize", "size": 40}, {"op": "CenterCrop", "size": 32}]
loader = DataLoader(sys.argv[1], 8, framework="numpy", transform=small, num_workers=1, slots=3)
it = iter(loader)
count = len(next(it)[1])
for use in (False, True):
    child = os.fork()
    if child == 0:
        if use:
            loader.set_epoch(0)
            next(iter(loader))
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    count += len(next(it)[1])
print(count + sum(len(labels) for _, labels in it))
"""
    with script(code, str(shards)) as process:
        assert process.communicate(timeout=PATIENCE) == (f"{SAMPLES}\n", "")
        assert process.returncode == 0


def test_several_loaders_in_a_process(shards: Path) -> None:
    """In turns, and one within the other's loop, as a validation is: each with a server of its own."""
    with own(shards, shuffle=True, seed=1) as train, own(shards, 16) as val:
        assert own_pid(train) != own_pid(val)
        first, second = iter(train), iter(val)
        seen: tuple[list[int], list[int]] = ([], [])
        for batch in first:
            seen[0].extend(batch[2].tolist())
            for other in second:
                seen[1].extend(other[2].tolist())
                break
        assert sorted(seen[0]) == seen[1] == list(range(SAMPLES))
        for _ in train:
            assert indices(val) == list(range(SAMPLES))
            break
        train.close()
        assert indices(val) == list(range(SAMPLES))


def test_threads_that_share_an_iteration(load: Load) -> None:
    """Each batch goes to one of them."""
    loader = load(4, shuffle=True)
    iteration = iter(loader)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(indices, [iteration] * 4))
    assert sorted(i for part in parts for i in part) == list(range(SAMPLES))
    assert len(indices(loader)) == SAMPLES


def test_an_iteration_goes_to_another_thread(shards: Path) -> None:
    """As programs have it that fetch ahead: begun here, and gone through there, by a thread that ends first."""
    with own(shards) as loader:
        for _ in range(2):
            iteration, seen = iter(loader), []
            thread = threading.Thread(target=lambda it, to: to.extend(indices(it)), args=(iteration, seen))
            thread.start()
            thread.join(PATIENCE)
            assert seen == list(range(SAMPLES))
        assert alive(own_pid(loader))


def test_a_loader_made_by_a_thread_that_has_ended(shards: Path) -> None:
    """The server ends with the process, not with the thread that started it."""
    made: list[DataLoader] = []
    thread = threading.Thread(target=lambda: made.append(own(shards)))
    thread.start()
    thread.join(PATIENCE)
    with made[0] as loader:
        assert len(indices(loader)) == len(indices(loader)) == SAMPLES


def test_an_interrupt_of_the_whole_group(shards: Path) -> None:
    """Ctrl-C in a terminal and a notebook's button signal the server too: it goes on for a program that catches it."""
    code = """
import sys, time
from imgfeed import DataLoader
small = [{"op": "Resize", "size": 40}, {"op": "CenterCrop", "size": 32}]
loader = DataLoader(sys.argv[1], 8, framework="numpy", transform=small, num_workers=1, slots=3)
try:
    for _ in loader:
        print("ready", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    loader.set_epoch(0)
    print(sum(len(labels) for _, labels in loader), flush=True)
"""
    path = os.pathsep.join(p for p in sys.path if p)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(shards)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path}, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=PATIENCE) == (f"{SAMPLES}\n", "")
