"""Whatever becomes of the trainer's own files, it goes on as they say or tells which is wrong: small real ones, changed."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from logs import made_up
from torch import nn

from imgfeed_train import score
from imgfeed_train.checkpoint import files, state
from imgfeed_train.errors import TrainError
from imgfeed_train.launch import notes
from imgfeed_train.model import weights
from imgfeed_train.report import compare, page, plots

#: IMGFEED_HOSTILE_FILES=100000,7 asks for a hundred thousand of each from the seed 7.
COUNT, SEED = (int(n) for n in os.environ.get("IMGFEED_HOSTILE_FILES", "100,1").split(","))
NUMBERS = [-1, 0, 1, 2**31, 2**63, 2**64, 1e300, 0.5, float("nan")]
STRANGE: list[Any] = [*NUMBERS, None, True, "", "x", "\0", [], [0], [[1]], {}, {"a": 1}]
PLACE = SimpleNamespace(rank=0, world=1, local_rank=0)


@pytest.fixture(autouse=True)
def _no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "draw", lambda books, _: [plots.panels(book) for book in books])


def changed(value: Any, rng: random.Random) -> Any:
    """Return a value with one place in it changed, dropped or added."""
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
        return rng.choice([value[:0], value.double(), value.reshape(-1), value.int()])
    if isinstance(value, int) and rng.random() < 0.3:
        return value + rng.choice([-1, 1, 64, -value - 1])
    return rng.choice(STRANGE)


def garbled(data: bytes, rng: random.Random) -> bytes:
    """Return a file with some bytes changed, lost or added, or cut short."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out) + 1)
        out[at : at + rng.choice([0, 1, 1, 1, 8])] = rng.randbytes(rng.choice([0, 1, 1, 1, 8]))
    return bytes(out[: rng.randrange(len(out) + 1)] if rng.random() < 0.1 else out)


def draws() -> Iterator[random.Random]:
    rng = random.Random(SEED)
    for _ in range(COUNT):
        yield rng


def training() -> tuple[Any, Any]:
    """Return a step and a feed, as far as a checkpoint is concerned with them."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(2, 2)).sum().backward()
    opt.step()
    schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda _: 1.0)
    settings = SimpleNamespace(saved=lambda: {"arch": "x", "lr": 0.1}, arch="x", accumulate=1, seed=1, lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=True)
    fields = {"s": settings, "total": 10, "ema": None, "device": torch.device("cpu")}
    loader = SimpleNamespace(state_dict=lambda: {"consumed": 0}, load_state_dict=lambda _: None)
    feed = SimpleNamespace(
        loader=loader, batch_size=4, classes=["a", "b", "c"], stats=((0.5,) * 3, (0.2,) * 3), steps_per_epoch=5, left=lambda: 20
    )
    return SimpleNamespace(model=model, optimizer=opt, schedule=schedule, scaler=scaler, **fields), feed


def checkpoint() -> dict[str, Any]:
    """Return the whole state of a training."""
    step, feed = training()
    return state.snapshot(step, feed, state.Progress(epoch=1, steps=5), PLACE)


def resumed(path: Path) -> tuple[state.Progress, list[str]]:
    """Go on from a checkpoint."""
    _, content = files.find(SimpleNamespace(checkpoints=None, output=str(path.parent)), str(path))
    assert content is not None
    return state.resume(*training(), PLACE, content, str(path))


def test_checkpoints_with_another_content(tmp_path: Path) -> None:
    """It is resumed, or an error names the file; where it is resumed, its place is one that a training can be at."""
    path, whole = tmp_path / "last.pt", checkpoint()
    for rng in draws():
        torch.save(changed(whole, rng), path)
        try:
            at, said = resumed(path)
            assert min(at.epoch, at.batches, at.steps) >= 0 and said
        except TrainError as e:
            assert str(path) in str(e)
        try:
            count, names = weights.outputs(str(path))
            assert count >= 0 and all(isinstance(name, str) for name in names)
            weights.stats(str(path))
        except TrainError as e:
            assert str(path) in str(e)


def test_checkpoints_with_other_bytes(tmp_path: Path) -> None:
    """They are read as what they were, but for what holds no tensor, or an error names the file: archives have checksums."""
    path, whole = tmp_path / "last.pt", checkpoint()
    torch.save(whole, path)
    data = path.read_bytes()
    for rng in draws():
        path.write_bytes(garbled(data, rng))
        try:
            resumed(path)
        except TrainError as e:
            assert str(path) in str(e)


def test_logs_of_runs(tmp_path: Path) -> None:
    """They are reported and compared, or an error names the log."""
    run, other = made_up(tmp_path / "run", hosts=["a", "b"], rate=256.0, late=1), made_up(tmp_path / "b", hosts=["a"], rate=1.0)
    log = run / "log.jsonl"
    text = log.read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    for rng in draws():
        if rng.random() < 0.5:
            log.write_bytes(garbled(text.encode(), rng))
        else:
            at = rng.randrange(len(rows))
            lines = [*rows[:at], *rng.choice([[], [changed(rows[at], rng)], [rows[at]] * 2]), *rows[at + 1 :]]
            log.write_text("".join(json.dumps(row) + "\n" for row in lines))
        for told in (lambda: page.write(run), lambda: compare.write(run, other)):
            try:
                told()
            except TrainError as e:
                assert str(log) in str(e) or str(run) in str(e)


def test_real_labels(tmp_path: Path) -> None:
    """They are lists of whole numbers, or an error names the file."""
    path = tmp_path / "real.json"
    labels = [[1, 2], [], [7]]
    for rng in draws():
        path.write_bytes(garbled(json.dumps(changed(labels, rng)).encode(), rng))
        try:
            read = score.read_real_labels(str(path))
            assert all(isinstance(label, int) for of in read for label in of)
        except TrainError as e:
            assert str(path) in str(e)
    path.write_text("[" * 100_000)
    with pytest.raises(TrainError, match="can't be read"):
        score.read_real_labels(str(path))


def test_notes_of_a_child(tmp_path: Path) -> None:
    """A child that is killed while it writes leaves a note that is whole, or none."""
    path = tmp_path / "notes"
    note = json.dumps({"doing": "computes", "epoch": 1, "batch": 2, "seconds": 0.5, "beat": 3}).encode()
    for rng in draws():
        path.write_bytes(garbled(note, rng).ljust(notes.NOTE_BYTES))
        assert str(notes.read_note(str(path)))
