"""Weights to begin with and to score: published ones, files of each format, heads of another size."""

import re
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from conftest import TINY, VAL, Train, events, weights
from safetensors.torch import save_file

from imgfeed_train.command import main
from imgfeed_train.errors import TrainError
from imgfeed_train.flags import parse
from imgfeed_train.model import build as models
from imgfeed_train.model import weights as files
from imgfeed_train.ranks import Rank

#: A model of torchvision's with few weights and, as ResNets have, batch norm and a linear head.
SMALL = "shufflenet_v2_x0_5"
HEAD = {
    "timm/test_resnet": "fc",
    "timm/test_vit": "head",
    "timm/test_convnext": "head.fc",
    "timm/test_efficientnet": "classifier",
}
HEAD |= {SMALL: "fc", "squeezenet1_1": "classifier.1"}


def build(classes: int, *arguments: str) -> torch.nn.Module:
    s = parse(["--data", "d", "--output", "o", "--size", "32", *arguments])
    return models.build(s, classes, Rank(torch.device("cpu")))[0]


def other(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> set[str]:
    """Return the names of the tensors that are not the state's."""
    return {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, state[name])}


def written(path: Path, state: dict[str, torch.Tensor]) -> str:
    """Write weights in the format that the path says."""
    if path.suffix == ".safetensors":
        save_file(state, path)  # it sorts the tensors by name
    else:
        torch.save({"state_dict": {f"module.{name}": tensor for name, tensor in state.items()}, "epoch": 3}, path)
    return str(path)


@pytest.mark.parametrize("kind", ["pth", "safetensors"])
@pytest.mark.parametrize("arch", sorted(HEAD))
def test_the_head_of_a_file(tmp_path: Path, arch: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All weights are taken with a head of their size; with another the head alone is new, and that is said loudly."""
    theirs = build(10, "--arch", arch).state_dict()
    path = written(tmp_path / f"w.{kind}", theirs)
    assert files.head_size(files.read(path), path) == 10
    assert not other(build(10, "--arch", arch, "--weights", path), theirs)
    assert "HEAD" not in capsys.readouterr().out
    assert other(build(7, "--arch", arch, "--weights", path), theirs) == {f"{HEAD[arch]}.weight", f"{HEAD[arch]}.bias"}
    assert "THE HEAD IS NEW, with random weights for 7 classes" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["pth", "safetensors"])
@pytest.mark.parametrize("arch", ["timm/test_resnet", "timm/test_vit", SMALL])
def test_only_a_whole_model_is_scored(
    sets: Path, tmp_path: Path, arch: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A head for other classes than the set's would be random: --evaluate refuses it, whatever the file's format."""
    base = ["--data", str(sets), *TINY, "--arch", arch, "--batch-size", "15", "--evaluate", "--weights"]
    main([*base, written(tmp_path / f"3.{kind}", build(3, "--arch", arch).state_dict())])
    assert re.search(rf"^ \* Acc@1 [\d.]+ Acc@5 100.000 Loss [\d.]+ on {VAL} samples$", capsys.readouterr().out, re.MULTILINE)
    with pytest.raises(
        SystemExit, match=r"the weights have a head of 10 classes, the set val has 3 .*\. A new head would be random"
    ):
        main([*base, written(tmp_path / f"10.{kind}", build(10, "--arch", arch).state_dict())])
    headless = {n: t for n, t in build(3, "--arch", arch).state_dict().items() if not n.startswith(("fc.", "head."))}
    with pytest.raises(SystemExit, match=r"has no head among its \d+ tensors: is it a backbone alone\?"):
        main([*base, written(tmp_path / f"none.{kind}", headless)])


def test_a_run_is_scored_as_it_was(train: Train, sets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its best checkpoint: with its own normalisation, and its average where it has one."""
    run = train("run", "--ema", "0.9", "--optimizer", "adamw", "--lr", "3e-3")
    best = max(events(run, "epoch"), key=lambda row: row["acc1"])
    path = str(run / "checkpoints" / "best.pt")
    capsys.readouterr()
    main(["--data", str(sets), *TINY, "--evaluate", "--weights", path])
    want = f" * Acc@1 {best['acc1']:.3f} Acc@5 {best['acc5']:.3f} Loss {best['loss']:.4f} on {VAL} samples"
    assert want in capsys.readouterr().out
    model = build(3, *TINY[:2], "--weights", path)
    assert not other(model, weights(run, "best.pt")["model_ema"])
    train("second", "--epochs", "1", "--weights", path)


@pytest.mark.parametrize(
    "options",
    [
        ["--transform", "cifar"],
        ["--transform", "square-flip", "--amp", "bf16"],
        ["--arch", "timm/test_resnet", "--size", "32", "64"],
    ],
)
def test_a_score_is_taken_as_in_the_run(
    train: Train, sets: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkpoint brings what its score depends on. Flags win, with a line, also those that give a default."""
    run = train("run", *options, "--epochs", "1")
    (best,) = events(run, "epoch")
    base = ["--data", str(sets), "--workers", "1", "--evaluate", "--weights", str(run / "checkpoints" / "best.pt")]
    capsys.readouterr()
    main(base)
    said = capsys.readouterr().out
    assert f" * Acc@1 {best['acc1']:.3f} Acc@5 {best['acc5']:.3f} Loss {best['loss']:.4f} on {VAL} samples" in said
    assert "in the run of" not in said
    main([*base, "--transform", "train", "--size", "48"])
    said = capsys.readouterr().out
    assert f"--size is (48,) here, and was ({options[-2] if options[-2] == '32' else '32'}" in said
    assert ("--transform is train here, and was " in said) == ("--transform" in options)
    main([*base, "--recipe", str(run / "run.yaml")])
    assert "in the run of" not in capsys.readouterr().out


def test_published_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(*arguments: Any, **options: Any) -> None:
        raise urllib.error.URLError("no network here")

    monkeypatch.setattr(torch.hub, "download_url_to_file", fails)
    monkeypatch.setattr(timm.models._builder, "load_state_dict_from_hf", fails)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(TrainError, match=r"https:.*shufflenetv2_x0\.5-f707e7126e\.pth can't be fetched.*give it by --weights"):
        build(3, "--arch", SMALL, "--weights", "pretrained")
    with pytest.raises(TrainError, match=r"timm/test_vit\.r160_in1k can't be fetched.*give it by --weights.*no network here"):
        build(3, "--arch", "timm/test_vit", "--weights", "pretrained")
    file = tmp_path / "hub/checkpoints/shufflenetv2_x0.5-f707e7126e.pth"
    file.parent.mkdir(parents=True, exist_ok=True)
    theirs = torchvision.models.shufflenet_v2_x0_5().state_dict()
    torch.save(theirs, file)
    small = build(3, "--arch", SMALL, "--weights", "pretrained")
    assert other(small, {**theirs, "fc.weight": theirs["fc.weight"][:3]}) == {"fc.weight", "fc.bias"}
    assert f"weights: published ones of {SMALL}; THE HEAD IS NEW" in capsys.readouterr().out
    assert not other(build(1000, "--arch", SMALL, "--weights", "pretrained"), theirs)
    s = parse(["--data", "d", "--output", "o", "--arch", SMALL, "--weights", "pretrained"])
    assert models.build(s, None, Rank(torch.device("cpu")))[2] == 1000


@pytest.mark.long
def test_a_vision_transformer_takes_the_size_of_its_images(tmp_path: Path) -> None:
    """timm's and torchvision's; weights of another size have their position embedding resampled."""
    for arch, embedding in (("timm/test_vit", "pos_embed"), ("vit_b_32", "encoder.pos_embedding")):
        large = build(3, "--arch", arch, "--size", "64")
        large.eval()(torch.zeros(1, 3, 64, 64))
        path = written(tmp_path / "w.pth", large.state_dict())
        assert other(build(3, "--arch", arch, "--weights", path), large.state_dict()) == {embedding}


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    written(tmp_path / "small.pth", torchvision.models.shufflenet_v2_x0_5().state_dict())
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "text.pt").write_text("weights")
    (tmp_path / "text.safetensors").write_text("weights")
    for arch, name, said in (
        ("shufflenet_v2_x1_0", "small.pth", "does not fit --arch shufflenet_v2_x1_0: Error"),
        ("mobilenet_v3_small", "small.pth", "does not fit --arch mobilenet_v3_small: Error"),
        ("timm/test_vit", "small.pth", "does not fit --arch timm/test_vit"),
        (SMALL, "list.pt", "holds something else"),
        ("timm/test_vit", "text.pt", "is damaged or holds something else|pickled"),
        (SMALL, "text.safetensors", "is damaged or holds something else"),
        (SMALL, "none.pt", "there is no such file"),
    ):
        with pytest.raises(TrainError, match=said):
            build(3, "--arch", arch, "--weights", str(tmp_path / name))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--arch", "resnet5"], r"--arch resnet5 is in neither torchvision nor timm \(did you mean \"resnet5\w+\"\?\)"),
        (["--model", "timm/test_vitt"], r"did you mean \"test_vit\w*\"\?"),
        (["--drop-path", "0.1"], "--drop-path: resnet18 has no stochastic depth"),
        (["--grad-checkpointing"], "--grad-checkpointing takes a model of timm: --arch timm/NAME"),
    ],
)
def test_models_that_there_are_not(arguments: list[str], said: str) -> None:
    with pytest.raises(TrainError, match=said):
        build(3, *arguments)


def test_weights_that_want_other_images(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """torchvision's GoogLeNet and Inception had TensorFlow's normalisation; a model that begins anew has ImageNet's."""
    s = parse(["--data", "d", "--output", "o", "--arch", "googlenet", "--weights", str(tmp_path / "g.pth")])
    model, images, _ = models.build(s, 3, Rank(torch.device("cpu")), resumed=True)
    assert images.mean == models.Images().mean
    torch.save(model.state_dict(), tmp_path / "g.pth")
    model, images, _ = models.build(s, 3, Rank(torch.device("cpu")))
    assert (images.mean, images.std, model.transform_input) == ((0.5,) * 3, (0.5,) * 3, False)


def test_a_linear_probe_trains_the_head_alone(train: Train) -> None:
    run = train("run", "--arch", "timm/test_resnet", "--freeze", "--epochs", "1")
    begun = weights(train("begun", "--arch", "timm/test_resnet", "--freeze", "--epochs", "1", "--lr", "0"))["model"]
    moved = {name for name, tensor in weights(run)["model"].items() if not torch.equal(tensor, begun[name])}
    assert moved == {"fc.weight", "fc.bias"}, "not even batch norm's statistics move"
