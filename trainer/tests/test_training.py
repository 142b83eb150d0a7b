"""Training on a small set: it learns, goes on where it was, and does on two ranks what it does on one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import PLAIN, TINY, VAL, Train, command, events, same, weights
from imgfeed import DataLoader

from imgfeed_train.command import main
from imgfeed_train.launch.place import Place
from imgfeed_train.model import build as models
from imgfeed_train.settings import parse


def test_learns_and_evaluates_every_sample_once(train: Train, sets: Path) -> None:
    run = train("run", "--epochs", "4", "--optimizer", "adamw", "--lr", "3e-3")
    steps, epochs = events(run, "step"), events(run, "epoch")
    assert steps[-1]["loss"] < 0.8 * steps[0]["loss"]
    assert [e["samples"] for e in epochs] == [VAL] * 4
    # The best checkpoint's score, computed here without the trainer's evaluation.
    best = max(epochs, key=lambda e: e["acc1"])
    model, stats = models.build(parse(["--data", "x", "--output", "y", *TINY]), 3, Place())
    model.load_state_dict(weights(run, "best.pt")["model"])
    model.eval()
    transform = [{"op": "Resize", "size": 37}, {"op": "CenterCrop", "size": 32}]
    with (
        torch.no_grad(),
        DataLoader(sets, 10, split="val", transform=transform, even_batches=False, normalize=stats, layout="NCHW") as val,
    ):
        scored = [(model(images), labels.clone()) for images, labels in val]
    output, labels = (torch.cat(parts) for parts in zip(*scored, strict=True))
    assert best["acc1"] == pytest.approx(100 * (output.argmax(1) == labels).double().mean().item())
    assert best["loss"] == pytest.approx(torch.nn.functional.cross_entropy(output, labels).item(), rel=1e-4)


EXTRAS = [
    "--ema",
    "0.9",
    "--mixup",
    "0.2",
    "--cutmix",
    "1.0",
    "--clip-grad",
    "1",
    "--accumulate",
    "2",
    "--label-smoothing",
    "0.1",
]


@pytest.mark.parametrize(
    "extras", [[], [*EXTRAS, "--batch-size", "8"], ["--size-start", "32", "--size", "64", "--batch-size", "16"]]
)
@pytest.mark.parametrize("stop", [4, 8])
def test_resume_is_exact(train: Train, stop: int, extras: list[str]) -> None:
    arch = ["--arch", "timm/test_resnet", "--epochs", "2", *extras]
    whole = train("whole", *arch)
    part = train("part", *arch, "--max-steps", str(stop))
    assert "Stopped in epoch" in (part / "report.md").read_text()
    train("part", *arch, "--resume", "auto")
    same(whole, part)
    assert "Finished: 2 epochs" in (part / "report.md").read_text()


def test_resume_with_another_batch_size(train: Train) -> None:
    train("run", "--max-steps", "4")
    run = train("run", "--batch-size", "8", "--resume", "auto", "--log-every", "1")
    progress = weights(run)["progress"]
    assert (progress["epoch"], progress["steps"]) == (2, 24)
    # 64 of the first epoch's 96 samples were done: 4 batches of 8 were left, numbered on from the 4 there had been.
    assert [e["batch"] for e in events(run, "step") if e["epoch"] == 0][-4:] == [5, 6, 7, 8]
    assert len([e for e in events(run, "step") if e["epoch"] == 1]) == 12


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_ranks_reach_what_one_reaches_with_twice_the_batch(train: Train, sets: Path, tmp_path: Path, strategy: str) -> None:
    one = train("one")
    two = ["--data", str(sets), "--output", str(tmp_path / "two"), *TINY, *PLAIN, "--batch-size", "8", "-g", "2"]
    done = subprocess.run(command(*two, "--strategy", strategy), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    ours, theirs = weights(one)["model"], weights(tmp_path / "two")["model"]
    for name, tensor in ours.items():
        torch.testing.assert_close(theirs[name], tensor, rtol=1e-3, atol=2e-5, msg=name)
    for a, b in zip(events(one, "epoch"), events(tmp_path / "two", "epoch"), strict=True):
        assert b["samples"] == VAL
        assert b["loss"] == pytest.approx(a["loss"], rel=1e-3)
    assert len(events(tmp_path / "two", "step")[-1]["wait"]) == 2


@pytest.mark.long
def test_torchrun_restarts_at_the_exact_batch(sets: Path, tmp_path: Path) -> None:
    """Rank 1 is killed in the second epoch, when it asks for the fourth of six batches."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1", "--standalone"]
    base = ["--data", str(sets), *TINY, *PLAIN, "--batch-size", "8", "--epochs", "3", "--checkpoint-every", "1"]
    base += ["--rendezvous-timeout", "60", "--output"]
    programs = {"whole": ["-m", "imgfeed_train"], "run": [str(Path(__file__).with_name("dying_rank.py"))]}
    env = {**os.environ, "DYING_RANK": "1", "DYING_BATCH": str(6 + 4)}
    said = {}
    for name, program in programs.items():
        words = [*torchrun, *program, *base, str(tmp_path / name)]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        said[name] = done.stdout
    assert "resumed" not in said["whole"]
    assert re.search(r"resumed \S+: epoch 1, batch 3\n", said["run"])
    same(tmp_path / "whole", tmp_path / "run")


def test_channels_last_in_bfloat16(train: Train) -> None:
    run = train("run", "--channels-last", "--amp", "bf16", "--epochs", "1")
    assert not any("_orig_mod" in name or name.startswith("module.") for name in weights(run)["model"])


def test_wrong_words_are_explained(sets: Path, tmp_path: Path) -> None:
    out = ["--output", str(tmp_path / "run"), *TINY]
    for arguments, said in (
        (["--data", str(tmp_path / "none")], "no such file or directory"),
        (["--data", str(tmp_path)], "no shard set there"),
        (["--data", str(sets), "--val-split", "dev"], "has no split 'dev'"),
        (["--data", str(sets), "--arch", "resnet19"], "in neither torchvision nor timm"),
        (["--data", str(sets), "--weights", str(tmp_path / "x.pt")], r"--weights \S+x\.pt: there is no such file"),
    ):
        with pytest.raises(SystemExit, match=said):
            main([*out, *arguments])
        assert not (tmp_path / "run").exists(), "found before anything is made"
    for arguments, said in (
        (["--data", str(sets), "--batch-size", "auto"], "give a number"),
        (["--data", str(sets), "--resume", str(tmp_path / "x.pt")], "no such checkpoint"),
    ):
        with pytest.raises(SystemExit, match=said):
            main([*out, *arguments])
