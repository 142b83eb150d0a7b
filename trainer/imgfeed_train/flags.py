"""Every flag of ``imgfeed-train``, its default, its range, and the rules between flags.

A recipe is a YAML file of flags, which stand before those of the command line: the later one wins.
"""

import dataclasses
import difflib
import importlib.util
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
import yaml
from imgfeed.programs import source_path

from . import files
from .errors import TrainError

RECIPES = Path(__file__).parent / "recipes"
#: Flags of one start on one machine. A recipe does not keep them.
OF_ONE_START = {"recipe", "nodes", "gpus", "node_rank", "resume", "dry_run", "evaluate", "output"}


@dataclass(kw_only=True)
class Settings:
    """Train an image classifier on shard sets, on one machine or many. The training is train.py, top to bottom."""

    recipe: str | None = None  # A recipe's name, or a YAML file of flags, such as OUTPUT/run.yaml. Flags beside it win.
    # Data
    data: str = ""  # A folder that holds the sets, its URL (s3://bucket/sets), or unix:SOCKET of a running imgfeed.
    cache: str | None = None  # With a URL: a folder on this machine's disk that keeps the bytes.
    transform: Literal["train", "square-flip", "resize-flip", "cifar", "eval"] = "train"
    """How training images are cropped. square-flip resizes to a square first, 256 x 256 for a crop of 224."""
    augment: str = "none"  # A policy after the crop: ta_wide, or one of timm's strings such as rand-m9-mstd0.5-inc1 or 3a.
    random_erasing: float = 0.0  # Probability of erasing a rectangle of an image.
    size: tuple[int, ...] = (224,)  # Pixels per side. A second number is for evaluation.
    workers: int = 0  # Decoding threads of each rank; 0: this machine's CPUs, shared.
    # Model
    arch: Annotated[str, tyro.conf.arg(aliases=["--model"])] = "resnet18"
    """A model of torchvision or timm. timm/NAME takes timm's where both have the name."""
    weights: str | None = None
    """Weights to begin with: pretrained for the published ones, or a file (.pt, .pth, .safetensors, a checkpoint of a run)."""
    freeze: bool = False  # Train the head alone: a linear probe.
    drop_path: float = 0.0  # Rate of stochastic depth.
    grad_checkpointing: bool = False  # Compute activations again in the backward pass: less memory. For models of timm.
    # Optimisation
    epochs: int = 90  # Passes over the data.
    batch_size: tuple[int | Literal["auto"], ...] = (64,)
    """Images per rank and batch; auto: as many as fit the GPU. A second number is for evaluation."""
    accumulate: int = 1  # Batches per optimizer step.
    optimizer: str = "sgd"  # sgd, or any of timm's: adamw, lamb, lion, rmsprop. All but sgd leave norms and biases undecayed.
    momentum: float = 0.9  # Momentum of sgd, rmsprop and the like; onecycle has its own.
    lr: float = 0.1
    """The highest learning rate. After --warmup-epochs, cosine and linear continue where they would be without a warm-up, as in
    timm: 0.1 continues at 0.085 after 5 of 20 epochs."""
    weight_decay: float = 1e-4  # Weight decay.
    schedule: Literal["onecycle", "cosine", "linear", "step", "constant"] = "cosine"
    """Course of the learning rate over all steps. step multiplies it by --decay-rate after each --decay-epochs."""
    decay_epochs: float = 30.0  # With --schedule step: epochs between two decays.
    decay_rate: float = 0.1  # With --schedule step: the factor of each decay.
    warmup_epochs: float = 0.0  # Epochs of a linear rise of the rate; onecycle has its own.
    loss: Literal["ce", "bce"] = "ce"  # Cross-entropy, or binary cross-entropy of each class.
    bce_threshold: float = 0.0  # With bce: parts of a target above this count as 1, others as 0. 0: as they are.
    label_smoothing: float = 0.0  # The part of a target that all classes share.
    mixup: float = 0.0  # Alpha of mixup; 0: off.
    cutmix: float = 0.0  # Alpha of cutmix; 0: off. With both, a batch takes either by chance.
    ema: float = 0.0  # Decay of an average of the weights, which is evaluated; 0: off. After n steps n / (n + 10) at most.
    clip_grad: float = 0.0  # The largest norm of the gradient; 0: any.
    nan: Literal["stop", "skip", "ignore"] = "stop"
    """After an infinite or undefined loss: stop at ten such steps in a row, skip the step, or ignore it."""
    seed: int = 0  # Seed of weights, order, crops and mixing.
    # Machine
    strategy: Literal["ddp", "fsdp", "dp"] = "ddp"  # How GPUs share the work; dp is one process for all GPUs of a machine.
    amp: Literal["fp16", "bf16", "off"] = "off"  # Precision of the forward pass.
    compile: bool = False  # Compile the model by torch.compile, which needs a C compiler.
    sync_bn: bool = False  # Batch norm over the images of all ranks. On GPUs.
    # Machines, for which MASTER_ADDR names the first. torchrun and other launchers set RANK, and need no flag.
    nodes: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 1  # Number of machines.
    gpus: Annotated[int, tyro.conf.arg(aliases=["-g"])] = 0  # Ranks on this machine; 0: its GPUs.
    node_rank: Annotated[int, tyro.conf.arg(aliases=["-nr"])] = 0  # Which of the machines this is, from 0.
    # Run
    output: str = ""  # Folder for the log, the checkpoints and the report.
    checkpoints: str | None = None  # URL (s3://bucket/run) or folder for copies of the checkpoints.
    checkpoint_every: int = 0  # Steps between checkpoints; 0: at the end of epochs.
    resume: str | None = None  # auto: continue from the last checkpoint if there is one. Or the path or URL of a checkpoint.
    max_steps: int = 0  # Stop after so many steps, with a checkpoint; 0: never.
    stopped_status: int = 0  # Exit status of a run that a signal or --max-steps stopped, for scripts that start it again.
    log_every: int = 100  # Batches between lines of the log.
    wandb: bool = False  # Log to Weights & Biases. WANDB_MODE=offline needs no network.
    dry_run: bool = False  # Train for up to a minute, show plan, memory and time, and write nothing.
    evaluate: bool = False  # Score --weights, and end. A checkpoint brings its run's --arch, --size, --transform and --amp.

    @property
    def file(self) -> str | None:
        """The file with the weights to begin with."""
        return None if self.weights == "pretrained" else self.weights

    @property
    def channels_last(self) -> bool:
        """Whether images and weights have their channels last in memory: fully_shard takes no such weights."""
        return self.strategy != "fsdp"


#: The flags whose number lies between these two, both included.
RANGES: dict[tuple[float, float], str] = {
    (1, 2**31 - 1): "epochs decay_epochs accumulate log_every nodes batch_size size",
    (0, 2**31 - 1): "max_steps checkpoint_every node_rank gpus workers",
    (0, 1e9): "lr weight_decay warmup_epochs mixup cutmix clip_grad",
    (0, 1): "random_erasing decay_rate",
    (0, 0.9999999): "ema drop_path momentum bce_threshold label_smoothing",
    (0, 255): "stopped_status",
    (-(2**63), 2**63 - 1): "seed",
}


def flag(name: str) -> str:
    """Return a field's flag: ``--batch-size`` of ``batch_size``."""
    return "--" + name.replace("_", "-")


def near(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests the closest known name; empty if no name is close."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f' (did you mean "{found[0]}"?)' if found else ""


def parse(arguments: Sequence[str], before: Sequence[str] = ()) -> Settings:
    """Return the settings of flags, behind those before. Raises TrainError if they do not fit; tyro exits with 2 for a slip."""
    given = list(arguments)
    names = [(i, a) for i, a in enumerate(given) if a == "--recipe" or a.startswith("--recipe=")]
    if names:
        at, found = names[-1]
        name = found.partition("=")[2] or "".join(given[at + 1 : at + 2])
        given = [*recipe_flags(name), *given]
    s: Settings = tyro.cli(Settings, args=[*before, *given], prog="imgfeed-train")
    check(s)
    return s


def recipe_flags(name: str) -> list[str]:
    """Return a recipe as flags. Raises TrainError for a file that holds anything else."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else RECIPES / f"{name}.yaml"
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as e:
        known = sorted(p.stem for p in RECIPES.glob("*.yaml"))
        said = f"{near(name, known)} ({' '.join(str(e).split())})"
        raise TrainError(f"--recipe {name} can't be read{said}. Recipes: {', '.join(known)}, or a file.yaml") from e
    if not isinstance(content, dict):
        raise TrainError(f"--recipe {name} holds no flags: want lines such as `batch_size: 256`")
    return as_flags(content, str(path))


def as_flags(content: dict[Any, Any], path: str) -> list[str]:
    """Return settings by name, which came from path, as flags. Raises TrainError for a name that is not a flag."""
    known = [f.name for f in dataclasses.fields(Settings)]
    flags = []
    for key, value in content.items():
        field = str(key).replace("-", "_")
        if field not in known or field == "recipe":
            raise TrainError(f"{path}: {key} is not a flag{near(field, known)}")
        if isinstance(value, bool):
            flags.append(flag(field) if value else "--no-" + flag(field)[2:])
        elif isinstance(value, list | tuple):
            flags += [flag(field), *map(str, value)]
        elif value is not None:
            flags.append(f"{flag(field)}={value}")
    return flags


def write_recipe(path: Path, s: Settings, **found: Any) -> None:
    """Write the recipe that repeats a run; found are values that the run chose."""
    kept = {name: value for name, value in {**dataclasses.asdict(s), **found}.items() if name not in OF_ONE_START}
    lines = ["# imgfeed-train --recipe THIS_FILE --output ANOTHER_FOLDER repeats this run."]
    files.write(path, "\n".join([*lines, *(f"{name}: {json.dumps(value)}" for name, value in kept.items()), ""]))


def check(s: Settings) -> None:
    """Raise TrainError where settings are out of range or do not fit together."""
    for name, (low, high) in ((name, span) for span, names in RANGES.items() for name in names.split()):
        value = getattr(s, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number != "auto" and not (low <= number <= high and math.isfinite(number)):
                raise TrainError(f"{flag(name)} is {number}, want {low:.15g} to {high:.15g}")
    for name, value in dataclasses.asdict(s).items():
        if value == "" and name not in ("data", "output"):
            raise TrainError(f"{flag(name)} is empty, as an unset variable is: leave it out, or give a value")
    try:
        source_path("--data", s.data)
    except ValueError as e:
        raise TrainError(str(e).removeprefix("imgfeed: ")) from None
    served, wandb = s.data.startswith("unix:"), s.wandb and importlib.util.find_spec("wandb") is None
    for message, wrong in {
        "--output is missing: a folder for the log, the checkpoints and the report": not (s.output or s.dry_run or s.evaluate),
        f"--output {s.output} must be a folder on this machine; --checkpoints takes a URL": "://" in s.output,
        f"-nr {s.node_rank} of {s.nodes} machines: want 0 to {s.nodes - 1}": s.node_rank >= s.nodes,
        "--ema keeps a second whole model, which --strategy fsdp avoids: choose one": s.strategy == "fsdp" and s.ema,
        "--compile and --sync-bn are not for --strategy dp: use ddp": s.strategy == "dp" and (s.compile or s.sync_bn),
        "--bce-threshold is for the targets of --loss bce": s.bce_threshold and s.loss != "bce",
        "--workers: the running server has its own threads: `imgfeed serve --threads`": served and s.workers,
        "--cache: the running server has its own: `imgfeed serve --cache`": served and s.cache,
        "--wandb needs the package wandb: pip install wandb, or leave --wandb out": wandb,
        "--evaluate needs --weights": s.evaluate and not s.weights,
        "--size takes one number, or two": not 1 <= len(s.size) <= 2,
        "--batch-size takes one number, or two": not 1 <= len(s.batch_size) <= 2 or s.batch_size[1:] == ("auto",),
        "--dry-run starts from the beginning: omit --resume": s.dry_run and s.resume,
        f"--warmup-epochs {s.warmup_epochs:g} is more than --epochs {s.epochs}": s.warmup_epochs > s.epochs,
    }.items():
        if wrong:
            raise TrainError(message)
