"""Checkpoints as files: tested before they are resumed, never half written, never run as code."""

import errno
import json
import os
import pickle
import random
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import Train, equal, events, runner, same, weights

from imgfeed_train import checkpoint, report
from imgfeed_train.checkpoint import Progress
from imgfeed_train.errors import TrainError
from imgfeed_train.flags import parse
from imgfeed_train.model import weights as files
from imgfeed_train.ranks import Rank

#: IMGFEED_HOSTILE_FILES=100000,7 asks for a hundred thousand of each from the seed 7.
COUNT, SEED = (int(n) for n in os.environ.get("IMGFEED_HOSTILE_FILES", "40,1").split(","))
STRANGE: list[Any] = [-1, 0, 1, 2**31, 2**63, 1e300, 0.5, float("nan"), None, True, "", "x", "\0", [], [0], [[1]], {}, {"a": 1}]


def flip(path: Path, part: str) -> None:
    """Flip one bit in the middle of a part of a checkpoint's archive."""
    with zipfile.ZipFile(path) as archive:
        info = max((i for i in archive.infolist() if part in i.filename), key=lambda i: i.file_size)
    data = bytearray(path.read_bytes())
    data[info.header_offset + 30 + len(info.filename) + len(info.extra) + info.file_size // 2] ^= 1
    path.write_bytes(data)


@pytest.fixture(scope="module")
def stopped(sets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eight steps with a checkpoint after each."""
    return runner(sets, tmp_path_factory.mktemp("runs"))("stopped", "--checkpoint-every", "1", "--max-steps", "8")


@pytest.mark.parametrize("how", ["flipped", "cut", "removed"])
def test_the_checkpoint_before_a_damaged_one_is_taken(
    train: Train, whole: Path, stopped: Path, how: str, *, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A flipped bit in the weights is found by the archive's own checksum, which torch.load does not look at."""
    run = shutil.copytree(stopped, tmp_path / "run")
    last = run / "checkpoints" / "last.pt"
    if how == "flipped":
        flip(last, "data/")
        torch.load(last, weights_only=True)
    elif how == "removed":
        last.unlink()
    else:
        last.write_bytes(last.read_bytes()[: 1000 if how == "cut" else 0])
    good = weights(run, "previous.pt")
    capsys.readouterr()
    train("run", "--resume", "auto", "--max-steps", "8")
    said = capsys.readouterr().out
    assert equal(good, weights(run, "previous.pt")), "the damaged one does not replace it"
    train("run", "--resume", "auto")
    assert "resumed " in said and "previous.pt: epoch 1, batch" in said
    assert how == "removed" or f"{last} is damaged: " in said
    same(whole, run)
    steps = [row["step"] for row in events(run, "step")]
    assert steps == sorted(set(steps))


def test_a_damaged_checkpoint_that_is_named_ends_the_run(train: Train) -> None:
    run = train("run", "--epochs", "1")
    best = run / "checkpoints" / "best.pt"
    flip(best, "data/")
    with pytest.raises(SystemExit, match=r"best.pt is damaged: its part .* does not have the checksum"):
        train("run", "--epochs", "2", "--resume", str(best))
    for name in ("last.pt", "previous.pt"):
        (run / "checkpoints" / name).write_bytes(b"")
    with pytest.raises(SystemExit, match=r"last.pt is damaged.*previous.pt is damaged.*no other checkpoint is left"):
        train("run", "--epochs", "2", "--resume", "auto")
    with pytest.raises(SystemExit, match=r"--resume .*none.pt: there is no such checkpoint"):
        train("run", "--resume", str(run / "none.pt"))


def test_pickled_code_is_not_run(train: Train, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    evil = tmp_path / "evil.pt"
    torch.save({"version": checkpoint.VERSION, "model": Evil()}, evil)
    for arguments in (["--resume", str(evil)], ["--weights", str(evil)], ["--evaluate", "--weights", str(evil)]):
        with pytest.raises(SystemExit) as e:
            train("run", *arguments)
        assert "holds pickled code or objects, which are never run" in str(e.value.code)
        assert "weights_only" not in str(e.value.code), "torch advises to switch the check off"
    evil.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(SystemExit, match=r"evil.pt is damaged"):
        train("run", "--resume", str(evil))
    assert not (tmp_path / "ran").exists()


def changed(value: Any, rng: random.Random) -> Any:
    """Return a value with one part of it changed, dropped or added."""
    if isinstance(value, dict) and value and rng.random() < 0.95:
        value = dict(value)
        key = rng.choice(list(value))
        if rng.random() < 0.15:
            del value[key]
        else:
            value[key] = changed(value[key], rng)
        return value
    if isinstance(value, list | tuple) and value and rng.random() < 0.9:
        value = list(value)
        at = rng.randrange(len(value))
        value[at : at + 1] = rng.choice([[], [value[at]] * 2, [changed(value[at], rng)]])
        return value
    if torch.is_tensor(value) and rng.random() < 0.5:
        return rng.choice([value.reshape(-1)[:0], value.double(), value.reshape(-1), value.int()])
    return rng.choice(STRANGE)


def draws() -> Iterator[random.Random]:
    rng = random.Random(SEED)
    for _ in range(COUNT):
        yield rng


class Loader:
    """As much of a loader as a checkpoint is concerned with."""

    batch_size = 4

    def state_dict(self) -> dict[str, int]:
        return {"consumed": 0}

    def load_state_dict(self, state: Any) -> None:
        if not isinstance(state.get("consumed"), int):
            raise ValueError("imgfeed: no state")


def training() -> Any:
    """Return a step of a small model."""
    s = parse(["--data", "d", "--output", "o", "--ema", "0.9"])
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    step = checkpoint.Step(s, Rank(torch.device("cpu")), model, 3, 5)
    step.batch(torch.ones(2, 2, 1, 1), torch.tensor([0, 1]), 1.0, True, 0)
    return step


def test_checkpoints_with_another_content(tmp_path: Path) -> None:
    """Each is resumed at a position that a training can have, or an error names the file."""
    path = tmp_path / "last.pt"
    state = checkpoint.capture(training(), Loader(), Progress(epoch=1, steps=5), ["a", "b", "c"], checkpoint.Images())
    step = training()
    for rng in draws():
        torch.save(changed(state, rng), path)
        try:
            at = checkpoint.restore(step, Loader(), checkpoint.read(path, str(path)), str(path))
            assert min(at.epoch, at.batches, at.steps, at.scored) >= 0
        except (TrainError, ValueError) as e:
            assert str(path) in str(e) or "imgfeed: " in str(e)
        try:
            names = files.own(str(path)).get("classes", [])
            assert files.head_size(files.read(str(path)), str(path)) >= 0 and all(isinstance(name, str) for name in names)
        except TrainError as e:
            assert str(path) in str(e)


def test_checkpoints_with_other_bytes(tmp_path: Path) -> None:
    """A changed file is refused, unless the change lies between the archive's parts."""
    path = tmp_path / "last.pt"
    state = checkpoint.capture(training(), Loader(), Progress(), ["a"], checkpoint.Images())
    torch.save(state, path)
    data = path.read_bytes()
    for rng in draws():
        out = bytearray(data)
        at = rng.randrange(len(out))
        out[at : at + rng.choice([0, 1, 1, 8])] = rng.randbytes(rng.choice([0, 1, 1, 8]))
        path.write_bytes(out[: rng.randrange(len(out)) if rng.random() < 0.1 else len(out)])
        try:
            read = checkpoint.read(path, str(path))
        except TrainError as e:
            assert str(path) in str(e) and "weights_only" not in str(e)
            continue
        assert read["model"].keys() == state["model"].keys()
        assert all(torch.equal(read["model"][name], tensor) for name, tensor in state["model"].items())


def test_logs_of_runs(train: Train) -> None:
    """A log with changed lines is reported, or an error names it."""
    run = train("run", "--epochs", "1")
    log = run / "log.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for rng in draws():
        at = rng.randrange(len(rows))
        lines = [*rows[:at], *rng.choice([[], [changed(rows[at], rng)], [rows[at]] * 2]), *rows[at + 1 :]]
        log.write_text("".join(json.dumps(row) + "\n" for row in lines) + '{"event": "st')
        try:
            report.write(str(run))
        except TrainError as e:
            assert str(log) in str(e)


class Full:
    """A disk on which a file system call fails while it is full."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.full, real = False, os.fsync

        def fsync(fd: int) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(fd)

        patch.setattr(checkpoint, "os", SimpleNamespace(environ=os.environ, fsync=fsync))


def test_a_full_disk_does_not_end_the_training(
    train: Train, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disk, real, saves = Full(monkeypatch), checkpoint.Keeper.save, []

    def save(self: Any, *arguments: Any) -> bool:
        saves.append(1)
        disk.full = len(saves) in (2, 3)
        return bool(real(self, *arguments))

    monkeypatch.setattr(checkpoint.Keeper, "save", save)
    run = train("run", "--checkpoint-every", "3")
    assert weights(run)["progress"]["epoch"] == 2
    said = capsys.readouterr().out
    assert said.count("last.pt can't be written: No space left on device; what was there before is still there") == 2
    assert [path.name for path in sorted((run / "checkpoints").iterdir())] == ["best.pt", "last.pt", "previous.pt"]
    assert all(torch.equal(t, weights(run)["model"][n]) for n, t in weights(whole)["model"].items())


def test_a_disk_that_stays_full_is_an_error_at_the_end(
    train: Train, whole: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train("run", "--max-steps", "2")
    disk = Full(monkeypatch)
    disk.full = True
    with pytest.raises(SystemExit, match=r"last.pt can't be written: No space left"):
        train("run", "--resume", "auto")
    assert weights(tmp_path / "run")["progress"]["steps"] == 2, "what was there before"
    assert events(tmp_path / "run", "end")[-1]["state"] == "failed"
    disk.full = False
    same(whole, train("run", "--resume", "auto"))


def test_an_output_that_takes_no_checkpoints(train: Train, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match=r"--output .*file/run can't be written: Not a directory"):
        train("file/run")
