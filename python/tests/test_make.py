"""How `make test` runs its parts side by side: what is shown of them, and what a signal leaves."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE, alive, wait_for

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "parts.py"
#: Instead of make: a part named bad fails, one named wait waits for a process.
MAKE = """
case $1 in
bad) echo "a failure"; echo "and its reason"; exit 2;;
idle) echo "12 skipped, 3 deselected, 1 warning in 0.10s";;
wait) sleep 600 & echo $! >"$1.pids"; echo $$ >>"$1.pids"; wait;;
*) echo "much"; echo; echo "all of $1 passed";;
esac
"""


def parts(folder: Path, *names: str) -> subprocess.Popen[str]:
    """Start parts, two at a time."""
    make = folder / "make"
    make.write_text("#!/bin/sh\n" + MAKE)
    make.chmod(0o755)
    command = [sys.executable, str(SCRIPT), "logs", "2", *names, "--", str(make)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def test_of_a_part_that_passes_the_last_line_is_shown(tmp_path: Path) -> None:
    run = parts(tmp_path, "one", "two", "three", "idle")
    said = run.communicate()[0]
    assert run.returncode == 0
    assert re.search(r"idle: SKIPPED in \d+ s: 12 skipped, ", said), "a part of which nothing ran has not passed"
    for name in ("one", "two", "three"):
        assert re.search(rf"{name}: passed in \d+ s: all of {name} passed\n", said)
    assert "much" not in said
    assert (tmp_path / "logs" / "one.log").read_text() == "much\n\nall of one passed\n"


def test_a_part_that_fails_is_shown_whole_and_the_others_go_on(tmp_path: Path) -> None:
    run = parts(tmp_path, "bad", "one", "two")
    said = run.communicate()[0]
    assert run.returncode == 1
    assert "a failure\nand its reason\n" in said
    summary = re.sub(r"\d+ s", "0 s", said.rpartition("\n\n")[2]).splitlines()
    assert sorted(summary) == [
        "bad: FAILED in 0 s, see logs/bad.log",
        "one: passed in 0 s: all of one passed",
        "two: passed in 0 s: all of two passed",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_that_was_started(tmp_path: Path, number: signal.Signals) -> None:
    pids = tmp_path / "wait.pids"
    run = parts(tmp_path, "wait", "one", "two")
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    wait_for((tmp_path / "logs" / "two.log").exists)
    os.kill(run.pid, number)
    said = run.communicate(timeout=PATIENCE)[0]
    assert run.returncode == 128 + number
    assert f"ended by {number.name}: wait" in said
    wait_for(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))
