"""Batches from imgfeed: which sets there are, the transforms, image sizes that grow, mixup and cutmix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from imgfeed import DataLoader, ServerError, client

from . import startup
from .errors import TrainError
from .launch import Place
from .settings import Settings

IMAGENET_STATS = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
VAL_SPLITS = ("val", "valid", "validation", "test")
STEP = 32  # sizes that grow are multiples of this


def splits(data: str) -> dict[str, int]:
    """Return the number of samples of every split that data holds. Raises TrainError, naming what was looked for."""
    if not data.startswith("unix:"):
        if Path(data).is_socket():
            raise TrainError(f"--data {data} is a socket, not a folder: for the feed that listens there say --data unix:{data}")
        return {split: one.samples for split, one in startup.sets_in(data, f"imgshard build {data}").items()}
    path = data.removeprefix("unix:")
    try:
        session = client.connect(path)
    except ServerError as e:
        raise TrainError(f"--data {data}: {e} {startup.socket_text(path)}") from e
    try:
        return {info.split: info.samples for info in session.sets}
    finally:
        session.close()


def choose_splits(s: Settings, found: Mapping[str, int]) -> tuple[str, str]:
    """Return the splits to train and to evaluate on."""
    val = s.val_split or next((name for name in VAL_SPLITS if name in found), None)
    for flag, name in (("--train-split", s.train_split), ("--val-split", val)):
        if name not in found:
            want = name or "/".join(VAL_SPLITS)
            feed = "; serve a folder that holds both sets: imgfeed serve DATA" if s.data.startswith("unix:") else ""
            raise TrainError(f"--data {s.data} has no split {want!r} ({flag}); it has {', '.join(sorted(found))}{feed}")
    return s.train_split, str(val)


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
        resampler=s.resampler,
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


def device_text(device: torch.device) -> str:
    """Return what a rank computes on, and why that is no GPU where it is none."""
    if device.type == "cuda":
        here = torch.cuda.get_device_properties(device)
        memory = startup.size_text(here.total_memory)
        return f"{here.name}, {memory}, {torch.cuda.device_count()} on this node; torch {torch.__version__}"
    why = "" if torch.cuda.is_available() else f" ({startup.no_gpu(torch.version.cuda)})"
    return f"CPU, {torch.get_num_threads()} threads{why}; torch {torch.__version__}"
