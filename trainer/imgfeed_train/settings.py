"""What can be set: every flag of ``imgfeed-train`` with its default, its range and its help, and what must fit together.

From the weakest to the strongest: the defaults here, ``--recipe``, ``--config``, the flags beside them.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from imgfeed.numbers import INT64_MAX, INT64_MIN
from imgfeed.paths import source_path

from . import flags
from .errors import TrainError
from .flags import AT_LEAST_0, AT_MOST_A_WEEK, BELOW_1, COUNT, COUNT_OR_0, Range, option
from .recipes import RECIPES

LOG = "log.jsonl"  # in the output folder: one JSON object a line
CONFIG = "run.yaml"  # beside it: the settings, for --config
TRANSFORMS = ("train", "train-resize", "center-flip", "resize-flip", "cifar", "eval")
SIZE = Range(1, 16384)
REPEATS, BATCH = Range(1, 65536), Range(1, 2**24)  # as DataLoader takes them
EVAL_CROPS = (1, 5, 10)  # CenterCrop, FiveCrop, TenCrop
#: Settings that belong to one start on one machine, and not to what a run is: no file keeps them.
OF_ONE_START = ("nodes", "gpus", "node_rank", "master", "resume", "overwrite", "dry_run")


@dataclass(kw_only=True)
class Settings:
    """The settings of a run. ``imgfeed-train --help`` shows them with their flags."""

    recipe: str | None = option(None, "named defaults for what follows", choices=sorted(RECIPES))

    data: str = option(
        "", "folder with the sets train and val, its URL (s3://bucket/sets), or unix:SOCKET of a running imgfeed", group="data"
    )
    cache: str | None = option(None, "with a URL: folder on this node's disk that keeps what was read", metavar="DIR")
    cache_size: str | None = option(None, "its limit, such as 400GB (default nine tenths of what it may take)", metavar="SIZE")
    train_split: str = option("train", "split to train on")
    val_split: str | None = option(
        None, "split to evaluate on, none for training without; if not given, the first there is of val, valid, test"
    )
    target: str | None = option(
        None,
        "a field of the sets in the labels' place: numbers from 0 to 1 for each image, as many as there are classes, of which "
        "any may be 1; trained by binary cross-entropy, evaluated by mean average precision",
        metavar="FIELD",
    )
    transform: str = option("train", "what happens to a training image", choices=TRANSFORMS)
    augment: str = option(
        "none",
        "policy after crop and flip: ta_wide, torchvision's TrivialAugmentWide; or one of timm's strings, as "
        "rand-m9-mstd0.5-inc1 or 3a",
    )
    color_jitter: float = option(
        0.4,
        "by how much brightness, contrast and saturation change after a policy with 3a in its string, as timm has it: 3a, "
        "rand-m9-t3a; 0: not",
        within=Range(0, 10),
    )
    interpolation: str = option("bilinear", "filter of resizes, and of policies' maps", choices=("bilinear", "bicubic"))
    random_erasing: float = option(0.0, "probability of erasing a part of an image; 0: none", within=Range(0, 1))
    erase_with: str = option("mean", "what erased pixels become: the mean, or noise", choices=("mean", "noise"))
    repeats: int = option(1, "repeated augmentation: how often an image comes in a row, on other ranks", within=REPEATS)
    size: int = option(224, "pixels a side in training", within=SIZE)
    size_start: int = option(0, "pixels a side in the first epoch, growing to --size; 0: no growth", within=Range(0, 16384))
    size_ramp: tuple[float, float] | None = option(
        None,
        "epochs between which it grows; if not given, all of them, and with --recipe its own, moved along with --epochs",
        metavar=("FROM", "TO"),
        within=AT_LEAST_0,
    )
    eval_size: int = option(0, "pixels a side in evaluation; 0: as --size", within=Range(0, 16384))
    eval_resize: int = option(0, "short side before the centre crop; 0: --eval-size / 0.875", within=Range(0, 16384))
    resampler: str | None = option(
        None,
        "whose bits resizing gives, Pillow 13's or those of 9.4 to 12.3; if not given, the server's own: pillow-13",
        choices=("pillow-13", "pillow-12"),
    )
    eval_flip: bool = option(False, "evaluate with the mirror image too")
    eval_crops: int = option(
        1, "crops of an image whose outputs are averaged in evaluation: 1, 5 (the corners too) or 10 (and their mirror images)"
    )
    drop_last: bool | None = option(
        None, "leave out what fills no batch on every rank; if not given, for models with batch norm alone"
    )
    on_error: str = option(
        "error",
        "a training image that can't be read: error ends the run, substitute trains on another one of its class in its place; "
        "in evaluation it always ends the run",
        choices=("error", "substitute"),
    )
    max_bad: int | None = option(
        None,
        "with --on-error substitute: end the run with their list when a rank has met more such images; counted anew at a "
        "restart, and where --size-start makes images grow",
        within=COUNT_OR_0,
        metavar="N",
    )
    workers: int = option(0, "decoding threads of each rank; 0: this node's CPUs, shared", within=Range(0, 4096))

    arch: str = option("resnet18", "a model of torchvision, or of timm; timm/NAME takes timm's of that name", group="model")
    pretrained: bool = option(False, "begin with published weights")
    weights: str | None = option(None, "begin with the weights in this file, .pt, .pth or .safetensors; the head may differ")
    blurpool: bool = option(False, "blur before convolutions that stride")
    drop_path: float = option(0.0, "highest rate of stochastic depth, for models that have it", within=BELOW_1)
    grad_checkpointing: bool = option(False, "compute activations again in the backward: less memory, more time")

    epochs: int = option(90, "how often to go through the data", within=COUNT, group="optimisation")
    batch_size: int | Literal["auto"] = option(
        64, "images per rank and step, or auto: the largest that fits the GPU", within=BATCH
    )
    accumulate: int = option(1, "batches whose gradients are added up before a step", within=COUNT)
    optimizer: str = option("sgd", "sgd, adam, adamw of torch, or one of timm's, as rmsprop, lion, lamb")
    lr: float = option(0.1, "highest learning rate", within=AT_LEAST_0)
    momentum: float = option(0.9, "of sgd and rmsprop", within=BELOW_1)
    weight_decay: float = option(1e-4, "weight decay", within=AT_LEAST_0)
    decay_norm: bool = option(True, "decay norms and biases too")
    layer_decay: float = option(
        0.0, "factor of the rate from each layer of a timm model to the one before it, as 0.75; 0: none", within=BELOW_1
    )
    schedule: str = option("cosine", "of the rate", choices=("onecycle", "cosine", "linear", "constant"))
    warmup_epochs: float = option(0.0, "epochs of linear warm-up; onecycle has its own", within=AT_LEAST_0)
    loss: str = option("ce", "cross-entropy, or binary cross-entropy of each class by itself", choices=("ce", "bce"))
    bce_threshold: float = option(
        0.0, "with bce, parts of a target above this count as a whole one; 0: as they are", within=BELOW_1
    )
    label_smoothing: float = option(0.0, "part of the target that all classes share", within=Range(0, 1))
    mixup: float = option(0.0, "alpha of mixup; 0: none", within=AT_LEAST_0)
    cutmix: float = option(0.0, "alpha of cutmix; 0: none. With both, one of them by chance", within=AT_LEAST_0)
    ema: float = option(0.0, "decay of the moving average of weights, as 0.9999; 0: none", within=BELOW_1)
    clip_grad: float = option(0.0, "largest norm of the gradient; 0: any", within=AT_LEAST_0)
    nan: str = option(
        "stop",
        "a loss that is not finite: stop ends the run after 10 such steps in a row, or before a checkpoint would keep "
        "them; skip leaves out each such step; ignore goes on",
        choices=("stop", "skip", "ignore"),
    )
    seed: int = option(0, "of weights, order, crops and mixing", within=Range(INT64_MIN, INT64_MAX))

    device: str = option("auto", "what to compute on", choices=("auto", "cuda", "cpu"), group="machine")
    strategy: str = option("ddp", "how a model is spread over ranks", choices=("ddp", "fsdp", "dp"))
    amp: str = option("off", "precision of the forward", choices=("fp16", "bf16", "off"))
    channels_last: bool = option(False, "images and convolutions with channels last in memory")
    compile: bool = option(False, "torch.compile")
    sync_bn: bool = option(False, "batch statistics over all ranks")
    deterministic: bool = option(False, "only deterministic kernels; slower on GPUs")

    nodes: int | None = option(
        None,
        "how many nodes",
        short=("-n",),
        within=Range(1, 65536),
        group="nodes: not needed under torchrun and Slurm, which say it in the environment",
    )
    gpus: int | None = option(None, "ranks on this node; if not given, its GPUs", short=("-g",), within=Range(1, 1024))
    node_rank: int | None = option(None, "which of the nodes this is, from 0", short=("-nr",), within=Range(0, 65535))
    master: str | None = option(None, "HOST[:PORT] of node 0")
    rendezvous_timeout: float = option(
        300.0, "how long to wait at the start for the other ranks, as 5m or 300", within=AT_MOST_A_WEEK, time=True
    )
    collective_timeout: float = option(
        1800.0,
        "how long ranks wait for one another later, as for a checkpoint or a download, as 30m or 1800",
        within=AT_MOST_A_WEEK,
        time=True,
    )

    output: str = option("", "folder for logs, checkpoints and the report", group="run")
    checkpoints: str | None = option(
        None, "folder or URL (as s3://bucket/run) for checkpoints; OUTPUT/checkpoints if not given"
    )
    checkpoint_every: int = option(0, "optimiser steps between checkpoints; 0: at epochs' ends", within=COUNT_OR_0)
    keep: int = option(0, "keep the checkpoints of the last N epochs too, as epoch-0007.pt", within=COUNT_OR_0, metavar="N")
    resume: str | None = option(None, "auto: the last checkpoint, if there is one; or a path or URL")
    overwrite: bool = option(False, "begin anew where checkpoints of another run are, and remove those")
    max_steps: int = option(0, "stop after so many optimiser steps, with a checkpoint; 0: don't", within=COUNT_OR_0)
    stopped_status: int = option(
        0,
        "exit status of a run that SIGTERM or --max-steps stopped before its end, for scripts that start it again",
        metavar="N",
        within=Range(0, 255),
    )
    log_every: int = option(100, "batches between lines", within=COUNT)
    tensorboard: bool = option(True, "log to TensorBoard, where it is installed")
    wandb: bool = option(False, "log to Weights & Biases too; WANDB_MODE=offline needs no network")

    dry_run: bool = option(
        False, "train for a minute and show plan, memory and time; nothing is written", group="instead of training"
    )
    evaluate: bool = option(False, "score --weights, --pretrained or --resume on the validation split, and end")
    real_labels: str | None = option(
        None, "with --evaluate: ReaL's real.json, the labels that count as right for ImageNet's validation images"
    )

    def saved(self) -> dict[str, Any]:
        """Return the settings as plain values, for checkpoints and logs."""
        return dataclasses.asdict(self)

    def to_repeat(self) -> dict[str, Any]:
        """Return what a file needs to repeat the run."""
        return {name: value for name, value in self.saved().items() if name not in OF_ONE_START}


Some = TypeVar("Some", bound=Settings)


def parser() -> flags.Parser:
    """Return the parser of ``imgfeed-train``."""
    p = flags.Parser(
        prog="imgfeed-train",
        usage="imgfeed-train --data DATA --output RUN [--recipe NAME] [--config FILE] [FLAG ...]",
        description="Train an image classifier on shard sets, on one node or many. "
        "The training is imgfeed_train/train.py, to be read from top to bottom.",
        epilog="Other commands: imgfeed-train compare RUN_A RUN_B, report RUN, bench, prepare; each has its own --help.",
    )
    _add_config(p)
    flags.add(p, Settings)
    return p


def _add_config(p: flags.Parser) -> None:
    p.add_argument("--config", metavar="FILE", help="settings by name in YAML; flags beside it win. OUTPUT/run.yaml is one")


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Return the settings of a command line. Exits with status 2 where they don't fit together."""
    p = parser()
    s = gather(p, Settings, vars(p.parse_args(arguments)))
    if not (s.output or s.dry_run or s.evaluate):
        p.error("--output is missing: a folder for logs, checkpoints and the report")
    return s


def gather(p: flags.Parser, kind: type[Some], given: Mapping[str, Any]) -> Some:
    """Return the settings that flags, a configuration file and a recipe make; p tells what is wrong with them."""
    own = {name: value for name, value in given.items() if name != "config"}
    try:
        flagged = flags.checked(kind, own)
        path = given.get("config")
        filed = flags.checked(kind, flags.read_file(path), path) if path else {}
        recipe = flagged.get("recipe", filed.get("recipe"))
        s = kind(**{**RECIPES.get(recipe or "", {}), **filed, **flagged})
        if recipe and s.size_ramp is RECIPES[recipe].get("size_ramp"):
            _stretch(s, RECIPES[recipe])
        check(s)
    except TrainError as e:
        flags.fail(p, e)
    return s


def _check_packages(s: Settings) -> None:
    for flag, given, package in (("--target", s.target, "torchmetrics"), ("--wandb", s.wandb, "wandb")):
        if given and importlib.util.find_spec(package) is None:
            raise TrainError(f"{flag} needs the package {package}: pip install {package}, or leave {flag} out")


def check(s: Settings) -> None:
    """Raise TrainError where settings don't fit together, as far as that needs no hardware."""
    if not s.data:
        raise TrainError("--data is missing: a folder with the sets, or unix:SOCKET of a running imgfeed")
    try:
        source_path("--data", s.data)
    except ValueError as e:
        raise TrainError(str(e).removeprefix("imgfeed: ")) from None
    if s.strategy == "fsdp" and s.ema:
        raise TrainError("--ema keeps a second, whole model and so doesn't go with --strategy fsdp: choose one")
    if s.nodes is not None and s.nodes > 1 and not s.master:
        raise TrainError("-n of more than one node needs --master HOST[:PORT], an address of node 0 that the others reach")
    if "://" in s.output:
        raise TrainError(f"--output {s.output}: logs and report need a folder on this machine; --checkpoints takes a URL")
    _check_packages(s)
    if s.data.startswith("unix:") and s.workers:
        raise TrainError("--workers: the running feed has its own number of threads, chosen by `imgfeed serve --threads`")
    if s.data.startswith("unix:") and (s.cache or s.cache_size):
        raise TrainError("--cache: the running feed has its own, chosen by `imgfeed serve --cache`")
    if s.size_ramp and not 0 <= s.size_ramp[0] < s.size_ramp[1]:
        raise TrainError(f"--size-ramp is {s.size_ramp}, want two epochs, the earlier first")
    if s.resume and s.overwrite:
        raise TrainError("--resume goes on with a run and --overwrite removes it: choose one")
    if s.target and (s.mixup or s.cutmix or s.label_smoothing):
        raise TrainError("--target takes targets as they are: --mixup 0 --cutmix 0 --label-smoothing 0 go with it")
    if s.max_bad is not None and s.on_error == "error":
        raise TrainError(
            "--max-bad goes with --on-error substitute: without it the first image that can't be read ends the run"
        )
    if s.bce_threshold and s.loss != "bce":
        raise TrainError("--bce-threshold goes with --loss bce")
    _check_scoring(s)


def _check_scoring(s: Settings) -> None:
    """Raise TrainError where evaluation has no such crops, --evaluate lacks what it scores, or something goes with it alone."""
    if s.eval_crops not in EVAL_CROPS:
        raise TrainError(f"--eval-crops is {s.eval_crops}, want one of {', '.join(map(str, EVAL_CROPS))}")
    if s.eval_crops == 10 and s.eval_flip:
        raise TrainError("--eval-crops 10 has the mirror images among its crops: --no-eval-flip goes with it")
    if s.eval_crops > 1 and 0 < s.eval_resize < (s.eval_size or s.size):
        raise TrainError(
            f"--eval-crops {s.eval_crops} of {s.eval_size or s.size} pixels need an --eval-resize of as many or more"
        )
    if s.evaluate and not (s.weights or s.pretrained or s.resume):
        raise TrainError("--evaluate needs what to score: --weights FILE, --pretrained, or --resume auto (with --output)")
    if s.evaluate and s.resume and not (s.output or s.checkpoints) and s.resume == "auto":
        raise TrainError("--evaluate --resume auto needs --output, the folder of the run")
    if s.real_labels and not s.evaluate:
        raise TrainError("--real-labels goes with --evaluate")
    if s.real_labels and not Path(s.real_labels).is_file():
        raise TrainError(
            f"--real-labels {s.real_labels}: there is no such file (github.com/google-research/reassessed-imagenet)"
        )


def _stretch(s: Settings, recipe: Mapping[str, Any]) -> None:
    """Move the epochs between which a recipe's images grow along with --epochs."""
    if s.size_ramp is not None:
        first, last = s.size_ramp
        s.size_ramp = (first * s.epochs / recipe["epochs"], last * s.epochs / recipe["epochs"])
