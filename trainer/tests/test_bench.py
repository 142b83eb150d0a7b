"""The benchmark: three sources by turns, their medians, and the table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from conftest import TINY
from timm.data import create_transform

from imgfeed_train import bench, bench_settings
from imgfeed_train.bench import Reading
from imgfeed_train.command import main
from imgfeed_train.data.transforms import operations
from imgfeed_train.launch.place import Place


@pytest.mark.long
def test_measures_feed_ceiling_and_torchvision(sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = ["--rounds", "2", "--steps", "14", "--warmup", "2", "--torch-workers", "1", "--json", str(tmp_path / "b.json")]
    folders = ["--data", str(sets), "--images", str(sets.parent / "raw/train")]
    policy = ["--augment", "ta_wide", "--repeats", "2"]
    main(["bench", *folders, *TINY, "--batch-size", "8", *policy, *turns])
    said = capsys.readouterr().out
    rows = re.findall(r"^\| (\w+) \| ([\d,]+) \| [\d,]+ to [\d,]+ \| (\d\.\d{3}) \| (\d+\.\d)% \|$", said, re.M)
    assert [name for name, *_ in rows] == ["synthetic", "imgfeed", "torchvision"]
    assert rows[0][2] == "1.000"
    assert float(rows[0][3]) < 5  # nothing is waited for, but a machine that does much else may stop the clock's owner
    assert "batch 8 x 1, amp off" in said
    assert ", augment ta_wide, repeats 2\n" in said
    assert "aim 0.98 of the ceiling, data wait under 1%: " in said
    readings = json.loads((tmp_path / "b.json").read_text())
    assert [len(turns) for turns in readings.values()] == [2, 2, 2]
    for turn in readings["imgfeed"]:
        assert turn["images_per_second"] > 0
        assert 0 < turn["wait"] < 1
        assert turn["limit"] in ("disk", "cpu", "client", "idle")


@pytest.mark.parametrize("augment", ["none", "ta_wide", "rand-m9-mstd0.5-inc1", "3a", "augmix-m5-w4-d2", "original-mstd0.5"])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_torchvision_does_what_the_run_would(sets: Path, augment: str, interpolation: str) -> None:
    """Its loader has the policy, the filter and the repeats that the feed has; the policy is the object that timm makes."""
    images = ["--images", str(sets.parent / "raw/train"), "--torch-workers", "1", "--size", "32"]
    choices = ["--augment", augment, "--interpolation", interpolation, "--repeats", "3"]
    s = bench_settings.parse(["--data", str(sets), *images, *choices])
    loader = bench._torchvision(s, Place(), torch.device("cpu"), 4, ((0.5,) * 3, (0.5,) * 3))
    steps = loader.dataset.transform.transforms
    feed = [op["op"] for op in operations(s, 32)]
    assert len(steps) == len(feed) + 2 and feed[0] == type(steps[0]).__name__
    assert steps[0].interpolation.value == interpolation
    assert loader.dataset[0][0].shape == (3, 32, 32)
    if augment not in ("none", "ta_wide"):
        whole = create_transform(32, is_training=True, auto_augment=augment, interpolation=interpolation)
        own = next(step for step in whole.transforms if type(step).__module__ == "timm.data.auto_augment")
        assert type(own) is type(steps[2])
        if interpolation == "bicubic":
            assert repr(own) == repr(steps[2])
    order = list(loader.sampler)
    assert order[0] == order[1] == order[2] != order[3]


def test_sources_take_turns() -> None:
    names = ["synthetic", "imgfeed", "torchvision"]
    assert [bench._turns(names, number)[0] for number in range(4)] == [*names, "synthetic"]


@pytest.mark.parametrize(
    ("rate", "wait", "said"),
    [(985.0, 0.005, "reached"), (970.0, 0.005, "not reached; the feed waited for CPU"), (990.0, 0.02, "not reached")],
)
def test_the_verdict(rate: float, wait: float, said: str) -> None:
    s = bench_settings.parse(["--data", "d", "--rounds", "3", "--arch", "resnet50", "--amp", "fp16"])
    readings = {"synthetic": [Reading(r, 0.0) for r in (999.0, 1000.0, 1001.0)], "imgfeed": [Reading(rate, wait, "cpu")] * 3}
    lines = bench.table(s, "batch 256 x 2", readings, {"cpu": "c", "gpu": "g", "torch": "2.8"})
    assert f"| imgfeed | {rate:,.0f} | {rate:,.0f} to {rate:,.0f} | {rate / 1000:.3f} | {wait:.1%} |" in lines
    assert lines[-1].split(": ", 1)[1].startswith(said)


@pytest.mark.parametrize(
    ("arguments", "ceilings", "said"),
    [
        (
            ["--rounds", "1", "--steps", "5"],
            [1000.0],
            "uncertain, 1 round of 5 steps are too few to tell (at least 3 of 20); by",
        ),
        (
            ["--rounds", "3"],
            [900.0, 1000.0, 2000.0],
            "uncertain, the rounds lie on both sides of it (0.495 to 1.100); by their",
        ),
    ],
)
def test_what_is_uncertain_is_said(arguments: list[str], ceilings: list[float], said: str) -> None:
    s = bench_settings.parse(["--data", "d", *arguments])
    readings = {
        "synthetic": [Reading(r, 0.0) for r in ceilings],
        "imgfeed": [Reading(990.0, 0.005, "cpu") for _ in ceilings],
    }
    lines = bench.table(s, "batch 256 x 2", readings, {"cpu": "c", "gpu": "g", "torch": "2.8"})
    assert lines[-1].split(": ", 1)[1].startswith(said)
    assert lines[-1].endswith("reached")


def test_wrong_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["--images", str(tmp_path / "none")], "no such folder"),
        (["--rounds", "0"], "want from 1 to 2147483647"),
    ):
        with pytest.raises(SystemExit):
            bench_settings.parse(["--data", "d", *arguments])
        assert said in capsys.readouterr().err
