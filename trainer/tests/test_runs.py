"""The trainings that this is for, at a small size on CPU: each recipe runs, and the arithmetic of the whole ones is right."""

import json
import re
import shutil
import signal
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from conftest import TINY, Train, events, same, weights
from imgfeed.programs import find_binary
from torch import nn

from imgfeed_train import data, flags, optim
from imgfeed_train import train as training
from imgfeed_train.command import main
from imgfeed_train.evaluate import autocast
from imgfeed_train.flags import RECIPES, parse
from imgfeed_train.model import build
from imgfeed_train.ranks import Rank

CPU = torch.device("cpu")
SMALL = ["--workers", "1", "--size", "32", "--log-every", "3", "--no-wandb"]


@pytest.fixture
def tiny_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make models of a few channels under the names of the recipes', and no request for published weights."""
    real = timm.create_model

    def small(name: str, **options: Any) -> nn.Module:
        options |= {"pretrained": False}
        return real("test_vit" if "vit" in name or "deit" in name else "test_resnet", **options)

    def narrow(name: str, **options: Any) -> nn.Module:
        return torchvision.models.ShuffleNetV2([1, 1, 1], [8, 8, 16, 16, 32], **options)

    def published(*_: Any, **__: Any) -> dict[str, torch.Tensor]:
        return narrow("", num_classes=1000).state_dict()

    monkeypatch.setattr(timm, "create_model", small)
    monkeypatch.setattr(torchvision.models, "get_model", narrow)
    monkeypatch.setattr(torchvision.models._api.WeightsEnum, "get_state_dict", published)


@pytest.mark.long
@pytest.mark.usefixtures("tiny_models")
@pytest.mark.parametrize("recipe", sorted(path.stem for path in RECIPES.glob("*.yaml")))
def test_every_recipe_trains(train: Train, recipe: str) -> None:
    """With its own optimiser, schedule, transform, mixing and precision."""
    small = [*SMALL, "--recipe", recipe, "--epochs", "1", "--batch-size", "32", "--warmup-epochs", "0.5"]
    run = train("run", *small, base=[])
    (epoch,), (start,) = events(run, "epoch"), events(run, "start")
    assert epoch["samples"] == 27 and start["settings"]["recipe"] == recipe
    assert all(torch.isfinite(t).all() for t in weights(run)["model"].values() if t.is_floating_point())
    again = json.loads(json.dumps(asdict(parse(["--recipe", str(run / "run.yaml"), "--output", "o"]))))
    mine = start["settings"] | {"recipe": None, "output": None}
    assert again | {"recipe": None, "output": None} == mine, "run.yaml repeats it"


def whole(sets: Path, loader: Any, images: int, rank: int, world: int, *arguments: str) -> int:
    """Return how many batches a rank gets of so many images, by the loader that a run makes."""
    s = parse(["--data", str(sets), "--output", "o", *arguments])
    made = loader(s, "train", Rank(CPU, rank, world), s.batch_size[0], data.Images(), num_samples=images, weights=[1.0] * 96)
    try:
        return len(made)
    finally:
        made.close()


@pytest.mark.parametrize(("world", "train", "val"), [(1, 5005, 782), (2, 2503, 391)])
def test_batches_of_imagenet(sets: Path, world: int, train: int, val: int) -> None:
    """1,281,167 images to train on and 50,000 to evaluate on, in the recipe's batches of 256 and 64."""
    recipe = ["--recipe", "imagenet-resnet50"]
    for rank in range(world):
        assert whole(sets, data.train_loader, 1_281_167, rank, world, *recipe) == train
        assert whole(sets, data.eval_loader, 50_000, rank, world, *recipe) == val


@pytest.mark.usefixtures("tiny_models")
def test_imagenet(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    """ResNet-50 by OneCycle, two epochs, with the lines that torch's example prints."""
    run = train("run", *SMALL, "--recipe", "imagenet-resnet50", "--batch-size", "13", "5", "--lr", "0.01", base=[])
    said = capsys.readouterr().out
    number = r" *[\d.e+-]+"
    line = (
        rf"Time{number} \({number}\)\tData{number} \({number}\)\tLoss{number} \({number}\)\tAcc@1{number} \({number}\)\tAcc@5"
    )
    assert [m[1] for m in re.finditer(rf"^Epoch: \[1\]\[(\d)/8\]\t{line}", said, re.MULTILINE)] == ["3", "6", "8"]
    assert re.search(r"^ \* Train Acc@1 [\d.]+ Acc@5 [\d.]+ Loss [\d.]+ \(96 images", said, re.MULTILINE)
    assert re.search(r"^ \* Val Acc@1 [\d.]+ Acc@5 [\d.]+ Loss [\d.]+ \(27 images", said, re.MULTILINE)
    assert re.search(r"^Training complete in: \d+:\d\d:\d\d$", said, re.MULTILINE)
    (start,) = events(run, "start")
    assert (start["batches"], start["val_batches"]) == (8, 6), "the last batch of five images is trained on"
    assert torch.are_deterministic_algorithms_enabled()


def test_the_largest_batch_that_fits() -> None:
    tried, limit = [], 77

    def run(images: int) -> None:
        tried.append(images)
        if images > limit:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    assert build.largest_batch(run, Rank(CPU)) == 72
    assert tried == [8, 16, 32, 64, 128, 96, 80, 72]
    with pytest.raises(Exception, match="not even 128 images fit"):
        build.largest_batch(run, Rank(CPU), multiple=128)
    limit = 5000
    assert build.largest_batch(run, Rank(CPU)) == 4864
    assert tried[-5:] == [8192, 6144, 5120, 4608, 4864], "a sixteenth is near enough"
    with pytest.raises(RuntimeError, match="another error"):
        build.largest_batch(lambda _: (_ for _ in ()).throw(RuntimeError("another error")), Rank(CPU))


def test_auto_needs_a_gpu(train: Train) -> None:
    with pytest.raises(SystemExit, match="--batch-size auto measures a GPU's memory, and there is no GPU: give a number"):
        train("run", "--batch-size", "auto")


@pytest.mark.usefixtures("tiny_models")
def test_cifar_from_its_binary_files(tmp_path: Path) -> None:
    """CIFAR-10 as published, by the recipe of CINIC-10, with DataParallel, whose plain model a CPU trains."""
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for i, name in enumerate([*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"]):
        records = torch.randint(0, 256, (20, 3073), generator=torch.Generator().manual_seed(i), dtype=torch.uint8)
        records[:, 0] = torch.arange(20) % 10
        (folder / name).write_bytes(records.numpy().tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(f"class{i}" for i in range(10)) + "\n")
    subprocess.run(
        [find_binary("imgshard"), "build", str(folder), "-o", str(tmp_path / "sets")], check=True, capture_output=True
    )
    base = ["--data", str(tmp_path / "sets"), "--recipe", "cinic10-resnet152", *SMALL, "--strategy", "dp", "--batch-size", "20"]
    main([*base, "--epochs", "2", "--output", str(tmp_path / "run")])
    assert [row["samples"] for row in events(tmp_path / "run", "trained")] == [100, 100]
    assert [row["samples"] for row in events(tmp_path / "run", "epoch")] == [20, 20]


def test_three_tars_of_imagenet(sets: Path, tmp_path: Path) -> None:
    """Training, validation and test images in tars, packed without being unpacked; the crop of a square of 256 pixels."""
    raw = sets.parent / "raw"
    wnids = ("n01440764", "n01443537", "n01484850")
    with tarfile.open(tmp_path / "ILSVRC2012_img_train.tar", "w") as outer:
        for wnid, folder in zip(wnids, sorted((raw / "train").iterdir()), strict=True):
            with tarfile.open(tmp_path / f"{wnid}.tar", "w") as inner:
                for i, file in enumerate(sorted(folder.iterdir())):
                    inner.add(file, f"{wnid}_{i}.JPEG")
            outer.add(tmp_path / f"{wnid}.tar", f"{wnid}.tar")
            (tmp_path / f"{wnid}.tar").unlink()
    numbers = {"n01440764": (293, 2138, 3014), "n01443537": (236, 262, 307), "n01484850": (2338, 2752, 4311)}
    for split, count in (("val", 9), ("test", 5)):
        files = sorted(file for file in (raw / "val").rglob("*.*") if file.is_file())
        with tarfile.open(tmp_path / f"ILSVRC2012_img_{split}.tar", "w") as tar:
            names = [n for of in numbers.values() for n in of]
            for number, file in list(zip(names, files, strict=False))[:count]:
                tar.add(file, f"ILSVRC2012_{split}_{number:08}.JPEG")
    tars = sorted(tmp_path.glob("*.tar"))
    tars = [tar for tar in tars if "test" not in tar.name]  # without labels: nothing to train or to score on
    build_ = [find_binary("imgshard"), "build", *map(str, tars), "-o", str(tmp_path / "sets")]
    subprocess.run(build_, check=True, capture_output=True)
    s = parse(["--data", str(tmp_path / "sets"), "--output", "o", "--recipe", "imagenet-notebook", "--workers", "1"])
    square = {"op": "Resize", "size": [256, 256], "interpolation": "bilinear"}
    crop = {"op": "CenterCrop", "size": 224}
    assert data.train_transform(s, data.Images()) == [square, crop, {"op": "RandomHorizontalFlip"}]
    assert data.eval_transform(s, data.Images()) == [square, crop] and s.batch_size == (1024,)
    base = [*TINY, "--transform", "square-flip", "--amp", "bf16", "--epochs", "1"]
    main(["--data", str(tmp_path / "sets"), *base, "--output", str(tmp_path / "run")])
    assert events(tmp_path / "run", "epoch")[0]["samples"] == 9


def test_a_rehearsal_writes_nothing(train: Train, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    train("run", "--dry-run", "--accumulate", "2")
    said = capsys.readouterr().out
    assert re.search(r"^batch +16 a rank, 32 a step$", said, re.MULTILINE)
    assert re.search(r"^an epoch +0:\d\d:\d\d; all 2: 0:\d\d:\d\d, without evaluation$", said, re.MULTILINE)
    assert re.search(r"^images/s +[\d,]+$", said, re.MULTILINE) and "report: " not in said
    assert not (tmp_path / "run").exists()


def test_a_rehearsal_takes_a_minute(train: Train, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "DRY_RUN", 1.0)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    train("run", "--dry-run", "--epochs", "100000")
    for number, handler in before.items():
        signal.signal(number, handler)
    assert re.search(r"^epochs +\d+ of 100000, [1-9][\d,]* steps$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.long
def test_training_learns(train: Train) -> None:
    run = train("run", "--epochs", "16", "--optimizer", "adamw", "--lr", "2e-3")
    losses = [row["loss"] for row in events(run, "epoch")]
    assert losses[-1] < losses[0] / 2


def test_a_last_batch_of_one_image(train: Train) -> None:
    base = [*TINY, "--arch", "timm/test_resnet", "--batch-size", "19", "--epochs", "1"]
    with pytest.raises(SystemExit, match=r"would have one image, over which batch norm has no statistics: take another"):
        train("run", base=base)


class Threads:
    """Runs replicas as DataParallel does on GPUs: each in a thread of its own, whose autocast has the default type."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(nn.DataParallel, "parallel_apply", self.parallel_apply)

    def parallel_apply(self, replicas: Any, inputs: Any, kwargs: Any) -> list[Any]:
        def run(replica: Any, given: Any, named: Any) -> Any:
            with torch.autocast("cpu", enabled=torch.is_autocast_enabled("cpu")):
                return replica(*given, **named)

        with ThreadPoolExecutor() as pool:
            return list(pool.map(run, replicas, inputs, kwargs))


@pytest.mark.parametrize(("amp", "want"), [("fp16", torch.float16), ("bf16", torch.bfloat16), ("off", torch.float32)])
def test_data_parallel_computes_in_the_type_of_amp(amp: str, want: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    Threads(monkeypatch)
    model = build.DataParallel(nn.Linear(2, 2))
    s = parse(["--data", "d", "--output", "o", "--strategy", "dp", "--amp", amp])
    with autocast(s, CPU):
        found = model.parallel_apply([model.module] * 2, [(torch.ones(1, 2),)] * 2, [{}] * 2)
    assert [output.dtype for output in found] == [want, want]


@pytest.mark.parametrize("threshold", [0.0, 0.2])
def test_binary_cross_entropy_of_mixed_targets(threshold: float) -> None:
    """As of timm's mixup and --bce-target-thresh: smoothed as a label is, then counted as whole or not."""
    options = ["--loss", "bce", "--mixup", "0.2", "--label-smoothing", "0.1", "--bce-threshold", str(threshold)]
    s = parse(["--data", "d", "--output", "o", *options])
    step = training.Step(s, Rank(CPU), nn.Linear(2, 5), 5, 10)
    output, labels = torch.randn(4, 5, generator=torch.Generator().manual_seed(1)), torch.arange(4)
    loss, mix = nn.functional.binary_cross_entropy_with_logits, timm.data.mixup.mixup_target
    for share, targets in ((0.7, mix(labels, 5, 0.7, 0.0)), (1.0, labels)):
        want = mix(labels, 5, share, 0.1)
        want = want.gt(threshold).float() if threshold else want
        assert float(step.loss(output, targets)) == pytest.approx(float(loss(output, want)))


def test_an_average_reaches_its_decay(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    s = parse(["--data", "d", "--output", "o", "--recipe", "deit-s"])
    ema = training.Step(s, Rank(CPU), nn.Linear(2, 2), 2, 1251).ema
    assert ema is not None and ema.get_decay(300 * 1251) == s.ema == 0.99996
    assert ema.get_decay(1 + 90) == pytest.approx(0.9)
    train("run", "--ema", "0.9999", "--epochs", "1")
    assert "--ema 0.9999: this run's steps are too few for it; the decay rises to 0.3333333" in capsys.readouterr().out
    train("enough", "--ema", "0.3", "--epochs", "1")
    assert "--ema" not in capsys.readouterr().out


def test_batch_norm_over_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    def ddp(model: nn.Module, device_ids: Any = None, broadcast_buffers: bool = True) -> nn.Module:
        return model

    monkeypatch.setattr(nn.parallel, "DistributedDataParallel", ddp)
    s, model = parse(["--data", "d", "--output", "o", "--sync-bn"]), timm.create_model("test_efficientnet")
    names = [name for name, _ in model.named_parameters()]
    with pytest.raises(flags.TrainError, match="--sync-bn: torch shares the statistics of batch norm between GPUs alone"):
        build.distribute(model, s, Rank(CPU, 0, 2))
    shared = build.distribute(model, s, Rank(torch.device("cuda"), 0, 2))
    kinds = {type(m).__name__ for m in shared.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)}
    assert kinds and all("Sync" in kind for kind in kinds)
    assert [name for name, _ in shared.named_parameters()] == names


@pytest.mark.long
def test_a_compiled_run_is_the_same_training(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the tracer alone: inductor, which compiles what was traced, takes a minute here. Its average is not compiled."""
    used, real = [], nn.Module.compile

    def traced(module: nn.Module, **how: Any) -> None:
        used.append(module)
        real(module, backend="aot_eager", **how)

    monkeypatch.setattr(nn.Module, "compile", traced)
    plain, compiled = train("plain", "--ema", "0.9"), train("compiled", "--compile", "--ema", "0.9")
    assert len(used) == 1
    for name, tensor in weights(plain)["model"].items():
        torch.testing.assert_close(weights(compiled)["model"][name], tensor, rtol=1e-4, atol=1e-5, msg=name)
    train("parts", "--compile", "--ema", "0.9", "--max-steps", "4")
    same(compiled, train("parts", "--compile", "--ema", "0.9", "--resume", "auto"))


@pytest.mark.parametrize("optimizer", ["sgd", "rmsprop"])
def test_momentum(optimizer: str) -> None:
    base = ["--data", "d", "--output", "o", "--optimizer", optimizer]
    for given, want in (([], 0.9), (["--momentum", "0.8"], 0.8)):
        made = optim.optimizer(nn.Linear(2, 2), parse([*base, *given]))
        assert {group["momentum"] for group in made.param_groups} == {want}


def test_momentum_may_change_in_between(train: Train) -> None:
    train("run", "--schedule", "constant", "--max-steps", "2")
    state = weights(train("run", "--schedule", "constant", "--momentum", "0.5", "--resume", "auto"))
    assert all(value == 0.5 for name, value in flat(state["optimizer"]) if name.endswith("momentum"))


def flat(value: Any, name: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of a state, by path."""
    if not isinstance(value, dict | list):
        return [(name, value)]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [leaf for key, one in items for leaf in flat(one, f"{name}.{key}")]


def test_a_rate_that_falls_by_steps() -> None:
    """As in torch's example: a tenth after each 30 epochs. And as in timm's: by other numbers, after a warm-up."""
    base = ["--data", "d", "--output", "o", "--schedule", "step", "--epochs", "90", "--lr", "0.1"]
    for more, want in (
        ([], {0: 0.1, 299: 0.1, 300: 0.01, 600: 0.001, 899: 0.001}),
        (["--decay-epochs", "2.5", "--decay-rate", "0.5", "--warmup-epochs", "2"], {20: 0.1, 24: 0.1, 25: 0.05, 50: 0.025}),
    ):
        s = parse([*base, *more])
        schedule = optim.Schedule(optim.optimizer(nn.Linear(2, 2), s), s, 10)
        for step, rate in want.items():
            schedule.at(step)
            assert schedule.rate == pytest.approx(rate)


def test_an_unreadable_image_is_named(sets: Path, tmp_path: Path) -> None:
    shutil.copytree(sets, tmp_path / "sets")
    shard = next((tmp_path / "sets" / "train").rglob("*.imgshard"))
    broken = bytearray(shard.read_bytes())
    middle = len(broken) // 2
    broken[middle : middle + 50] = bytes(50)
    shard.write_bytes(broken)
    base = ["--data", str(tmp_path / "sets"), *TINY, "--epochs", "1", "--output"]
    with pytest.raises(SystemExit, match=rf"{shard.name}"):
        main([*base, str(tmp_path / "a")])


def test_flags_of_a_recipe_stand_before_the_others(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("data: d\noutput: o\nbatch-size: 7\nlr: 1e-3\nsize: [32, 64]\nfreeze: true\nwandb: false\nweights:\n")
    s = parse(["--lr", "0.5", f"--recipe={mine}"])
    assert (s.batch_size, s.lr, s.size, s.freeze, s.wandb, s.weights) == ((7,), 0.5, (32, 64), True, False, None)
    for text, said in (
        ("lrr: 1", r"mine.yaml: lrr is not a flag \(did you mean \"lr\"\?\)"),
        ("- 1", "holds no flags: want lines such as `batch_size: 256`"),
        ("a: [", "can't be read"),
        ("[" * 2000, "can't be read"),
    ):
        mine.write_text(text)
        with pytest.raises(flags.TrainError, match=said):
            parse(["--recipe", str(mine)])
    with pytest.raises(flags.TrainError, match=r"--recipe deit-x can't be read \(did you mean \"deit-s\"\?\)"):
        parse(["--recipe", "deit-x"])


def test_a_run_with_mixed_images_says_so(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    train("run", "--mixup", "0.2", "--max-steps", "2")
    assert re.search(r"\tAcc@1\(mixed\) +\d+\.\d\d", capsys.readouterr().out)
    assert training.Progress().best == -1.0


def test_images_of_a3() -> None:
    """Trained on at 160 x 160, scored at 224 x 224 of 236, as in the paper."""
    s = parse(["--data", "d", "--output", "o", "--recipe", "resnet50-a3"])
    images = build.build(s, 3, Rank(CPU))[1]
    assert (s.loss, s.bce_threshold) == ("bce", 0.2)
    assert data.train_transform(s, images)[0] == {"op": "RandomResizedCrop", "size": 160, "interpolation": "bicubic"}
    assert [op["size"] for op in data.eval_transform(s, images)] == [236, 224]
