"""What can be set: the command line, the recipes' defaults under it, and the checks that need no hardware."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from .recipes import RECIPES

Settings = argparse.Namespace

LOG = "log.jsonl"  # in the output folder: one JSON object a line

TRANSFORMS = ("train", "train-resize", "center-flip", "resize-flip", "cifar", "eval")


def parser() -> argparse.ArgumentParser:
    """Return the parser of ``imgfeed-train``; its defaults are those without a recipe."""
    p = argparse.ArgumentParser(
        prog="imgfeed-train",
        description="Train an image classifier on shard sets, on one node or many.",
        epilog="imgfeed-train compare RUN_A RUN_B sets two runs side by side; imgfeed-train report RUN writes a report anew.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--recipe", choices=sorted(RECIPES), help="named defaults for what follows")
    _data(p.add_argument_group("data"))
    _model(p.add_argument_group("model and optimisation"))
    _machine(p.add_argument_group("machine"))
    _nodes(p.add_argument_group("nodes", "not needed under torchrun and Slurm, which say it in the environment"))
    _run(p.add_argument_group("run"))
    return p


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Return the settings of a command line. Exits with status 2 where they don't fit together."""
    p = parser()
    chosen, _ = p.parse_known_args(arguments)
    if chosen.recipe:
        p.set_defaults(**RECIPES[chosen.recipe])
    s = p.parse_args(arguments)
    if chosen.recipe:
        _stretch(s, RECIPES[chosen.recipe])
    if s.batch_size != "auto" and not (s.batch_size.isdecimal() and int(s.batch_size) > 0):
        p.error(f"--batch-size is {s.batch_size!r}, want a number of images or 'auto'")
    if s.strategy == "fsdp" and s.ema:
        p.error("--ema keeps a second, whole model and so doesn't go with --strategy fsdp: choose one")
    if s.nodes is not None and s.nodes > 1 and not s.master:
        p.error("-n of more than one node needs --master HOST[:PORT], an address of node 0 that the others reach")
    if "://" in s.output:
        p.error(f"--output {s.output}: logs and report need a folder on this machine; --checkpoints takes a URL")
    if s.wandb and importlib.util.find_spec("wandb") is None:
        p.error("--wandb needs the package wandb, which is not installed: pip install wandb, or leave --wandb out")
    if s.data.startswith("unix:") and s.workers:
        p.error("--workers: the running feed has its own number of threads, chosen by `imgfeed serve --threads`")
    if s.size_ramp and not 0 <= s.size_ramp[0] < s.size_ramp[1]:
        p.error(f"--size-ramp is {s.size_ramp}, want two epochs, the earlier first")
    if s.accumulate < 1 or s.epochs < 1 or s.log_every < 1:
        p.error("--accumulate, --epochs and --log-every want at least 1")
    return s


def _stretch(s: Settings, recipe: Mapping[str, Any]) -> None:
    """Move the epochs between which a recipe's images grow along with --epochs, unless the command line has its own."""
    ramp = s.size_ramp
    if ramp is recipe.get("size_ramp") and ramp is not None:
        s.size_ramp = tuple(epoch * s.epochs / recipe["epochs"] for epoch in ramp)


def _data(g: argparse._ArgumentGroup) -> None:
    g.add_argument("--data", required=True, help="folder with the sets train and val, or unix:SOCKET of a running imgfeed")
    g.add_argument("--train-split", default="train", help="split to train on")
    g.add_argument("--val-split", help="split to evaluate on; if not given, the first there is of val, valid, test")
    g.add_argument("--transform", choices=TRANSFORMS, default="train", help="what happens to a training image")
    g.add_argument("--size", type=int, default=224, help="pixels a side in training")
    g.add_argument(
        "--size-start", type=int, default=0, help="pixels a side in the first epoch, growing to --size; 0: no growth"
    )
    g.add_argument(
        "--size-ramp",
        type=float,
        nargs=2,
        metavar=("FROM", "TO"),
        help="epochs between which it grows; if not given, all of them, and with --recipe its own, moved along with --epochs",
    )
    g.add_argument("--eval-size", type=int, default=0, help="pixels a side in evaluation; 0: as --size")
    g.add_argument("--eval-resize", type=int, default=0, help="short side before the centre crop; 0: --eval-size / 0.875")
    g.add_argument(
        "--resampler",
        choices=("pillow-13", "pillow-12"),
        help="whose bits resizing gives, Pillow 13's or those of 9.4 to 12.3; if not given, the server's own: pillow-13",
    )
    g.add_argument(
        "--eval-flip", action=argparse.BooleanOptionalAction, default=False, help="evaluate with the mirror image too"
    )
    g.add_argument("--workers", type=int, default=0, help="decoding threads of each rank; 0: this node's CPUs, shared")


def _model(g: argparse._ArgumentGroup) -> None:
    g.add_argument("--arch", default="resnet18", help="a model of torchvision, or of timm; timm/NAME takes timm's of that name")
    g.add_argument("--pretrained", action=argparse.BooleanOptionalAction, default=False, help="begin with published weights")
    g.add_argument("--weights", help="begin with the weights in this file, .pt, .pth or .safetensors; the head may differ")
    g.add_argument(
        "--blurpool", action=argparse.BooleanOptionalAction, default=False, help="blur before convolutions that stride"
    )
    g.add_argument("--epochs", type=int, default=90)
    g.add_argument("--batch-size", default="64", help="images per rank and step, or auto: the largest that fits the GPU")
    g.add_argument("--accumulate", type=int, default=1, help="batches whose gradients are added up before a step")
    g.add_argument("--optimizer", choices=("sgd", "adam", "adamw"), default="sgd")
    g.add_argument("--lr", type=float, default=0.1, help="highest learning rate")
    g.add_argument("--momentum", type=float, default=0.9, help="of sgd")
    g.add_argument("--weight-decay", type=float, default=1e-4)
    g.add_argument("--decay-norm", action=argparse.BooleanOptionalAction, default=True, help="decay norms and biases too")
    g.add_argument("--schedule", choices=("onecycle", "cosine", "linear", "constant"), default="cosine")
    g.add_argument("--warmup-epochs", type=float, default=0.0, help="epochs of linear warm-up; onecycle has its own")
    g.add_argument("--label-smoothing", type=float, default=0.0)
    g.add_argument("--mixup", type=float, default=0.0, help="alpha of mixup; 0: none")
    g.add_argument("--cutmix", type=float, default=0.0, help="alpha of cutmix; 0: none. With both, one of them by chance")
    g.add_argument("--ema", type=float, default=0.0, help="decay of the moving average of weights, as 0.9999; 0: none")
    g.add_argument("--clip-grad", type=float, default=0.0, help="largest norm of the gradient; 0: any")
    g.add_argument("--seed", type=int, default=0)


def _machine(g: argparse._ArgumentGroup) -> None:
    yes_no = argparse.BooleanOptionalAction
    g.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    g.add_argument("--strategy", choices=("ddp", "fsdp", "dp"), default="ddp")
    g.add_argument("--amp", choices=("fp16", "bf16", "off"), default="off")
    g.add_argument("--channels-last", action=yes_no, default=False)
    g.add_argument("--compile", action=yes_no, default=False)
    g.add_argument("--sync-bn", action=yes_no, default=False, help="batch statistics over all ranks")
    g.add_argument("--deterministic", action=yes_no, default=False, help="only deterministic kernels; slower on GPUs")


def _nodes(g: argparse._ArgumentGroup) -> None:
    g.add_argument("-n", "--nodes", type=int, help="how many nodes")
    g.add_argument("-g", "--gpus", type=int, help="ranks on this node; if not given, its GPUs")
    g.add_argument("-nr", "--node-rank", type=int, help="which of the nodes this is, from 0")
    g.add_argument("--master", help="HOST[:PORT] of node 0")
    g.add_argument("--rendezvous-timeout", type=float, default=300.0, help="seconds to wait for the other ranks")


def _run(g: argparse._ArgumentGroup) -> None:
    g.add_argument("--output", required=True, help="folder for logs, checkpoints and the report")
    g.add_argument("--checkpoints", help="folder or URL (as s3://bucket/run) for checkpoints; OUTPUT/checkpoints if not given")
    g.add_argument("--checkpoint-every", type=int, default=0, help="optimiser steps between checkpoints; 0: at epochs' ends")
    g.add_argument("--resume", help="auto: the last checkpoint, if there is one; or a path or URL")
    g.add_argument("--max-steps", type=int, default=0, help="stop after so many optimiser steps, with a checkpoint; 0: don't")
    g.add_argument(
        "--stopped-status",
        type=int,
        default=0,
        metavar="N",
        help="exit status of a run that SIGTERM or --max-steps stopped before its end, for scripts that start it again",
    )
    g.add_argument("--log-every", type=int, default=100, help="batches between lines")
    g.add_argument("--tensorboard", action=argparse.BooleanOptionalAction, default=True)
    g.add_argument("--wandb", action="store_true", help="log to Weights & Biases too; WANDB_MODE=offline needs no network")
