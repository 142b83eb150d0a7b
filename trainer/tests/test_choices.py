"""What users of timm's and torchvision's scripts are used to: configuration files, optimisers, scoring, a look ahead."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from conftest import PLAIN, TINY, VAL, Train, events, same, weights
from imgfeed.launcher import find_binary
from torch import nn
from torch.nn.functional import cross_entropy
from torchvision import transforms
from torchvision.datasets import ImageFolder

from imgfeed_train import optim, score
from imgfeed_train.command import main
from imgfeed_train.errors import TrainError
from imgfeed_train.launch.place import Place
from imgfeed_train.model import build, parts
from imgfeed_train.settings import Settings, parse


def settings(*arguments: str) -> Settings:
    return parse(["--data", "d", "--output", "o", *arguments])


@pytest.mark.long
def test_a_file_repeats_a_run(train: Train, tmp_path: Path) -> None:
    run = train("run", "--epochs", "1", "--mixup", "0.2")
    text = (run / "run.yaml").read_text()
    assert "\nbatch_size: 16\n" in text and "\nmixup: 0.2\n" in text and "\nresume:" not in text
    main(["--config", str(run / "run.yaml"), "--output", str(tmp_path / "again")])
    same(run, tmp_path / "again")
    main(["--config", str(run / "run.yaml"), "--output", str(tmp_path / "other"), "--lr", "0.01"])
    assert (weights(tmp_path / "other")["settings"]["lr"], weights(run)["settings"]["lr"]) == (0.01, 0.05)


def test_flags_over_file_over_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("recipe: resnet50-modern\nlr: 1e-4\nbatch-size: auto\nsize_ramp: [1, 2]\nema: 1\n".replace("ema: 1\n", ""))
    s = settings("--config", str(path), "--epochs", "32")
    assert (s.arch, s.lr, s.batch_size, s.epochs, s.size_ramp) == ("resnet50", 1e-4, "auto", 32, (1.0, 2.0))
    for content, said in (
        ("ema: 1", f"{path}: ema is 1, want from 0 to below 1"),
        ("epochs: many", f"{path}: epochs is 'many', want a whole number"),
        ("epochs: true", f"{path}: epochs is True, want a whole number"),
        ("epoch: 3", f"{path}: epoch is no setting; is epochs meant?"),
        ("transform: none", f"{path}: transform is 'none', want one of train, "),
        ("- 1", f"--config {path} holds no settings"),
        ("a: [", f"--config {path} can't be read"),
        ("rendezvous_timeout: soon", f"{path}: rendezvous_timeout is 'soon', want a time such as 30s"),
    ):
        path.write_text(content)
        with pytest.raises(SystemExit):
            settings("--config", str(path))
        assert capsys.readouterr().err.startswith(f"imgfeed-train: {said}")


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1m30s", 90), ("0.5h", 1800), ("250ms", 0.25), ("1e2", 100)])
def test_times_as_the_commands_take_them(tmp_path: Path, text: str, seconds: float) -> None:
    assert settings("--collective-timeout", text).collective_timeout == seconds
    path = tmp_path / "a.yaml"
    path.write_text(f"collective_timeout: {text}\n")
    assert settings("--config", str(path)).collective_timeout == seconds


@pytest.mark.parametrize("text", ["", "soon", "1m30", "30s1m", "1.2.3s", "-1", "0", "inf", "nan", "169h"])
def test_what_is_no_time(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with pytest.raises(SystemExit):
        settings(f"--collective-timeout={text}")
    assert capsys.readouterr().err.startswith("imgfeed-train: --collective-timeout is ")


def test_numbers_are_told_with_all_their_digits(capsys: pytest.CaptureFixture[str]) -> None:
    for flag, said in (
        (f"--seed={2**63}", f"--seed is {2**63}, want from {-(2**63)} to {2**63 - 1}"),
        ("--workers=4097", "--workers is 4097, want from 0 to 4096"),
        ("--momentum=1.5", "--momentum is 1.5, want from 0 to below 1"),
    ):
        with pytest.raises(SystemExit):
            settings(flag)
        assert capsys.readouterr().err.startswith(f"imgfeed-train: {said}")


def test_training_without_evaluation(train: Train, sets: Path, tmp_path: Path) -> None:
    shutil.copytree(sets / "train", tmp_path / "alone" / "train")
    with pytest.raises(SystemExit, match=r"has no split 'val/valid/validation/test'.*to train without: --val-split none"):
        train("run", "--data", str(tmp_path / "alone"))
    run = train("run", "--data", str(tmp_path / "alone"), "--val-split", "none")
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["last.pt"]
    assert [e["acc1"] for e in events(run, "epoch")] == [None, None]
    assert "Finished: 2 epochs" in (run / "report.md").read_text()
    whole = weights(train("whole"))["model"]
    assert all(torch.equal(tensor, whole[name]) for name, tensor in weights(run)["model"].items())


def test_the_last_epochs_are_kept(train: Train) -> None:
    run = train("run", "--epochs", "4", "--keep", "2")
    names = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert names == ["best.pt", "epoch-0002.pt", "epoch-0003.pt", "last.pt"]
    assert weights(run, "epoch-0002.pt")["progress"]["epoch"] == 3
    again = train("again", "--epochs", "4", "--resume", str(run / "checkpoints" / "epoch-0002.pt"))
    same(run, again)


@pytest.mark.parametrize("arch", ["resnet18", "timm/test_vit"])
def test_computing_again_changes_nothing_but_memory(arch: str) -> None:
    def step(*flags: str) -> tuple[nn.Module, float]:
        torch.manual_seed(0)
        model = build.build(settings("--arch", arch, "--size", "32", *flags), 3, Place())[0].train()
        images, labels = torch.randn(4, 3, 32, 32), torch.arange(4) % 3
        kept = 0

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal kept
            kept += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = nn.functional.cross_entropy(model(images), labels)
        before = kept
        loss.backward()
        return model, before

    (plain, much), (again, little) = step(), step("--grad-checkpointing")
    assert plain.state_dict().keys() == again.state_dict().keys()
    for (name, a), b in zip(plain.named_parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad, msg=name)
    for (name, a), b in zip(plain.named_buffers(), again.buffers(), strict=True):
        torch.testing.assert_close(b, a, msg=name)
    assert little < 0.5 * much
    with pytest.raises(TrainError, match="no repeated blocks"):
        parts.recompute(nn.Linear(2, 2), "linear")


@pytest.mark.long
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_blocks_are_computed_again(backend: str) -> None:
    def trained(again: bool) -> nn.Module:
        torch.manual_seed(0)
        block = [nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU()]
        model = nn.Sequential(nn.Sequential(*block, nn.Flatten(), nn.LazyLinear(3)))
        images = torch.randn(4, 4, 8, 8)
        model(images)
        if again:
            parts.recompute(model, "small")
            model.compile(backend=backend)
        for _ in range(2):
            nn.functional.cross_entropy(model(images), torch.arange(4) % 3).backward()
        return model

    plain, again = trained(again=False), trained(again=True)
    for (name, a), b in zip(plain.named_parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-4, atol=1e-5, msg=name)
    for (name, a), b in zip(plain.named_buffers(), again.buffers(), strict=True):
        torch.testing.assert_close(b, a, msg=name)


@pytest.mark.long
def test_computing_again_trains_alike(train: Train) -> None:
    flags = ["--ema", "0.9", "--epochs", "1"]
    plain, again = train("plain", *flags), train("again", *flags, "--grad-checkpointing")
    for name, tensor in weights(plain)["model"].items():
        torch.testing.assert_close(weights(again)["model"][name], tensor, rtol=1e-4, atol=1e-6, msg=name)


def test_drop_path() -> None:
    model = build.build(settings("--arch", "timm/test_vit", "--size", "32", "--drop-path", "0.2"), 3, Place())[0]
    rates = [m.drop_prob for m in model.modules() if isinstance(m, timm.layers.DropPath)]
    assert max(rates) == pytest.approx(0.2)
    theirs = build.build(settings("--arch", "convnext_tiny", "--drop-path", "0.2"), 3, Place())[0]
    assert max(m.p for m in theirs.modules() if type(m).__name__ == "StochasticDepth") == pytest.approx(0.2)
    for arch in ("resnet18", "timm/vgg11"):
        with pytest.raises(TrainError, match=rf"--drop-path 0.2: {arch} has no stochastic depth"):
            build.build(settings("--arch", arch, "--drop-path", "0.2"), 3, Place())


@pytest.mark.parametrize("name", ["rmsprop", "lion", "lamb", "sgd", "adamw"])
@pytest.mark.parametrize("schedule", ["onecycle", "cosine"])
def test_optimisers_learn_and_schedules_go_on(name: str, schedule: str) -> None:
    s = settings("--optimizer", name, "--schedule", schedule, "--lr", "0.01", "--epochs", "2")
    torch.manual_seed(0)
    model, x = nn.Linear(4, 1), torch.randn(64, 4)
    y, losses = x.sum(1, keepdim=True), []
    opt = optim.optimizer(model, s)
    plan, rates = optim.schedule(opt, s, 20), []
    for step in range(40):
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        losses.append(loss.item())
        rates.append(optim.rate(opt))
        opt.step()
        if step < 39:
            plan.step()
    assert losses[-1] < losses[0]
    later = optim.optimizer(nn.Linear(4, 1), s)
    optim.advance(later, optim.schedule(later, s, 20), s, 20, 25)
    assert optim.rate(later) == pytest.approx(rates[25])


def test_no_such_optimiser() -> None:
    with pytest.raises(TrainError, match=r"--optimizer sdg is none of torch's sgd, adam, adamw, nor of timm's: .*lamb.*lion"):
        optim.optimizer(nn.Linear(2, 2), settings("--optimizer", "sdg"))


@pytest.mark.parametrize("schedule", ["onecycle", "cosine"])
def test_each_layer_has_a_smaller_rate_than_the_one_after_it(schedule: str) -> None:
    s = settings(
        "--arch", "timm/test_vit", "--size", "32", "--optimizer", "adamw", "--layer-decay", "0.5", "--schedule", schedule
    )
    model = build.build(s, 3, Place())[0]
    opt = optim.optimizer(model, s)
    optim.schedule(opt, s, 10)
    rate = {id(p): group["lr"] for group in opt.param_groups for p in group["params"]}
    depth = len(model.blocks)  # type: ignore[arg-type]
    head = rate[id(model.head.weight)]  # type: ignore[union-attr, arg-type]
    for i in range(depth):
        block = rate[id(model.blocks[i].attn.qkv.weight)]  # type: ignore[index, union-attr]
        assert block == pytest.approx(head * 0.5 ** (depth - i), rel=1e-6), i
    assert optim.rate(opt) == pytest.approx(head)
    with pytest.raises(TrainError, match="--layer-decay: resnet18 does not say which its layers are"):
        optim.optimizer(build.build(settings(), 3, Place())[0], settings("--layer-decay", "0.5"))


def scored(capsys: pytest.CaptureFixture[str]) -> tuple[float, float]:
    """Return the accuracy and the loss that were printed."""
    found = re.search(r"^ \* Acc@1 (\d+\.\d+) Acc@5 \S+ Loss (\d+\.\d+) on 27 samples$", capsys.readouterr().out, re.M)
    assert found
    return float(found[1]), float(found[2])


def test_evaluation_alone_gives_what_the_training_said(train: Train, sets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train("run", "--epochs", "3", "--ema", "0.9")
    best = max(events(run, "epoch"), key=lambda e: e["acc1"])
    last = events(run, "epoch")[-1]
    capsys.readouterr()
    base = ["--data", str(sets), "--evaluate", *TINY]
    main([*base, "--weights", str(run / "checkpoints" / "best.pt")])
    assert scored(capsys) == (pytest.approx(best["acc1"], abs=1e-3), pytest.approx(best["loss"], abs=1e-4))
    main([*base, "--output", str(run), "--resume", "auto"])
    assert scored(capsys) == (pytest.approx(last["acc1"], abs=1e-3), pytest.approx(last["loss"], abs=1e-4))


@pytest.mark.parametrize(("crops", "crop"), [("5", transforms.FiveCrop), ("10", transforms.TenCrop)])
def test_several_crops_score_as_torchvisions(
    sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], crops: str, crop: Callable[[int], Any]
) -> None:
    """The loop of torchvision's documentation: the mean of the outputs over the crops of each image."""
    torch.manual_seed(0)
    file = str(tmp_path / "weights.pt")
    torch.save(build.build(settings(*TINY), 3, Place())[0].state_dict(), file)
    model, (mean, std) = build.build(settings(*TINY, "--weights", file), 3, Place())
    stack = transforms.Lambda(lambda images: torch.stack([transforms.functional.to_tensor(image) for image in images]))
    transform = transforms.Compose([transforms.Resize(48), crop(32), stack, transforms.Normalize(mean, std)])
    images, labels = zip(*ImageFolder(sets.parent / "raw" / "val", transform), strict=True)
    model.eval()
    with torch.no_grad():
        output = model(torch.cat(images)).unflatten(0, (len(images), -1)).mean(1)
    truth = torch.tensor(labels)
    base = ["--data", str(sets), *TINY, "--evaluate", "--weights", file, "--eval-resize", "48"]
    main([*base, "--eval-crops", crops, "--batch-size", "10"])
    right = 100 * float((output.argmax(1) == truth).double().mean())
    assert scored(capsys) == (pytest.approx(right, abs=1e-3), pytest.approx(float(cross_entropy(output, truth)), abs=1e-4))
    main(base)
    assert scored(capsys)[1] != pytest.approx(float(cross_entropy(output, truth)), abs=1e-4), "one crop is another score"


def repacked(sets: Path, folder: Path, names: Sequence[tuple[str, str]]) -> Path:
    """Return a folder with a val set of some of the tests' validation classes, under other names."""
    for old, new in names:
        shutil.copytree(sets.parent / "raw" / "val" / old, folder / "val" / new)
    build_it = [find_binary("imgshard"), "build", str(folder / "val"), "-o", str(folder / "sets" / "val")]
    subprocess.run(build_it, check=True, capture_output=True)
    return folder / "sets"


def test_a_set_of_other_classes_than_the_weights(
    train: Train, sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some of the classes, as ImageNet-A and -R; the labels as numbers, as ImageNet-V2; classes that the weights don't know."""
    best = str(train("run", "--epochs", "1") / "checkpoints" / "best.pt")
    names = sorted(path.name for path in (sets.parent / "raw" / "val").iterdir())
    base = [*TINY, "--evaluate", "--weights", best]
    some = repacked(sets, tmp_path / "some", [(name, name) for name in names[1:]])
    capsys.readouterr()
    main(["--data", str(some), *base])
    assert "on 18 samples, among 2 of the model's 3 classes" in capsys.readouterr().out
    numbers = repacked(sets, tmp_path / "numbers", [(name, str(i)) for i, name in enumerate(names)])
    main(["--data", str(sets), *base])
    here = scored(capsys)
    main(["--data", str(numbers), *base])
    assert scored(capsys) == here
    others = repacked(sets, tmp_path / "others", [(names[0], names[0]), (names[1], "axolotl")])
    with pytest.raises(SystemExit, match="1 of the set's 2 classes are none of the 3 that the weights know: axolotl"):
        main(["--data", str(others), *base])


def test_which_outputs_stand_for_a_sets_classes() -> None:
    synsets = score.imagenet_synsets()
    assert (len(synsets), synsets[0], synsets == sorted(synsets)) == (1000, "n01440764", True)
    assert score.outputs_of(synsets, synsets) is None
    assert score.outputs_of(["n01443537", "n01440764"], synsets) == [1, 0]
    v2 = sorted(str(i) for i in range(1000))  # its folders, in the order in which they are packed
    assert score.outputs_of(v2, synsets) == [int(name) for name in v2]
    assert build.published_classes(settings("--arch", "resnet18")) == 1000
    assert build.published_classes(settings("--arch", "timm/test_vit")) == 1000


def test_real_labels(sets: Path, tmp_path: Path, train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    """Several labels of an image count as right, and an image without any does not count."""
    best = str(train("run", "--epochs", "1") / "checkpoints" / "best.pt")
    folder = tmp_path / "val"
    truth: list[list[int]] = []
    for label, source in enumerate(sorted((sets.parent / "raw" / "val").iterdir())):
        for image in sorted(source.iterdir()):
            truth.append([label])
            there = folder / source.name / f"ILSVRC2012_val_{len(truth):08d}{image.suffix}"
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(image, there)
    build_it = [find_binary("imgshard"), "build", str(folder), "-o", str(tmp_path / "sets" / "val")]
    subprocess.run(build_it, check=True, capture_output=True)
    base = [
        "--data",
        str(tmp_path / "sets"),
        *TINY,
        "--evaluate",
        "--weights",
        best,
        "--real-labels",
        str(tmp_path / "real.json"),
    ]
    for labels, said in ((truth, None), ([[], *[[0, 1, 2]] * (VAL - 1)], f"100.000 on the {VAL - 1} of them")):
        (tmp_path / "real.json").write_text(json.dumps(labels))
        capsys.readouterr()
        main(base)
        out = capsys.readouterr().out
        first = re.search(r"^ \* Acc@1 (\S+)", out, re.M)
        assert first
        assert f" * ReaL Acc@1 {said or first[1]}" in out
    with pytest.raises(TrainError, match=r"cat/1\.jpg is no validation image of ImageNet"):
        score.number("cat/1.jpg")


def test_evaluation_wants_what_fits_together(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["--evaluate"], "--evaluate needs what to score"),
        (["--evaluate", "--resume", "auto"], "needs --output"),
        (["--output", "o", "--real-labels", "x"], "--real-labels goes with --evaluate"),
        (["--output", "o", "--eval-crops", "3"], "--eval-crops is 3, want one of 1, 5, 10"),
        (["--output", "o", "--eval-crops", "10", "--eval-flip"], "--no-eval-flip goes with it"),
        (["--output", "o", "--eval-crops", "5", "--eval-resize", "200"], "--eval-crops 5 of 224 pixels need an --eval-resize"),
        ([], "--output is missing"),
    ):
        with pytest.raises(SystemExit):
            parse(["--data", "d", *arguments])
        assert said in capsys.readouterr().err


def test_a_dry_run_says_what_a_run_would_take(sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(tmp_path.iterdir())
    main(["--data", str(sets), *TINY, *PLAIN, "--size-start", "32", "--size", "64", "--dry-run", "--ema", "0.9"])
    said = capsys.readouterr().out
    assert re.search(r"^epoch +6 batches, 6 steps, 96 images; a rest is kept$", said, re.M)
    assert re.search(r"^run +2 epochs, 12 steps$", said, re.M)
    assert re.search(r"^measured +6 steps in \d+\.\d s: [\d,]+ images/s, ", said, re.M)
    assert re.search(
        r"^time +an epoch \S+ s; the last, with images of 64 pixels, about .*; its evaluation .*; the run ", said, re.M
    )
    assert re.search(r"^memory +\d\S* [MG]iB of this process", said, re.M)
    assert sorted(tmp_path.iterdir()) == before
