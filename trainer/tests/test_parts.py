"""The parts that need no training: checkpoints on disk and at URLs, sizes, the largest batch, schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from imgfeed_train import optim
from imgfeed_train.checkpoint import files as checkpoint
from imgfeed_train.data import loaders, transforms
from imgfeed_train.errors import TrainError
from imgfeed_train.launch.place import Place
from imgfeed_train.model import largest_batch as fit
from imgfeed_train.settings import parse


def test_checkpoint_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save({"version": checkpoint.VERSION, "x": torch.ones(3)}, str(tmp_path), "last.pt")
    real = torch.save

    def breaks(state: Any, f: Any) -> None:
        real(state, f)
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", breaks)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save({"version": checkpoint.VERSION, "x": torch.zeros(3)}, str(tmp_path), "last.pt")
    state = checkpoint.load(str(tmp_path / "last.pt"))
    assert state is not None
    assert torch.equal(state["x"], torch.ones(3))


def test_checkpoint_at_a_url() -> None:
    pytest.importorskip("fsspec")
    checkpoint.save({"version": checkpoint.VERSION, "x": 5}, "memory://bucket/run", "last.pt")
    assert checkpoint.load("memory://bucket/run/last.pt") == {"version": checkpoint.VERSION, "x": 5}
    assert checkpoint.load("memory://bucket/run/best.pt") is None


def test_checkpoint_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(TrainError, match="can't be read as a checkpoint"):
        checkpoint.load(str(tmp_path / "a.pt"))
    torch.save({"version": 99}, tmp_path / "b.pt")
    with pytest.raises(TrainError, match="another version"):
        checkpoint.load(str(tmp_path / "b.pt"))


@pytest.mark.parametrize(("arguments", "want"), [([], None), (["--resampler", "pillow-12"], "pillow-12")])
def test_resampler_is_asked_for(arguments: list[str], want: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(loaders, "DataLoader", lambda *_, **options: asked.update(options))
    settings = parse(["--data", "unix:/socket", "--output", "run", *arguments])
    loaders.make_loader(settings, "val", Place(), torch.device("cpu"), batch_size=1, stats=None)
    assert asked["resampler"] == want


@pytest.mark.parametrize("most", [0, 7, 8, 100, 511, 512, 513, 1000])
def test_largest_batch(most: int) -> None:
    tried: list[int] = []

    def fits(n: int) -> bool:
        tried.append(n)
        return n <= most

    assert fit.largest_that_fits(fits, limit=768) == min(most, 768) // 8 * 8
    assert max(tried) <= 768
    assert len(tried) < 20


def test_sizes_grow() -> None:
    s = parse(["--data", "d", "--output", "o", "--recipe", "resnet50-modern"])
    sizes = [transforms.size_at(s, epoch) for epoch in range(16)]
    assert sizes == [160] * 12 + [192] * 4  # as ffcv-imagenet's 16 epochs
    s = parse(["--data", "d", "--output", "o", "--size", "192", "--size-start", "96", "--epochs", "7"])
    assert [transforms.size_at(s, epoch) for epoch in range(7)] == [96, 128, 128, 128, 160, 192, 192]


@pytest.mark.parametrize("kind", ["onecycle", "cosine", "constant"])
def test_schedules(kind: str) -> None:
    s = parse(["--data", "d", "--output", "o", "--schedule", kind, "--lr", "0.5", "--epochs", "4", "--warmup-epochs", "1"])
    opt = optim.optimizer(torch.nn.Linear(2, 2), s)
    schedule = optim.schedule(opt, s, 10)
    rates = []
    for _ in range(40):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        if len(rates) < 40:
            schedule.step()
    assert max(rates) == pytest.approx(0.5, rel=0.02)
    assert rates[0] < 0.1
    assert kind == "constant" or rates[-1] < 0.01


def test_norms_are_not_decayed() -> None:
    s = parse(["--data", "d", "--output", "o", "--no-decay-norm"])
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2))
    decayed, rest = optim.optimizer(model, s).param_groups
    assert [len(decayed["params"]), len(rest["params"])] == [1, 3]
    assert rest["weight_decay"] == 0
