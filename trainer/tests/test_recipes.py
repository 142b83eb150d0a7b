"""Every recipe's settings on a model of a moment: it learns, resumes to the bit, and does on two ranks what it does on one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import several
import torch
from conftest import TRAIN, VAL, Train, events, free_port, same, weights
from imgfeed.launcher import find_binary
from torch import nn

from imgfeed_train import recipes
from imgfeed_train.data import transforms as data
from imgfeed_train.model import parallel as models
from imgfeed_train.recipes import RECIPES
from imgfeed_train.settings import parse

BATCH = 16
#: Part of the way that a weight has come by which it may differ on two ranks: rounding, of which batch norm over eight images
#: of one pixel, as in the last stage, makes much. Gradients that are added and not averaged, or of other images, are far off.
APART = 0.1
#: Strategies under which a recipe is run on two ranks: ddp, and for the one that is meant for both also fsdp.
#: Recipes that mix or erase draw on each rank for itself, and so do other things on two ranks than on one.
ALIKE = [name for name, r in sorted(RECIPES.items()) if not r.get("mixup")]
PAIRS = [(recipe, "ddp") for recipe in ALIKE] + [("vit-b32-cifar10", "fsdp")]


@pytest.fixture(scope="session")
def photographs(sets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of 96 photographs to train on and 27 to evaluate, of three classes: the thirds of IMGFEED_TEST_IMAGES by name.

    Without that, the small images that all the tests have.
    """
    found = sorted(Path(os.environ.get("IMGFEED_TEST_IMAGES", "/nowhere")).glob("**/*.[jJ][pP]*[gG]"))
    if len(found) < TRAIN + VAL:
        return sets
    folder = tmp_path_factory.mktemp("photographs")
    for i in range(TRAIN + VAL):
        file = found[i * len(found) // (TRAIN + VAL)]
        there = folder / "raw" / ("train" if i % 41 < 32 else "val") / str(i // 41)
        there.mkdir(parents=True, exist_ok=True)
        (there / file.name).symlink_to(file)
    subprocess.run([find_binary("imgshard"), "build", str(folder / "raw"), "-o", str(folder / "sets")], check=True)
    return folder / "sets"


def shrunk(recipe: str, sets: Path, epochs: int) -> list[str]:
    """Return a recipe's arguments for a tiny model and tiny images, all else its own but what a small set asks for."""
    tiny = ["--data", str(sets), "--recipe", recipe, "--no-pretrained", "--batch-size", str(BATCH), "--epochs", str(epochs)]
    tiny += [
        "--device",
        "cpu",
        "--workers",
        "1",
        "--no-tensorboard",
        "--log-every",
        "3",
        "--lr",
        "0.01",
        "--warmup-epochs",
        "0.5",
    ]
    if sets.parent.name.startswith("photographs"):
        tiny += ["--transform", "center-flip"]  # three classes of anything can be learnt by heart, but not from random crops
    kind = next(
        (kind for name, kind in (("vit", "vit"), ("deit", "vit"), ("convnext", "convnext")) if name in recipe), "resnet"
    )
    tiny += ["--arch", f"timm/test_{kind}"]
    if "modern" in recipe:
        return [*tiny, "--size-start", "32", "--size", "64", "--eval-size", "64", "--eval-resize", "72"]
    return [*tiny, "--size", "32", "--eval-size", "32", "--eval-resize", "32"]


@pytest.mark.long
@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_recipes_start_learn_and_resume(train: Train, photographs: Path, recipe: str) -> None:
    options = shrunk(recipe, photographs, epochs=4)
    run = train("run", *options, base=())
    steps = events(run, "step")
    assert steps[-1]["loss"] < steps[0]["loss"]
    assert [e["samples"] for e in events(run, "epoch")] == [VAL] * 4
    assert steps[-1]["batch"] * BATCH == TRAIN
    train("part", *options, "--max-steps", "15", base=())
    same(run, train("part", *options, "--resume", "auto", base=()))


def on_two_ranks(recipe: str, strategy: str, sets: Path) -> list[str]:
    """Return the arguments of a recipe for two ranks of half the batch, or but for the batch for one; images grow meanwhile.

    The rate is a low one, since roundings grow with it from step to step.
    """
    grow = ["--size-ramp", "0", "1"] if "modern" in recipe else []
    return [
        *shrunk(recipe, sets, epochs=2),
        *grow,
        "--amp",
        "off",
        "--strategy",
        strategy,
        "--lr",
        "0.003",
        "--batch-size",
        str(BATCH // 2),
    ]


@pytest.fixture(scope="module")
def two_ranks(photographs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each of PAIRS on two ranks."""
    folder = tmp_path_factory.mktemp("two")
    runs = [(free_port(), [*on_two_ranks(*pair, photographs), "--output", str(folder / "-".join(pair))]) for pair in PAIRS]
    (folder / "runs.json").write_text(json.dumps(runs))
    program = [sys.executable, several.__file__, str(folder / "runs.json")]
    ranks = []
    for rank in "01":
        env = {**os.environ, "RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2"}
        env["MASTER_ADDR"] = "127.0.0.1"
        ranks.append(subprocess.Popen(program, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    said = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    return folder


def of_each_rank(ranks: int) -> Callable[[nn.BatchNorm2d, torch.Tensor], torch.Tensor]:
    """Return what a batch norm does with the images of so many ranks in one process: each rank's by themselves.

    Image i of a batch is rank i % ranks's. The running statistics are those of rank 0, as in a checkpoint of DDP.
    """
    plain = nn.BatchNorm2d.forward

    def forward(norm: nn.BatchNorm2d, images: torch.Tensor) -> torch.Tensor:
        if not norm.training:
            return plain(norm, images)
        parts = [plain(norm, images[::ranks])]
        for rank in range(1, ranks):
            part = images[rank::ranks]
            parts.append(nn.functional.batch_norm(part, None, None, norm.weight, norm.bias, True, 0.0, norm.eps))
        return torch.stack(parts, 1).flatten(0, 1)

    return forward


@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_recipes_do_on_two_ranks_what_they_do_on_one(
    train: Train, photographs: Path, two_ranks: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str]
) -> None:
    """One rank of twice the batch, in which only the batch norms look at each half by itself, as they do on two ranks."""
    begun: dict[str, torch.Tensor] = {}
    distribute = models.distribute

    def noting(model: nn.Module, *rest: Any) -> nn.Module:
        begun.update({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return distribute(model, *rest)

    monkeypatch.setattr(models, "distribute", noting)
    monkeypatch.setattr(nn.BatchNorm2d, "forward", of_each_rank(2))
    one = train("one", *on_two_ranks(*pair, photographs), "--batch-size", str(BATCH), base=())
    two = two_ranks / "-".join(pair)
    for kind, names in (("step", ("loss", "lr", "acc1", "step")), ("epoch", ("loss", "acc1", "samples"))):
        for a, b in zip(events(one, kind), events(two, kind), strict=True):
            assert [b[name] for name in names] == pytest.approx([a[name] for name in names], rel=1e-3)
    assert events(two, "step")[-1]["loss"] < events(two, "step")[0]["loss"]
    assert [len(e["wait"]) for e in events(two, "step")] == [2] * 4
    ours, theirs = weights(one)["model"], weights(two)["model"]
    assert any("running_var" in name for name in ours) == ("vit" not in pair[0])
    for name in ours:
        was, one_is, two_is = (felt(name, of[name]).double() for of in (begun, ours, theirs))
        moved, apart = (one_is - was).norm().item(), (two_is - one_is).norm().item()
        assert apart <= APART * moved + 1e-5, f"{name}: {apart} of {moved}"


def felt(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Return what of a weight the loss depends on. It does not on the bias of attention's keys, which softmax takes out again:
    its gradient is rounding alone, and Adam makes steps of it as long as any other.
    """
    return torch.cat(tensor.chunk(3)[::2]) if name.endswith("attn.qkv.bias") else tensor


@pytest.mark.parametrize(
    ("recipe", "images", "rate"),
    [
        ("resnet18-onecycle", 16, "the same rate for each image is --lr 0.062"),
        ("resnet18-onecycle", 2048, "the same rate for each image is --lr 4"),
        ("resnet18-onecycle", 130, ""),
        ("resnet18-onecycle", 1000, ""),
        ("resnet50-modern", 512, "--lr 0.21"),
        ("resnet50-modern", 4096, ""),
        ("vit-b32-cifar10", 384, "by the square-root rule of Adam it is --lr 3.5e-05"),
        ("resnet152-cinic10", 8192, ""),
    ],
)
def test_a_rate_for_another_batch_is_told(recipe: str, images: int, rate: str) -> None:
    said = recipes.rate_note(recipe, RECIPES[recipe]["lr"], images)
    assert bool(said) == bool(rate)
    assert rate in said
    assert recipes.rate_note(recipe, 0.5, images) == ""  # a rate of one's own
    assert recipes.rate_note(None, 0.1, images) == ""


def test_the_rate_of_another_batch_is_told_in_a_run(
    train: Train, photographs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*shrunk("resnet18-finetune", photographs, epochs=1), "--lr", "0.1"]
    train("run", *options, base=())
    said = "--recipe resnet18-finetune: its --lr 0.1 belongs to 2,048 images a step, and here they are 16; "
    assert said + "the same rate for each image is --lr 0.00078" in capsys.readouterr().out


def test_images_grow_also_in_fewer_epochs() -> None:
    def sizes(*arguments: str) -> list[int]:
        s = parse(["--data", "d", "--output", "o", "--recipe", "resnet50-modern", *arguments])
        return [data.size_at(s, epoch) for epoch in range(s.epochs)]

    assert sizes() == [160] * 12 + [192] * 4
    assert sizes("--epochs", "32") == [160] * 24 + [192] * 8
    assert sizes("--epochs", "4") == [160] * 3 + [192]
    assert sizes("--epochs", "32", "--size-ramp", "11", "13") == [160] * 12 + [192] * 20  # one's own stays
