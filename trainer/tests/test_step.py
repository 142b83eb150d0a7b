"""One optimiser step and all that hangs on it, against what torch and arithmetic say."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Train, events, weights
from imgfeed.ranks import rank_batches
from torch import nn

from imgfeed_train import optim
from imgfeed_train.data import transforms as data
from imgfeed_train.errors import TrainError
from imgfeed_train.evaluate import criterion, evaluate
from imgfeed_train.launch.place import Place
from imgfeed_train.model import build, parts
from imgfeed_train.recipes import RECIPES
from imgfeed_train.settings import Settings, parse
from imgfeed_train.step import Step

CPU = torch.device("cpu")


def settings(*arguments: str) -> Settings:
    return parse(["--data", "d", "--output", "o", *arguments])


def small_step(*arguments: str, steps: int = 10) -> Step:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    return Step(settings(*arguments), CPU, model, classes=3, steps_per_epoch=steps)


def batch(samples: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(samples, 3, 2, 2), torch.arange(samples) % 3


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_an_overflow_skips_step_schedule_and_average() -> None:
    step = small_step("--amp", "fp16", "--ema", "0.5", "--schedule", "onecycle", "--epochs", "1", "--lr", "0.01")
    images, labels = batch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step.batch(images * 1e30, labels)
    assert step.ema is not None
    before, scale, lr = flat(step.model), step.scaler.get_scale(), step.optimizer.param_groups[0]["lr"]
    assert (step.skipped, step.schedule.last_epoch, int(step.ema.n_averaged), scale) == (1, 0, 0, 32768.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step.batch(images, labels)
    assert (step.skipped, step.schedule.last_epoch, int(step.ema.n_averaged)) == (1, 1, 1)
    assert step.scaler.get_scale() == scale
    assert step.optimizer.param_groups[0]["lr"] > lr
    assert not torch.equal(flat(step.model), before)
    assert flat(step.model).isfinite().all()


def test_fp16_on_a_cpu_resumes_to_the_bit(train: Train) -> None:
    whole = train("whole", "--amp", "fp16")
    train("part", "--amp", "fp16", "--max-steps", "7")
    part = train("part", "--amp", "fp16", "--resume", "auto")
    one, two = weights(whole), weights(part)
    assert one["scaler"]["scale"] >= 1
    assert one["scaler"] == two["scaler"]
    assert all(torch.equal(tensor, two["model"][name]) for name, tensor in one["model"].items())
    assert events(whole, "step")[-1]["loss"] < events(whole, "step")[0]["loss"]


@pytest.mark.parametrize(("size", "accumulate"), [("8", "2"), ("14", "4")])
def test_accumulation_is_the_larger_batch(train: Train, size: str, accumulate: str) -> None:
    """96 samples in groups of 4 x 14: 56, and 14 + 14 + 12, whose mean is not the mean of the batches' means."""
    large = train("large", "--batch-size", str(int(size) * int(accumulate)), "--clip-grad", "1")
    parts = train("parts", "--batch-size", size, "--accumulate", accumulate, "--clip-grad", "1")
    assert weights(parts)["progress"]["steps"] == weights(large)["progress"]["steps"]
    for name, tensor in weights(large)["model"].items():
        torch.testing.assert_close(weights(parts)["model"][name], tensor, rtol=1e-3, atol=1e-5, msg=name)


def test_clipping_bounds_the_step() -> None:
    for clip, bound in (("0.01", 0.01), ("0", math.inf)):
        step = small_step("--clip-grad", clip, "--lr", "1", "--momentum", "0", "--weight-decay", "0", "--schedule", "constant")
        before = flat(step.model)
        step.batch(*batch())
        moved = float((flat(step.model) - before).norm())
        assert moved == pytest.approx(bound, rel=1e-4) if clip != "0" else moved > 0.1


def test_the_average_is_one() -> None:
    step = small_step("--ema", "0.9", "--lr", "0.1", steps=20)
    expected = None
    for n in range(200):
        step.batch(*batch())
        decay = min(0.9, (1 + n) / (10 + n))  # warms up, and is the one that was asked for after 81 updates
        expected = flat(step.model) if expected is None else decay * expected + (1 - decay) * flat(step.model)
    assert expected is not None
    assert step.ema is not None
    torch.testing.assert_close(flat(step.ema.module), expected)


def test_smoothing() -> None:
    step = small_step("--label-smoothing", "0.1")
    images, labels = batch()
    likely = step.model(images).log_softmax(1)
    expected = -(0.9 * likely[torch.arange(4), labels] + 0.1 * likely.mean(1)).mean()
    step.batch(images, labels)
    assert float(step.sums[0] / step.sums[3]) == pytest.approx(float(expected.detach()), rel=1e-5)


@pytest.mark.parametrize("which", [["--mixup", "0.4"], ["--cutmix", "1"], ["--mixup", "0.4", "--cutmix", "1"]])
def test_mixing_keeps_images_and_targets_together(which: list[str]) -> None:
    """Image i is one-hot in class i's plane: after mixing, a plane's mean is its class's part of the target."""
    torch.manual_seed(1)
    mix = data.mixer(settings(*which), 4)
    assert mix is not None
    images = torch.eye(4)[:, :, None, None].expand(4, 4, 16, 16).contiguous()
    mixed = 0
    for _ in range(8):
        out, targets = mix(images.clone(), torch.arange(4))
        torch.testing.assert_close(out.mean((2, 3)), targets, atol=1e-6, rtol=0)
        mixed += int(((targets > 0.001) & (targets < 0.999)).any())
    assert mixed >= 6


def test_a_binary_cross_entropy_of_each_class() -> None:
    torch.manual_seed(2)
    output, labels = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 0])
    of_each = nn.functional.binary_cross_entropy_with_logits
    hard = nn.functional.one_hot(labels, 3).float()
    assert torch.equal(criterion(settings("--loss", "bce"), 3)(output, labels), of_each(output, hard))
    smooth = criterion(settings("--loss", "bce", "--label-smoothing", "0.3"), 3)
    torch.testing.assert_close(smooth(output, labels), of_each(output, 0.7 * hard + 0.1))
    mixed = 0.75 * hard + 0.25 * hard.flip(0)
    torch.testing.assert_close(smooth(output, mixed), of_each(output, 0.7 * mixed + 0.1))
    whole = criterion(settings("--loss", "bce", "--bce-threshold", "0.2"), 3)
    torch.testing.assert_close(whole(output, mixed), of_each(output, (mixed > 0).float()))
    faint = 0.999 * hard + 0.001 * hard.flip(0)
    torch.testing.assert_close(
        criterion(settings("--recipe", "deit3-s"), 3)(output, faint), of_each(output, (faint > 0).float())
    )
    with pytest.raises(SystemExit):
        settings("--bce-threshold", "0.2")


def test_erasing_comes_before_mixing() -> None:
    seen: list[str] = []
    step = small_step("--random-erasing", "1", "--mixup", "0.2", "--erase-with", "noise")
    assert step.erase is not None and step.mix is not None and step.erase.value == "random"
    erase, mix = step.erase, step.mix
    step.erase = lambda images: (seen.append("erase"), erase(images))[1]  # type: ignore[assignment]
    step.mix = lambda images, labels: (seen.append("mix"), mix(images, labels))[1]
    step.batch(*batch())
    assert seen == ["erase", "mix"]


@pytest.mark.parametrize(
    ("flags", "ends"),
    [
        ([], [("RandomHorizontalFlip", None)]),
        (["--augment", "ta_wide"], [("TrivialAugmentWide", "bilinear")]),
        (["--augment", "rand-m7-mstd0.5-inc1"], [("TimmAugment", "random")]),
        (["--augment", "3a", "--interpolation", "bicubic"], [("TimmAugment", "bicubic"), ("ColorJitter", None)]),
        (["--augment", "3a", "--color-jitter", "0"], [("TimmAugment", "random")]),
    ],
)
def test_policies_come_after_crop_and_flip(flags: list[str], ends: list[tuple[str, str | None]]) -> None:
    ops = data.operations(settings(*flags), 64)
    assert [(op["op"], op.get("interpolation")) for op in ops[-len(ends) :]] == ends
    assert ops[0].get("interpolation", "bilinear") == ("bicubic" if "bicubic" in flags else "bilinear")
    assert data.eval_transform(settings(*flags))[0].get("interpolation", "bilinear") == ops[0].get("interpolation", "bilinear")


@pytest.mark.parametrize("config", ["3a", "3a-mstd0.5", "rand-m9-t3a", "rand-t3aw-n1", "rand-m9", "original", "augmix-m3-a1"])
def test_colours_change_after_a_policy_where_timm_changes_them(config: str) -> None:
    create = pytest.importorskip("timm.data").create_transform
    theirs = [step for step in create(32, is_training=True, auto_augment=config).transforms if "Jitter" in type(step).__name__]
    ours = [op for op in data.operations(settings("--augment", config), 32) if op["op"] == "ColorJitter"]
    assert len(theirs) == len(ours) == ("3a" in config)
    for step, op in zip(theirs, ours, strict=True):
        of = ("brightness", "contrast", "saturation")
        assert [getattr(step, name) for name in of] == [(1 - op[name], 1 + op[name]) for name in of] and step.hue is None


def test_blur_before_strides() -> None:
    model, _ = build.build(settings("--arch", "resnet18", "--blurpool"), 3, Place())
    blurred = [name for name, module in model.named_modules() if isinstance(module, parts.BlurPool)]
    assert len(blurred) == 6  # three strided stages, each with its shortcut; the first convolution has 3 channels
    first = model.get_submodule(blurred[0])
    images = torch.randn(1, 64, 8, 8)
    kernel = torch.tensor([[1.0, 2, 1], [2, 4, 2], [1, 2, 1]]) / 16
    alone = torch.cat([nn.functional.conv2d(images[:, i : i + 1], kernel[None, None], padding=1) for i in range(64)], 1)
    torch.testing.assert_close(first(images), first.conv(alone))


def test_evaluation_with_the_mirror_image() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).requires_grad_(False)
    images, labels = batch(6)
    score = evaluate(model, [(images, labels)], settings("--eval-flip"), CPU)
    output = (model(images) + model(images.flip(3))) / 2
    assert score.loss == pytest.approx(float(nn.functional.cross_entropy(output, labels)), rel=1e-5)
    assert score.acc1 == pytest.approx(100 * float((output.argmax(1) == labels).double().mean()))


def rates(s: Settings, steps_per_epoch: int, begin: int = 0) -> list[tuple[float, float]]:
    """Return rate and momentum of each step from begin to the last."""
    model = nn.Linear(2, 2)
    opt = optim.optimizer(model, s)
    plan = optim.schedule(opt, s, steps_per_epoch)
    if begin:
        optim.advance(opt, plan, s, steps_per_epoch, begin)
    found = []
    for step in range(begin, s.epochs * steps_per_epoch):
        group = opt.param_groups[0]
        found.append((group["lr"], group.get("momentum") or group["betas"][0]))
        opt.step()
        if step + 1 < s.epochs * steps_per_epoch:
            plan.step()
    return found


@pytest.mark.parametrize("kind", ["onecycle", "cosine", "linear", "constant"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_schedule_that_begins_later_is_the_same(kind: str, optimizer: str) -> None:
    s = settings("--schedule", kind, "--optimizer", optimizer, "--epochs", "3", "--warmup-epochs", "0.5", "--lr", "0.3")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = rates(s, 8)
        for begin in (1, 3, 4, 5, 13, 23):
            assert rates(s, 8, begin) == whole[begin:]


def test_schedules_are_those_of_the_formulas() -> None:
    lr, warm, total = 0.3, 4, 24
    for kind in ("cosine", "linear"):
        s = settings("--schedule", kind, "--epochs", "3", "--warmup-epochs", "0.5", "--lr", str(lr))
        for step, (rate, _) in enumerate(rates(s, 8)):
            part = (step - warm) / (total - warm)
            down = 1 - part if kind == "linear" else 1e-6 + (1 - 1e-6) * (1 + math.cos(math.pi * part)) / 2
            assert rate == pytest.approx(lr * ((step + 1) / (warm + 1) if step < warm else down), rel=1e-5), (kind, step)


def test_onecycle_is_torchs_over_the_whole_training() -> None:
    """imagenet-distributed.py: two epochs of 5005 steps to 1.0; torch begins at 1/25, peaks at 30 %, ends at 1/250000."""
    s = settings("--recipe", "resnet18-onecycle")
    found = rates(s, 5005)
    theirs = torch.optim.SGD([torch.zeros(1)], lr=1.0, momentum=0.9)
    plan = torch.optim.lr_scheduler.OneCycleLR(theirs, 1.0, epochs=2, steps_per_epoch=5005)
    for step, (rate, momentum) in enumerate(found):
        assert (rate, momentum) == (theirs.param_groups[0]["lr"], theirs.param_groups[0]["momentum"]), step
        theirs.step()
        plan.step() if step + 1 < len(found) else None
    assert found[0][0] == pytest.approx(1 / 25)
    assert max(found)[0] == pytest.approx(1.0)
    assert found[-1][0] == pytest.approx(1 / 25 / 1e4, rel=1e-2)


IMAGENET, CIFAR, CINIC = 1_281_167, 50_000, 90_000


@pytest.mark.parametrize(
    ("recipe", "samples", "world", "batches", "images_a_step"),
    [
        ("resnet18-onecycle", IMAGENET, 1, 5005, 256),
        ("resnet18-onecycle", IMAGENET, 2, 2503, 512),
        ("resnet18-finetune", IMAGENET, 2, 626, 2048),
        ("vit-b32-cifar10", CIFAR, 8, 17, 3072),
        ("resnet50-modern", IMAGENET, 8, 313, 4096),
        ("resnet50-modern-88", IMAGENET, 8, 313, 4096),
    ],
)
def test_recipes_batches(recipe: str, samples: int, world: int, batches: int, images_a_step: int) -> None:
    size = int(RECIPES[recipe]["batch_size"])
    assert size * world == images_a_step
    assert {rank_batches(samples, rank, world, "pad", size) for rank in range(world)} == {batches}


@pytest.mark.parametrize(("recipe", "epochs", "small"), [("resnet50-modern", 16, 12), ("resnet50-modern-88", 88, 71)])
def test_the_modern_recipes_follow_their_mark(recipe: str, epochs: int, small: int) -> None:
    s = settings("--recipe", recipe)
    assert [data.size_at(s, epoch) for epoch in range(epochs)] == [160] * small + [192] * (epochs - small)
    found = [rate for rate, _ in rates(s, 100)]
    assert max(found) == found[200] == pytest.approx(1.7)  # at the end of the second epoch, straight to nothing
    assert found[-1] == pytest.approx(1.7 / (100 * (epochs - 2)), rel=1e-3)
    assert data.eval_transform(s) == [{"op": "Resize", "size": 293}, {"op": "CenterCrop", "size": 256}]


def test_what_a_cpu_has_not(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    plain = train("plain")
    spread = train("spread", "--strategy", "dp")
    assert "--strategy dp has nothing to spread" in capsys.readouterr().out
    assert all(torch.equal(t, weights(spread)["model"][n]) for n, t in weights(plain)["model"].items())
    with pytest.raises(SystemExit, match="works on GPUs only"):
        train("sync", "--sync-bn")


@pytest.mark.long
def test_compiled_is_the_same_training(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the tracer alone: inductor, which compiles what was traced, costs a minute here."""
    used: list[Any] = []
    real = nn.Module.compile

    def traced(module: nn.Module) -> None:
        used.append(module)
        real(module, backend="aot_eager")

    monkeypatch.setattr(nn.Module, "compile", traced)
    plain, compiled = train("plain", "--ema", "0.9"), train("compiled", "--compile", "--ema", "0.9")
    assert len(used) == 1
    for name, tensor in weights(plain)["model"].items():
        torch.testing.assert_close(weights(compiled)["model"][name], tensor, rtol=1e-4, atol=1e-5, msg=name)


RANK = """
import sys, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from imgfeed_train.settings import parse
from imgfeed_train.step import Step
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4), torch.nn.Linear(4, 3))
fully_shard(model)
settings = parse(["--data", "d", "--output", "o", "--amp", "fp16", "--clip-grad", "1"])
step = Step(settings, torch.device("cpu"), model, classes=3, steps_per_epoch=10)
inner = step._step
def poisoned():
    if rank == 0 and not step.skipped:
        next(model.parameters()).grad.to_local()[0] = float("inf")
    inner()
step._step = poisoned
for _ in range(2):
    step.batch(torch.randn(4, 3, 2, 2), torch.arange(4) % 3)
print(step.skipped, step.scaler.get_scale(), all(p.to_local().isfinite().all() for p in model.parameters()))
dist.destroy_process_group()
"""


@pytest.mark.long
def test_an_overflow_in_one_ranks_shard_is_everybodys(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RANK]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "meet")], stdout=subprocess.PIPE, text=True) for rank in range(2)
    ]
    assert [rank.communicate(timeout=300)[0].strip() for rank in ranks] == ["1 32768.0 True"] * 2


def test_a_step_whose_loss_is_no_number_is_left_out() -> None:
    """With its statistics: batch norm has seen the images, which are not to count."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 3))
    step = Step(settings("--nan", "skip", "--ema", "0.9"), CPU, model, classes=3, steps_per_epoch=10)
    images, labels = batch()
    step.batch(images, labels)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    step.batch(images * math.inf, labels)
    assert (step.skipped, step.schedule.last_epoch, step.why_skipped) == (1, 1, "its loss was not finite")
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    step.batch(images, labels)
    assert (step.skipped, step.schedule.last_epoch, int(step.bad[0])) == (1, 2, 0)
    assert flat(model).isfinite().all()
    step.sums.zero_()
    for _ in range(10):
        step.batch(images * math.inf, labels)
    with pytest.raises(TrainError, match="not finite for 10 steps in a row up to here"):
        step.check_finite("here", kept=False)
