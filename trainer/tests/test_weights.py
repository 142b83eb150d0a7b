"""Weights to begin with: from where published ones are kept, from files, and what is said where there are none."""

from __future__ import annotations

import urllib.error
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from conftest import TINY, Train, weights

from imgfeed_train.errors import TrainError
from imgfeed_train.launch.place import Place
from imgfeed_train.model import build as models
from imgfeed_train.settings import parse


def build(classes: int, *arguments: str) -> torch.nn.Module:
    return models.build(parse(["--data", "d", "--output", "o", "--size", "32", *arguments]), classes, Place())[0]


def equal(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> set[str]:
    """Return the names of the tensors that are not the state's; float tensors without a number in them are."""
    return {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, state[name])}


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any, **options: Any) -> None:
        raise urllib.error.URLError("no network here")

    monkeypatch.setattr(torch.hub, "download_url_to_file", fails)
    monkeypatch.setattr(timm.models._builder, "load_state_dict_from_hf", fails)


@pytest.mark.usefixtures("no_network")
def test_published_weights_are_found_or_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    file = tmp_path / "hub/checkpoints/resnet18-f37072fd.pth"
    with pytest.raises(TrainError, match=rf"{file} is not there.*resnet18-f37072fd\.pth and put it there.*--weights FILE"):
        build(3, "--arch", "resnet18", "--pretrained")
    file.parent.mkdir(parents=True, exist_ok=True)
    theirs = torchvision.models.resnet18().state_dict()
    torch.save(theirs, file)
    mine = build(3, "--arch", "resnet18", "--pretrained")
    assert {n for n, t in mine.state_dict().items() if t.shape != theirs[n].shape} == {"fc.weight", "fc.bias"}
    assert equal(mine, theirs) == {"fc.weight", "fc.bias"}
    assert "new for 3 classes: fc.weight, fc.bias" in capsys.readouterr().out
    assert not equal(build(1000, "--arch", "resnet18", "--pretrained"), theirs)


@pytest.mark.usefixtures("no_network")
def test_timms_published_weights_are_asked_for() -> None:
    with pytest.raises(TrainError, match=r"timm/test_vit\.r160_in1k on timm's hub.*no network here.*--weights FILE"):
        build(3, "--arch", "timm/test_vit", "--pretrained")


@pytest.mark.parametrize("kind", ["pth", "safetensors"])
def test_weights_of_a_file(tmp_path: Path, kind: str) -> None:
    theirs = timm.create_model("test_vit", num_classes=1000).state_dict()  # of 160 pixels
    path = tmp_path / f"w.{kind}"
    if kind == "pth":
        torch.save({"state_dict": {f"module.{name}": tensor for name, tensor in theirs.items()}, "epoch": 3}, path)
    else:
        pytest.importorskip("safetensors.torch").save_file(theirs, path)
    other_head = build(3, "--arch", "timm/test_vit", "--size", "160", "--weights", str(path))
    assert equal(other_head, theirs) == {"head.weight", "head.bias"}
    assert not equal(build(1000, "--arch", "timm/test_vit", "--size", "160", "--weights", str(path)), theirs)
    # Another size of image: the embedding of the places is resampled.
    assert equal(build(1000, "--arch", "timm/test_vit", "--weights", str(path)), theirs) == {"pos_embed"}
    narrow = torchvision.models.squeezenet1_1().state_dict()  # its classifier is a convolution
    torch.save(narrow, path.with_suffix(".pt"))
    model = build(7, "--arch", "squeezenet1_1", "--weights", str(path.with_suffix(".pt")))
    assert equal(model, narrow) == {"classifier.1.weight", "classifier.1.bias"}


def test_a_run_begins_with_the_best_of_another(train: Train) -> None:
    first = train("first", "--epochs", "1")
    best = first / "checkpoints/best.pt"
    model = build(3, *TINY[:2], "--weights", str(best))
    assert not equal(model, weights(first, "best.pt")["model"])
    train("second", "--epochs", "1", "--weights", str(best))


@pytest.mark.parametrize("arch", ["resnet18", "timm/resnet18"])
def test_weights_of_a_model_with_blurs(tmp_path: Path, arch: str) -> None:
    theirs = build(3, "--arch", arch, "--blurpool").state_dict()
    assert any(name.endswith(".blur") for name in theirs)
    path = str(tmp_path / "w.pt")
    torch.save(theirs, path)
    assert not equal(build(3, "--arch", arch, "--blurpool", "--weights", path), theirs)
    with pytest.raises(TrainError, match=r"w\.pt is of a model with blurs .*: add --blurpool"):
        build(3, "--arch", arch, "--weights", path)


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    torch.save(torchvision.models.resnet18().state_dict(), tmp_path / "18.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "text.pt").write_text("weights")
    for arch, name, said in (
        ("resnet34", "18.pt", "the weights of another model: missing"),
        ("resnet50", "18.pt", "the weights of another model: Error"),
        ("timm/test_vit", "18.pt", "does not fit timm/test_vit"),
        ("resnet18", "list.pt", "holds no tensors by name"),
        ("timm/test_vit", "text.pt", "can't be read as weights"),
        ("resnet18", "none.pt", "there is no such file"),
    ):
        with pytest.raises(TrainError, match=said):
            build(3, "--arch", arch, "--weights", str(tmp_path / name))
