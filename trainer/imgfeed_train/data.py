"""Batches from imgfeed: which sets there are, the transforms, image sizes that grow, mixup and cutmix."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from imgfeed import DataLoader, client

from .errors import TrainError
from .launch import Place
from .settings import Settings

IMAGENET_STATS = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
VAL_SPLITS = ("val", "valid", "validation", "test")
STEP = 32  # sizes that grow are multiples of this


def splits(data: str) -> dict[str, int]:
    """Return the number of samples of every split that data holds. Raises TrainError, naming what was looked for."""
    if data.startswith("unix:"):
        session = client.connect(data.removeprefix("unix:"))
        try:
            return {info.split: info.samples for info in session.sets}
        finally:
            session.close()
    root = Path(data)
    if root.is_socket():
        raise TrainError(f"--data {data} is a socket, not a folder: for the feed that listens there say --data unix:{data}")
    if not root.is_dir():
        raise TrainError(f"--data {data}: there is no such folder{_mounts()}")
    found = {}
    for manifest in sorted([*root.glob("manifest.json"), *root.glob("*/manifest.json")]):
        content = json.loads(manifest.read_text())
        found[str(content["split"])] = int(content["samples"])
    if not found:
        raw = [name for name in ("train", "ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar") if (root / name).exists()]
        advice = f"it holds {', '.join(raw)}; pack it once: imgshard build {data}" if raw else "it holds no dataset either"
        raise TrainError(
            f"--data {data}: no shard set there (looked for manifest.json and */manifest.json); {advice}{_mounts()}"
        )
    return found


def choose_splits(s: Settings, found: Mapping[str, int]) -> tuple[str, str]:
    """Return the splits to train and to evaluate on."""
    val = s.val_split or next((name for name in VAL_SPLITS if name in found), None)
    for flag, name in (("--train-split", s.train_split), ("--val-split", val)):
        if name not in found:
            want = name or "/".join(VAL_SPLITS)
            feed = "; serve a folder that holds both sets: imgfeed serve DATA" if s.data.startswith("unix:") else ""
            raise TrainError(f"--data {s.data} has no split {want!r} ({flag}); it has {', '.join(sorted(found))}{feed}")
    return s.train_split, str(val)


def _mounts() -> str:
    seen = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if line.startswith("/dev/")]
    return f"; mounts seen: {', '.join(sorted(set(seen))[:8]) or 'none'}"


def train_transform(name: str, size: int) -> list[dict[str, Any]]:
    """Return imgfeed's operations of a named training transform, for a side of size pixels."""
    flip = {"op": "RandomHorizontalFlip"}
    resize = {"op": "Resize", "size": short_side(size)}
    crop: dict[str, list[dict[str, Any]]] = {
        "train": [{"op": "RandomResizedCrop", "size": size}, flip],
        "train-resize": [resize, {"op": "RandomCrop", "size": size}, flip],
        "center-flip": [resize, {"op": "CenterCrop", "size": size}, flip],
        "resize-flip": [{"op": "Resize", "size": size}, {"op": "CenterCrop", "size": size}, flip],
        "cifar": [
            {"op": "Resize", "size": size},
            {"op": "CenterCrop", "size": size},
            {"op": "RandomCrop", "size": size, "padding": size // 8},
            flip,
        ],
        "eval": [resize, {"op": "CenterCrop", "size": size}],
    }
    return crop[name]


def eval_transform(s: Settings) -> list[dict[str, Any]]:
    """Return imgfeed's operations for evaluation."""
    size = s.eval_size or s.size
    resize = s.eval_resize or (size if s.transform in ("cifar", "resize-flip") else short_side(size))
    return [{"op": "Resize", "size": resize}, {"op": "CenterCrop", "size": size}]


def short_side(size: int) -> int:
    """Return the short side before a crop of size: 256 for 224."""
    return round(size / 0.875)


def size_at(s: Settings, epoch: int) -> int:
    """Return the side of training images in an epoch: from size_start to size, multiples of 32 between them."""
    first, last = s.size_ramp or (0, s.epochs - 1)
    if not s.size_start or epoch >= last:
        return int(s.size)
    grown = s.size_start + (s.size - s.size_start) * max(0.0, epoch - first) / (last - first)
    return int(s.size_start if epoch <= first else round(grown / STEP) * STEP)


class Feed:
    """The training batches. The loader is replaced where an epoch has another image size; its place is carried over."""

    def __init__(self, s: Settings, split: str, place: Place, device: torch.device, *, batch_size: int, stats: Any) -> None:
        """Open the data of a split for this rank; stats are the mean and deviation to normalise by."""
        self._s, self._split, self._place, self._device = s, split, place, device
        self.batch_size, self._stats = batch_size, stats
        self._size = size_at(s, 0)
        self.loader = self._open()

    def _open(self) -> Any:
        return make_loader(
            self._s,
            self._split,
            self._place,
            self._device,
            batch_size=self.batch_size,
            stats=self._stats,
            transform=train_transform(self._s.transform, self._size),
            shuffle=True,
            seed=self._s.seed,
        )

    def left(self) -> int:
        """Return how many samples this rank has before it in the loader's epoch, repeated ones at its end included."""
        samples, consumed = len(self.loader.dataset), int(self.loader.state_dict()["consumed"])
        return max(0, -(-(samples - consumed) // self._place.world))

    def epoch(self, epoch: int) -> Any:
        """Return the loader, set to this epoch and its image size; a place in it that was loaded is kept."""
        if size_at(self._s, epoch) != self._size:
            state = self.loader.state_dict()
            self.loader.close()
            self._size = size_at(self._s, epoch)
            self.loader = self._open()
            self.loader.load_state_dict(state)
        self.loader.set_epoch(epoch)
        return self.loader


def make_loader(
    s: Settings, split: str, place: Place, device: torch.device, *, batch_size: int, stats: Any, **options: Any
) -> Any:
    """Return an imgfeed loader of normalised float32 images (B, 3, H, W) and int64 labels, on device."""
    return DataLoader(
        s.data,
        batch_size,
        split=split,
        rank=place.rank,
        world=place.world,
        num_workers=0 if s.data.startswith("unix:") else s.workers,
        device=device if device.type == "cuda" else None,
        normalize=stats,
        layout="NHWC" if s.channels_last else "NCHW",
        framework="torch",
        **options,
    )


Mix = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def mixer(s: Settings, classes: int) -> Mix | None:
    """Return what mixes a batch on its device, by torchvision; targets become (B, classes). None if nothing is to mix."""
    from torchvision.transforms import v2  # noqa: PLC0415 - only needed for this

    choices: list[Any] = []
    if s.mixup:
        choices.append(v2.MixUp(alpha=s.mixup, num_classes=classes))
    if s.cutmix:
        choices.append(v2.CutMix(alpha=s.cutmix, num_classes=classes))
    if not choices:
        return None
    mix: Mix = choices[0] if len(choices) == 1 else v2.RandomChoice(choices)
    return mix


def describe(s: Settings, found: Mapping[str, int], place: Place, device: torch.device) -> list[str]:
    """Return the lines that a run begins with: data, ranks, master, device."""
    sets = ", ".join(f"{name} ({samples:,})" for name, samples in sorted(found.items()))
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    where = s.data if s.data.startswith("unix:") else os.path.realpath(s.data)
    return [
        f"data: {where}: {sets}",
        f"ranks: {place.world} ({place.how}); master {place.host}:{place.port}" if place.world > 1 else "ranks: 1",
        f"device of rank 0: {gpu}; torch {torch.__version__}",
    ]
