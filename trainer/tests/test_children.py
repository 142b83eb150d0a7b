"""The ranks of a node as children of one process: all are ended and waited for, and one error says which failed, and how."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import PLAIN, TINY, command, events

from imgfeed_train.errors import TrainError
from imgfeed_train.launch import children
from imgfeed_train.launch.notes import Note, Notes, leave_error, read_child, verdict
from imgfeed_train.launch.place import Place


def ranks(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Have children run a script in place of the trainer."""
    (folder / "rank").write_text(f"#!{sys.executable}\n{script}")
    (folder / "rank").chmod(0o755)
    monkeypatch.setattr(children.sys, "executable", str(folder / "rank"))


NOTING = """
import json, os, signal, sys, time
rank, notes = int(os.environ["RANK"]), int(os.environ["IMGFEED_TRAIN_NOTES"])
note = {"doing": "computes", "epoch": 3, "batch": 17, "seconds": 0.1, "beat": 4}
os.pwrite(notes, json.dumps(note).encode(), 0)
def error(text, second_hand):
    os.pwrite(notes, json.dumps({"error": text, "second_hand": second_hand}).encode(), 4096)
    sys.exit(1)
"""


def test_a_killed_rank_is_named_and_the_others_are_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rank 0 does not listen to SIGTERM, as one that hangs in a collective."""
    script = f"""{NOTING}
if rank == 1:
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
time.sleep(60)
"""
    ranks(monkeypatch, tmp_path, script)
    monkeypatch.setattr(children, "NOTICING_SECONDS", 0.2)
    monkeypatch.setattr(children, "ENDING_SECONDS", 0.5)
    said = r"^rank 1 was killed by SIGKILL, perhaps by the kernel, .*; it last computes in epoch 3, batch 17$"
    with pytest.raises(TrainError, match=said):
        children.spawn(Place(world=2, local_world=2, port=0, spawn=2), [])
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


@pytest.mark.parametrize(
    ("zero", "one", "said"),
    [
        (
            'error("rank 1 is gone", True)',
            'time.sleep(0.3); error("no such disk", False)',
            "rank 1: no such",
        ),
        ('error("bad bucket", False)', 'error("bad bucket", False)', "bad bucket"),
        ("sys.exit(3)", "time.sleep(60)", "rank 0 ended with exit status 3; it last computes in epoch 3, batch 17"),
    ],
)
def test_one_error_for_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, zero: str, one: str, said: str) -> None:
    """What a rank says of itself is told before what another says of it, and what all say is said once."""
    monkeypatch.setattr(children, "NOTICING_SECONDS", 0.2)
    quiet = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if "disk" in one else ""
    ranks(monkeypatch, tmp_path, f"{NOTING}\n{quiet}\nif rank == 0: {zero}\nelse: {one}\n")
    with pytest.raises(TrainError, match=f"^{said}"):
        children.spawn(Place(world=2, local_world=2, port=0, spawn=2), [])


def test_stopped_ranks_are_no_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ranks(monkeypatch, tmp_path, f"{NOTING}\nsys.exit(75 * rank)")
    assert children.spawn(Place(world=2, local_world=2, port=0, spawn=2), [], 75) == 75


def test_notes_and_errors_reach_the_parent() -> None:
    fd = os.memfd_create("test")
    assert read_child(fd) == (Note(), "", False)
    place = Place(notes=fd)
    notes = Notes(place)
    notes.doing("writes a checkpoint", 2, 5)
    notes.close()
    note, error, _ = read_child(fd)
    assert (str(note), error) == ("writes a checkpoint in epoch 2, batch 5", "")
    assert leave_error(place, "x" * 100_000, second_hand=True)
    assert read_child(fd)[1:] == ("x" * 8192, True)
    assert not leave_error(Place(), "x", second_hand=False)
    os.close(fd)


def test_who_is_late() -> None:
    waits, computes = Note("waits for its data", 3, 17, 25.0, 9), Note("computes", 3, 17, 25.0, 9)
    again = [Note(n.doing, n.epoch, n.batch, n.seconds + 3, n.beat + 3) for n in (computes, waits)]
    assert verdict([computes, waits], again, 0) == "rank 1 waits for its data in epoch 3, batch 17, for 28 s"
    assert verdict([computes, waits], [again[0], waits], 0).startswith(
        "rank 1 is silent (stopped, killed, or its machine is gone)"
    )
    early = Note("writes a checkpoint", 3, 16, 40.0, 12)
    assert verdict([computes, waits, waits], [again[0], early, again[1]], 0) == (
        "rank 1 is late: it writes a checkpoint in epoch 3, batch 16, for 40 s"
    )
    assert "before the first epoch" in verdict([computes, Note()], [again[0], Note("builds the model", beat=1)], 0)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_gone_or_late(sets: Path, tmp_path: Path, number: int) -> None:
    """Rank 1 is killed, or stopped for longer than --collective-timeout: one line, after which none of the run is left."""
    run = tmp_path / "run"
    base = ["--data", str(sets), "--output", str(run), *TINY, *PLAIN, "--batch-size", "8", "--epochs", "500"]
    more = ["-n1", "-g", "2", "--collective-timeout", "8", "--schedule", "constant"]
    with subprocess.Popen(command(*base, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("Epoch: [1]"):
            assert process.poll() is None
        below = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(below) == 2, "a child starts none, however its parent's arguments were spelt"
        child = next(pid for pid in below if b"\0RANK=1\0" in Path(f"/proc/{pid}/environ").read_bytes())
        os.kill(int(child), number)
        begun = time.monotonic()
        process.stdout.read()
        said = process.stderr.read().splitlines()
    assert process.returncode == 1
    ours = [line for line in said if line.startswith("imgfeed-train: ")]
    assert len(ours) == 1, said
    assert not any("Traceback" in line for line in said), said
    assert "rank 1 was killed by SIGKILL" in ours[0] if number == signal.SIGKILL else "rank 1 is silent" in ours[0], ours
    assert number == signal.SIGKILL or "--collective-timeout 8 s" in ours[0] or "is gone" in ours[0]
    assert time.monotonic() - begun < 90
    assert not any(Path("/proc", pid).exists() for pid in below)
    assert events(run, "end")[-1]["state"] == "failed"
