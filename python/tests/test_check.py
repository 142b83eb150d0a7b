"""Records say what was done, torchvision repeats them to the bit, and imgfeed.check counts how often."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SAMPLES, imgshard, installed_resampler

from imgfeed import BadRequestError, DataLoader, reference
from imgfeed import check as checks

Load = Callable[..., DataLoader]
COLOURS: list[dict[str, Any]] = [
    {"op": "RandomResizedCrop", "size": 48},
    {"op": "RandomHorizontalFlip"},
    {"op": "ColorJitter", "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
    {"op": "RandomApply", "transforms": [{"op": "RandomSolarize", "threshold": 120}, {"op": "RandomEqualize"}], "p": 0.3},
    {"op": "RandomRotation", "degrees": 20, "interpolation": "bilinear", "fill": [1, 2, 3]},
    {"op": "TrivialAugmentWide", "interpolation": "bilinear"},
    {"op": "TimmAugment", "config": "rand-m9-mstd0.5-inc1"},
    {"op": "AugMix"},
    {"op": "RandomCrop", "size": 48, "padding": 4, "padding_mode": "reflect"},
]


def test_records_repeat_batches(load: Load) -> None:
    pytest.importorskip("torchvision")
    loader = load(8, transform=COLOURS, shuffle=True, seed=3, resampler=installed_resampler())
    report = checks.check(loader, samples=SAMPLES, epoch=2)
    assert report.compared == SAMPLES and report.differ == []
    assert checks.check(load(8, transform=COLOURS, layout="NCHW", resampler=installed_resampler()), 9).differ == []


def test_lists_of_tensors_are_compared_on_tensors(load: Load) -> None:
    pytest.importorskip("torchvision.tv_tensors")  # of torchvision 0.16 or later
    torch = pytest.importorskip("torch")
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("torch has these bits with AVX2")
    policies: list[dict[str, Any]] = [{"op": "TrivialAugmentWide", "interpolation": "bilinear"}, {"op": "AugMix"}]
    tensors: list[dict[str, Any]] = [{"op": "RandomResizedCrop", "size": 48, "backend": "tensor"}, *policies]
    report = checks.check(load(8, transform=tensors, bit_exact=True), samples=40)
    assert report.compared == 40 and report.differ == [] and report.tensors
    assert checks._road(report, "13.0").startswith(f"tensors of torch {torch.__version__} (AVX")
    report = checks.check(load(8, transform=[{"op": "ToImage", "v1": True}, {"op": "Resize", "size": [40, 40]}]), samples=9)
    assert len(report.differ) == 9 and max(most for *_, most, _ in report.differ) == 1  # transforms resizes in float32


def test_a_record_is_readable(load: Load) -> None:
    loader = load(8, transform=[{"op": "Resize", "size": 40}, {"op": "CenterCrop", "size": 32}, {"op": "RandomInvert", "p": 1}])
    [record, same] = loader.records(np.array([5, 5]), epoch=0)
    assert [call["op"] for call in record] == ["resize", "crop", "invert"] and same == record
    assert record[1]["height"] == record[1]["width"] == 32 and record[0]["interpolation"] == "bilinear"
    assert loader.records([], 0) == []
    random = load(8, transform=COLOURS)
    assert random.records([3], 0) == random.records([3], 0) != random.records([3], 1)
    assert random.records([3, 3], 0, repetitions=[0, 1])[0] != random.records([3], 0, [1])[0]
    assert len(random.records(range(SAMPLES), 0)) == SAMPLES


def test_what_has_no_record(load: Load) -> None:
    loader = load(8)
    with pytest.raises(BadRequestError, match=f"there is no sample {SAMPLES}"):
        loader.records([SAMPLES], 0)
    with pytest.raises(ValueError, match="repetitions has 1 numbers for 2 indices"):
        loader.records([1, 2], 0, [0])
    with pytest.raises(ValueError, match="epoch is -1"):
        loader.records([1], -1)
    with pytest.raises(ValueError, match="indices is -1"):
        loader.records([-1], 0)
    for wrong in (1.5, float("nan"), "x", None, True):
        with pytest.raises(TypeError, match=r"indices is .*, want a sample's index, 0 or more"):
            loader.records([wrong], 0)
    with pytest.raises(ValueError, match="names the function 'melt', which this release does not know"):
        reference(None, [{"op": "melt"}])


def test_the_command(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torchvision")
    imgshard("build", images, "-o", tmp_path / "train-shards")
    imgshard("build", images, "-o", tmp_path / "small-shards", "--encoding", "pixels", "--resize", "64")
    run = [str(tmp_path / "train-shards"), "--samples", "30", "--transform"]
    with pytest.raises(SystemExit) as ended:
        checks.main([*run, json.dumps(COLOURS)])
    assert ended.value.code == 0 and "30 of 30 samples are identical to torchvision" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        checks.main([str(tmp_path / "small-shards"), "--samples", "3", "--transform", "cifar"])
    assert ended.value.code == 0 and "3 of 3 samples" in capsys.readouterr().out
    monkeypatch.setattr(checks, "reference", lambda image, record: reference(image, [*record, {"op": "invert"}]))
    with pytest.raises(SystemExit) as ended:
        checks.main([*run, "train"])
    said = capsys.readouterr().out
    assert (
        ended.value.code == 1
        and "0 of 30 samples are identical" in said
        and "and 25 more" in said
        and "of the values differ, by" in said
    )
    with pytest.raises(SystemExit, match="unknown transform"):
        checks.main([*run, "fast"])
    with pytest.raises(SystemExit) as ended:
        checks.main([str(tmp_path), "--samples", "0", "--transform", "train"])
    assert ended.value.code == 2 and "--samples is 0, want 1 or more" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"--transform is not JSON at character 3: .*double quotes"):
        checks.main([*run, "[{'op': 'Resize'}]"])


def test_ctrl_c_says_what_was_compared(
    shards: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torchvision")
    asked: list[Any] = []

    def interrupted(image: Any, record: list[dict[str, Any]]) -> Any:
        asked.append(image)
        if len(asked) == 20:
            raise KeyboardInterrupt
        return reference(image, record)

    monkeypatch.setattr(checks, "reference", interrupted)
    with pytest.raises(SystemExit) as ended:
        checks.main([str(shards), "--samples", "30", "--transform", "train"])
    assert ended.value.code == 130 and "16 of 16 samples are identical" in capsys.readouterr().out


def test_ctrl_c_while_torchvision_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(checks.importlib, "import_module", interrupted)
    with pytest.raises(SystemExit) as ended:
        checks.main(["/none", "--transform", "train"])
    assert ended.value.code == 130
