"""The ranks of a node as children of one process: all are ended and waited for, and one error says which failed, and how."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import PLAIN, TINY, command, events
from torch.distributed.elastic import multiprocessing as elastic

from imgfeed_train.errors import LostRankError, TrainError
from imgfeed_train.launch import children
from imgfeed_train.launch.notes import Note, Notes, leave_error, read_note, verdict
from imgfeed_train.launch.place import HOW, Place


def ranks(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Have children run a script in place of the trainer."""
    (folder / "rank").write_text(f"#!{sys.executable}\n{script}")
    (folder / "rank").chmod(0o755)
    monkeypatch.setattr(children.sys, "executable", str(folder / "rank"))


NOTING = """
import json, os, signal, sys, time
rank = int(os.environ["RANK"])
def note(doing):
    left = {"doing": doing, "epoch": 3, "batch": 17, "seconds": 0.1, "beat": 4}
    open(os.environ["IMGFEED_TRAIN_NOTES"], "w").write(json.dumps(left))
def error(text, kind="TrainError"):
    open(os.environ["TORCHELASTIC_ERROR_FILE"], "w").write(json.dumps({"message": text, "kind": kind, "timestamp": 0}))
    sys.exit(1)
note("computes")
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
    monkeypatch.setattr(elastic.PContext.close, "__defaults__", (None, 1))
    said = r"^rank 1 was killed by SIGKILL, perhaps by the kernel, .*; it last computes in epoch 3, batch 17$"
    with pytest.raises(TrainError, match=said):
        children.spawn(Place(world=2, local_world=2, port=0, spawn=2), [], 0)
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


@pytest.mark.parametrize(
    ("zero", "one", "said"),
    [
        (
            'error("rank 1 is gone", "LostRankError")',
            'time.sleep(0.3); error("no such disk")',
            "rank 1: no such",
        ),
        ('error("no such disk")', "time.sleep(60)", "rank 0: no such disk"),
        ('error("bad bucket", "AgreedError")', "time.sleep(60)", "bad bucket"),
        ("sys.exit(3)", "time.sleep(60)", "rank 0 ended with exit status 3; it last computes in epoch 3, batch 17"),
    ],
)
def test_one_error_for_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, zero: str, one: str, said: str) -> None:
    """What a rank says of itself is told before what another says of it, and what all say is said once."""
    if "disk" in one:  # rank 0 fails once rank 1 does not listen to SIGTERM
        deaf = str(tmp_path / "deaf")
        zero = f"\n    while not os.path.exists({deaf!r}): time.sleep(0.01)\n    {zero}"
        one = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); open({deaf!r}, 'w'); {one}"
    ranks(monkeypatch, tmp_path, f"{NOTING}\nif rank == 0: {zero}\nelse: {one}\n")
    with pytest.raises(TrainError, match=f"^{said}"):
        children.spawn(Place(world=2, local_world=2, port=0, spawn=2), [], 0)


def test_stopped_ranks_are_no_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ranks(monkeypatch, tmp_path, f"{NOTING}\nif rank: note('stopped before its end')")
    assert children.spawn(Place(world=2, local_world=2, port=0, spawn=2), [], 75) == 75
    assert children.spawn(Place(world=2, local_world=2, port=0, spawn=2), [], None) == 0


def test_notes_and_errors_reach_the_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "note")
    assert read_note(path) == Note()
    text = Notes._text

    def late(notes: Notes) -> str:
        said = text(notes)
        time.sleep(0.1 * (threading.current_thread().name == "notes"))  # the main thread goes on meanwhile
        return said

    monkeypatch.setattr(Notes, "_text", late)
    notes = Notes(Place(notes=path))
    notes.doing("writes a checkpoint", 2, 5)
    notes.close()
    for thread in threading.enumerate():
        if thread.name == "notes":
            thread.join()
    assert str(read_note(path)) == "writes a checkpoint in epoch 2, batch 5"
    file = tmp_path / "error.json"
    assert leave_error(LostRankError("gone"), {HOW: "", "TORCHELASTIC_ERROR_FILE": str(file)})
    left = elastic.errors.ProcessFailure(0, 1, 1, str(file)).error_file_data
    assert (left["message"], left["kind"]) == ("gone", "LostRankError")
    assert not leave_error(LostRankError("gone"), {"TORCHELASTIC_ERROR_FILE": str(file)})


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.3, 1.5, 4.0])
def test_a_run_that_is_stopped_before_its_first_step(sets: Path, tmp_path: Path, seconds: float) -> None:
    """By SIGTERM while python starts, torch loads, or the ranks meet: no failure, as there is nothing to save."""
    base = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, *PLAIN, "--epochs", "500", "--stopped-status", "75"]
    with subprocess.Popen(command(*base, "-g", "2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while b"libtorch" not in Path(f"/proc/{process.pid}/maps").read_bytes():  # it has its own way of ending from then on
            time.sleep(0.01)
        time.sleep(seconds)
        process.terminate()
        said = process.communicate(timeout=60)
    assert process.returncode == 75, said
    assert "killed" not in said[1]


@pytest.mark.long
def test_ranks_end_with_their_parent(sets: Path, tmp_path: Path) -> None:
    base = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, *PLAIN, "--batch-size", "8", "--epochs", "500"]
    with subprocess.Popen(command(*base, "-g", "2"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("Epoch: [1]"):
            assert process.poll() is None
        below = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(below) == 2
        process.kill()
        assert "go on with --resume auto" in process.stdout.read()  # to the end: when no rank is left to write


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
