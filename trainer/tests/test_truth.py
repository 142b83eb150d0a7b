"""What a run says is so, and what it has reached it keeps: each of these went wrong once, for somebody who looked closely."""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import PLAIN, TINY, VAL, Train, events, same, weights
from imgfeed.launcher import find_binary

from imgfeed_train import train as page
from imgfeed_train.command import main
from imgfeed_train.evaluate import Score
from imgfeed_train.model import weights as loaded
from imgfeed_train.report import book
from imgfeed_train.settings import parse
from imgfeed_train.watch.log import Watch


def strict(run: Path) -> list[dict[str, Any]]:
    """Return a log's events, read as JSON allows them: without NaN and Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in (run / "log.jsonl").read_text().splitlines()]


def test_a_rerun_does_not_replace_checkpoints(train: Train) -> None:
    run = train("run", "--epochs", "1", "--keep", "1")
    before = (run / "checkpoints" / "best.pt").read_bytes()
    with pytest.raises(SystemExit, match=r"holds the checkpoints of a run \(best\.pt, epoch-0000\.pt, last\.pt\).*--overwrite"):
        train("run", "--epochs", "1", "--seed", "1")
    assert (run / "checkpoints" / "best.pt").read_bytes() == before
    train("run", "--epochs", "1", "--seed", "1", "--overwrite", "--max-steps", "2")
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["last.pt"], "nothing of the old run is left"
    assert weights(run)["settings"]["seed"] == 1


def packed_apart(sets: Path, folder: Path, classes: list[str]) -> Path:
    """Return a folder with the tests' train set, and a val set of other class folders."""
    raw = sets.parent / "raw" / "val"
    for name, source in zip(classes, sorted(raw.iterdir()), strict=False):
        shutil.copytree(source, folder / "raw" / "val" / name)
    shutil.copytree(sets / "train", folder / "data" / "train")
    build = [find_binary("imgshard"), "build", str(folder / "raw" / "val"), "-o", str(folder / "data" / "val")]
    subprocess.run(build, check=True, capture_output=True)
    return folder / "data"


def test_classes_of_train_and_val_are_compared(sets: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in (sets.parent / "raw" / "train").iterdir())
    said = rf"classes of train and val are not the same: train has 3 classes and val 2; only in train: {names[0]}\. A label"
    with pytest.raises(SystemExit, match=said):
        main(["--data", str(packed_apart(sets, tmp_path, names[1:])), "--output", str(tmp_path / "run"), *TINY, *PLAIN])
    assert not (tmp_path / "run" / "checkpoints" / "last.pt").exists()


def test_an_epoch_is_kept_before_it_is_evaluated(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train("whole")
    with monkeypatch.context() as patch:
        patch.setattr(page, "evaluate", lambda *_: (_ for _ in ()).throw(RuntimeError("the disk of val is gone")))
        with pytest.raises(RuntimeError, match="is gone"):
            train("run")
    kept = weights(train("run", "--max-steps", "1", "--resume", "auto"))["progress"]
    assert (kept["epoch"], kept["batches"], kept["steps"]) == (0, 6, 6), "--max-steps adds none: it was trained"
    same(whole, train("run", "--resume", "auto"))


def test_a_loss_that_is_no_number_ends_the_run(train: Train, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"the loss was not finite for \d+ steps in a row up to step \d+, batch \d of epoch 0"):
        train("run", "--lr", "1e30", "--schedule", "constant")
    run = tmp_path / "run"
    assert not (run / "checkpoints" / "best.pt").exists()
    assert [e["loss"] for e in strict(run) if e["event"] == "step"][-1] is None
    assert math.isnan(book.read(run).steps[-1]["loss"])
    assert "Failed in epoch 0" in (run / "report.md").read_text()


def test_ignored_it_is_never_the_best(train: Train) -> None:
    run = train("run", "--lr", "1e30", "--schedule", "constant", "--nan", "ignore")
    assert not (run / "checkpoints" / "best.pt").exists()
    assert [e["loss"] for e in strict(run) if e["event"] == "epoch"] == [None, None]
    assert weights(run)["progress"]["best"] == -1
    assert Score(math.nan, 90.0, 99.0, 10).rank < Score(5.0, 0.0, 0.0, 10).rank


def test_both_model_and_average_are_scored_and_the_better_is_best(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps too large to stay where they lead: the average, which warms up, is another model; whichever is better is best."""
    run = train("run", "--ema", "0.999", "--epochs", "3", "--optimizer", "adamw", "--lr", "3e-3")
    said = capsys.readouterr().out
    assert len(re.findall(r"Loss \d\.\d{4} \((model|average)\) on 27 samples", said)) == 6
    assert said.count(", the better") == 3
    epochs = events(run, "epoch")
    assert all(e["acc1"] == max(score["acc1"] for score in e["scores"].values()) for e in epochs)
    best, state = max(epochs, key=lambda e: e["acc1"]), weights(run, "best.pt")
    assert (state["scored"], state["progress"]["best"]) == (best["scored"], best["acc1"])
    assert "the table has the better of each epoch" in (run / "report.md").read_text()
    state["scored"] = "average"
    torch.save(state, run / "average.pt")
    average = loaded.read(str(run / "average.pt"))
    assert all(torch.equal(tensor, state["ema"][f"module.{name}"]) for name, tensor in average.items())
    state["scored"] = "model"
    torch.save(state, run / "model.pt")
    assert all(torch.equal(t, state["model"][name]) for name, t in loaded.read(str(run / "model.pt")).items())


def test_an_average_of_a_short_run_is_not_its_beginning(train: Train) -> None:
    run = train("run", "--ema", "0.9999", "--epochs", "4", "--optimizer", "adamw", "--lr", "3e-3")
    first, last = events(run, "epoch")[0]["scores"]["average"], events(run, "epoch")[-1]["scores"]["average"]
    assert last["loss"] < first["loss"]
    state = weights(run)
    name = next(name for name, tensor in state["model"].items() if tensor.ndim > 1)
    begun = weights(train("begun", "--max-steps", "1"))["model"][name]
    apart = (state["ema"][f"module.{name}"] - state["model"][name]).norm() / (begun - state["model"][name]).norm()
    assert apart < 0.5, "of the way that the weights have come"


def test_a_clock_that_jumps(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a year to and fro, each time it is looked at: the same bits and files, and times that are none of its."""
    calm = train("calm", "--keep", "1")
    jumps, clock = itertools.cycle((0.0, 3.2e7, -3.2e7)), time.time
    monkeypatch.setattr(time, "time", lambda: clock() + next(jumps))
    begin = time.monotonic()
    run = train("run", "--keep", "1")
    passed = time.monotonic() - begin
    same(run, calm)
    assert sorted(path.name for path in run.iterdir()) == sorted(path.name for path in calm.iterdir())
    assert all(0 < e["seconds"] < passed and 0 <= e["wait"][0] <= 1 for e in events(run, "step"))
    assert sum(e["train_seconds"] for e in events(run, "epoch")) < passed
    assert max(e["at"] for e in events(run, "step")) - min(e["at"] for e in events(run, "step")) > 1e7, "the clock did not jump"


def test_an_epochs_time_is_that_of_all_its_parts(train: Train) -> None:
    train("run", "--epochs", "1", "--max-steps", "4", "--log-every", "1")
    run = train("run", "--epochs", "1", "--resume", "auto", "--log-every", "1")
    lines, epoch = events(run, "step"), events(run, "epoch")[0]
    assert [e["batch"] for e in lines] == [1, 2, 3, 4, 5, 6]
    assert epoch["train_seconds"] == pytest.approx(sum(e["seconds"] for e in lines), rel=0.05, abs=0.02)


def test_one_definition_of_time_and_rate(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images over seconds of training, in lines, epochs and report; what opens logs takes no part of the first epoch."""
    opened = Watch._open_others

    def slowly(watch: Watch, step: int) -> None:
        time.sleep(2)
        opened(watch, step)

    told = Watch.scalars

    def late(watch: Watch, step: int, values: dict[str, float]) -> None:
        time.sleep(0.2)  # after the last batch of an epoch, too, when no time of training passes
        told(watch, step, values)

    monkeypatch.setattr(Watch, "_open_others", slowly)
    monkeypatch.setattr(Watch, "scalars", late)
    run = train("run", "--tensorboard")
    (plan,), lines, epochs = events(run, "plan"), events(run, "step"), events(run, "epoch")
    assert lines[0]["at"] - plan["at"] > 2 + lines[0]["seconds"]
    for e in lines:
        assert e["images_per_second"] == pytest.approx(e["samples"] / e["seconds"])
    for epoch in epochs:
        mine = [e for e in lines if e["epoch"] == epoch["epoch"]]
        assert epoch["train_seconds"] == pytest.approx(sum(e["seconds"] for e in mine), rel=0.05, abs=0.02)
        assert epoch["images"] == sum(e["samples"] for e in mine) == 96
        assert epoch["images_per_second"] == pytest.approx(epoch["images"] / epoch["train_seconds"])
        assert f"| {epoch['train_seconds']:.1f} | " in (run / "report.md").read_text()
        assert f" | {epoch['images_per_second']:,.0f} | " in (run / "report.md").read_text()
    whole = sum(e["samples"] for e in lines) / sum(e["seconds"] for e in lines)
    assert f"| images/s of training | {whole:,.4g} |" in (run / "report.md").read_text()


@pytest.mark.parametrize(("most", "epoch", "batches"), [(6, 1, 0), (7, 1, 1)])
def test_max_steps_is_exact(train: Train, most: int, epoch: int, batches: int) -> None:
    run = train("run", "--max-steps", str(most))
    progress = weights(run)["progress"]
    assert (progress["steps"], progress["epoch"], progress["batches"]) == (most, epoch, batches)
    assert len(events(run, "epoch")) == 1, "an epoch that came to its end is evaluated"
    assert weights(train("run", "--max-steps", str(most), "--resume", "auto"))["progress"] == progress


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--lr", "-1", "--lr is -1, want at least 0"),
        ("--lr", "nan", "--lr is nan, want at least 0"),
        ("--ema", "2", "--ema is 2, want from 0 to below 1"),
        ("--label-smoothing", "2", "--label-smoothing is 2, want from 0 to 1"),
        ("--mixup", "-1", "--mixup is -1, want at least 0"),
        ("-g", "-1", "-g/--gpus is -1, want from 1 to 1024"),
        ("-g", "1000000", "-g/--gpus is 1000000, want from 1 to 1024"),
        ("--resume", "", "--resume is empty, as an unset variable is: leave it away, or say what is meant"),
        ("--max-steps", "-5", "--max-steps is -5, want from 0 to 2147483647"),
        ("--epochs", "0", "--epochs is 0, want from 1 to 2147483647"),
        ("--epochs", "99999999999999999999", "--epochs is 99999999999999999999, want from 1 to 2147483647"),
        (
            "--data",
            "ftp://b/x",
            "--data is 'ftp://b/x', an address of an unknown kind: want a folder, or a URL that begins with s3://, https://, "
            "http://, hf://, gs://, az://",
        ),
        ("--size", "x", "--size is 'x', want a whole number"),
        ("--batch-size", "0", "--batch-size is 0, want from 1 to 16777216"),
    ],
)
def test_every_number_has_a_range(flag: str, value: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as e:
        parse(["--data", "d", "--output", "o", flag, value])
    assert e.value.code == 2
    assert capsys.readouterr().err == f"imgfeed-train: {said} (see imgfeed-train --help)\n"


def test_a_last_batch_of_one_image(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    """96 images in batches of 19 leave one, over which batch norm has no statistics."""
    base = [*TINY, "--arch", "timm/test_resnet", *PLAIN, "--batch-size", "19", "--epochs", "1"]
    run = train("run", base=base)
    assert events(run, "plan")[0]["drop_last"] is True
    assert (events(run, "step")[-1]["batch"], events(run, "epoch")[0]["images"]) == (5, 95)
    assert events(run, "epoch")[0]["samples"] == VAL, "the evaluation leaves out none"
    assert events(train("vit", "--batch-size", "19", "--epochs", "1"), "epoch")[0]["images"] == 96
    with pytest.raises(SystemExit, match=r"a batch of one image has no statistics for batch norm: leave --no-drop-last out"):
        train("kept", "--no-drop-last", base=base)
    with pytest.raises(SystemExit, match=r"--batch-size 97 on one rank is more than the 96 samples of train"):
        train("none", "--batch-size", "97", base=base)


def test_accuracies_of_mixed_images_are_marked(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    run = train("run", "--mixup", "0.2", "--epochs", "1")
    assert re.search(r"\tAcc@1\(mixed\) +\d+\.\d\d", capsys.readouterr().out)
    assert all(e["mixed"] for e in events(run, "step"))
    assert "of mixed images (mixup, cutmix)" in (run / "report.md").read_text()
