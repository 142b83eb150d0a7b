"""Data: the splits, the transforms, and the loaders of imgfeed."""

import contextlib
import json
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imgfeed import DataLoader
from imgfeed.programs import connect, find_binary

from .errors import TrainError
from .flags import Settings
from .ranks import Rank, gather

VAL_SPLITS = ("val", "valid", "validation", "test")
PATIENCE = 120.0  # seconds that a server may take to start


@dataclass(frozen=True)
class Images:
    """How a model wants its images: mean and deviation, the filter of resizes, the crop's part of the short side."""

    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    interpolation: str = "bilinear"
    crop: float = 0.875


@dataclass(frozen=True)
class Splits:
    """The splits to train and to evaluate on (val is None without evaluation), and the samples of each split."""

    train: str
    val: str | None
    samples: dict[str, int]


def sets_in(data: str, pack: str) -> dict[str, Any]:
    """Return the report of `imgshard inspect` on each set in a folder or at a URL, by split. Errors advise the command pack."""
    command = [find_binary("imgshard"), "inspect", "--json", data]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode and not done.stdout:
        said = done.stderr.strip().removeprefix("imgshard: ")
        who = "" if "://" in data else f"; this process is user {os.geteuid()}, group {os.getegid()}"
        raise TrainError(f"--data {data}: {said}{who}")
    found = json.loads(done.stdout)
    if found["sets"]:
        return {one["split"]: one for one in found["sets"]}
    there = ", ".join(f"{one['path']} ({one['layout']})" for one in found["sources"])
    if all(Path(one["output"]).parent == Path(data).resolve() for one in found["sources"]):
        raise TrainError(f"--data {data}: it holds {there}, not packed yet. Pack it, once: {pack}")
    what = f"--data {data}: no shard set there; it looks like {there}"
    raise TrainError(f"{what}. Put each split into a folder of its name, as train/ and val/, then pack it, once: {pack}")


def splits(s: Settings) -> Splits:
    """Return the splits to train and to evaluate on. Raises TrainError for a missing one."""
    if s.data.startswith("unix:"):
        with contextlib.closing(connect(s.data, PATIENCE)) as server:
            samples = {info.split: info.samples for info in server.sets}
    elif Path(s.data).is_socket():
        raise TrainError(f"--data {s.data} is a socket: for the server that listens there, give --data unix:{s.data}")
    else:
        samples = {split: one["samples"] for split, one in sets_in(s.data, f"imgshard build {s.data}").items()}
    has = f"it has {', '.join(sorted(samples))}"
    if "train" not in samples and not s.evaluate:
        raise TrainError(f"--data {s.data} has no split train; {has}")
    val = next((name for name in VAL_SPLITS if name in samples), None)
    if val is None and (s.evaluate or len(samples) > 1):
        what = f"--data {s.data} has no split to evaluate on ({', '.join(VAL_SPLITS)}); {has}"
        raise TrainError(f"{what}. To train without, name the folder of train alone")
    return Splits("train", val, samples)


def classes(s: Settings, rank: Rank, split: str, other: str | None = None) -> list[str]:
    """Return the names of a split's classes, class i has label i. All ranks call it.

    Raises TrainError if the other split has other classes, or another order, or ranks have different data.
    """
    with contextlib.closing(_loader(s, split, rank, 1, framework="numpy")) as probe:
        names, mine = list(probe.dataset.classes), (probe.dataset.fingerprint, len(probe.dataset), platform.node())
    each = gather(mine)
    for i, (fingerprint, samples, host) in enumerate(each):
        if fingerprint != each[0][0]:
            what = f"rank {i} on {host} has {samples:,} samples of {split} with the fingerprint {fingerprint}"
            there = f"rank 0 on {each[0][2]} has {each[0][1]:,} with {each[0][0]}"
            raise TrainError(f"--data {s.data}: {what}; {there}. Give all ranks the same data")
    theirs = names if other is None else classes(s, rank, other)
    if names != theirs:
        alone = sorted({*names} ^ {*theirs})[:3]
        how = f"not in both: {', '.join(alone)}" if alone else "their order differs"
        how += f". Pack both in one go: imgshard build of the folder with {split}/ and {other}/"
        raise TrainError(f"{split} has {len(names)} classes and {other} {len(theirs)}, and they are not the same: {how}")
    return names


def train_transform(s: Settings, images: Images) -> list[dict[str, Any]]:
    """Return imgfeed's operations for training: those of --transform, then the policy."""
    size, short = s.size[0], round(s.size[0] / 0.875)  # 256 for 224
    crop, flip = {"op": "CenterCrop", "size": size}, {"op": "RandomHorizontalFlip"}

    def resize(to: Any) -> dict[str, Any]:
        return {"op": "Resize", "size": to, "interpolation": images.interpolation}

    crops: dict[str, list[dict[str, Any]]] = {
        "train": [{"op": "RandomResizedCrop", "size": size, "interpolation": images.interpolation}, flip],
        "square-flip": [resize([short, short]), crop, flip],
        "resize-flip": [resize(size), crop, flip],
        "cifar": [resize(size), crop, {"op": "RandomCrop", "size": size, "padding": size // 8}, flip],
        "eval": [resize(short), crop],
    }
    ops = crops[s.transform]
    if s.augment == "ta_wide":
        ops.append({"op": "TrivialAugmentWide", "interpolation": images.interpolation})
    elif s.augment != "none":
        how = "bicubic" if images.interpolation == "bicubic" else "random"  # timm's default is one of the two by chance
        fill = [min(255, round(255 * part)) for part in images.mean]
        ops.append({"op": "TimmAugment", "config": s.augment, "fill": fill, "interpolation": how})
        if "3a" in s.augment:  # timm adds its colour jitter behind these
            ops.append({"op": "ColorJitter", **dict.fromkeys(("brightness", "contrast", "saturation"), 0.4)})
    return ops


def eval_transform(s: Settings, images: Images) -> list[dict[str, Any]]:
    """Return imgfeed's operations for evaluation, on the same kind of crop as in training."""
    size = s.size[-1]
    resize: Any = size if s.transform in ("cifar", "resize-flip") else round(size / images.crop)
    if s.transform == "square-flip":
        resize = [resize, resize]
    return [{"op": "Resize", "size": resize, "interpolation": images.interpolation}, {"op": "CenterCrop", "size": size}]


def train_loader(s: Settings, split: str, rank: Rank, batch_size: int, images: Images, **more: Any) -> Any:
    """Return the loader of the training: batches in the order and crops of the seed."""
    return _loader(s, split, rank, batch_size, images, transform=train_transform(s, images), shuffle=True, seed=s.seed, **more)


def eval_loader(s: Settings, split: str, rank: Rank, batch_size: int, images: Images, **more: Any) -> Any:
    """Return the loader of an exact evaluation: each sample once over all ranks."""
    size = int(s.batch_size[1]) if len(s.batch_size) > 1 else batch_size
    return _loader(s, split, rank, size, images, transform=eval_transform(s, images), even_batches=False, **more)


def _loader(s: Settings, split: str, rank: Rank, batch_size: int, images: Images | None = None, **more: Any) -> Any:
    """Return an imgfeed loader; with images, of normalised float32 tensors (B, 3, H, W) and labels on the rank's device."""
    tensors: dict[str, Any] = {}
    if images is not None:
        layout = "NHWC" if s.channels_last else "NCHW"
        tensors = {"framework": "torch", "device": rank.device, "normalize": (images.mean, images.std), "layout": layout}
    workers = 0 if s.data.startswith("unix:") else s.workers
    where: dict[str, Any] = {"split": split, "rank": rank.rank, "world": rank.world, "cache": s.cache, "num_workers": workers}
    return DataLoader(s.data, batch_size, **where, **tensors, **more)


def samples_left(loader: Any, rank: Rank) -> int:
    """Return the number of samples that this rank still trains on in its epoch. Ranks have equal numbers."""
    return -(-max(0, len(loader.dataset) - int(loader.state_dict()["consumed"])) // rank.world)
