"""What happens to an image: imgfeed's operations for training and evaluation, sizes that grow, erasing, mixup and cutmix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from imgfeed.batch import RandomErasing

from ..settings import Settings

IMAGENET_STATS = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
STEP = 32  # sizes that grow are multiples of this


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


def operations(s: Settings, size: int) -> list[dict[str, Any]]:
    """Return imgfeed's operations of a training: those of --transform, for a side of size pixels, and the policy's."""
    ops = [_filtered(op, s) for op in train_transform(s.transform, size)]
    if s.augment == "none":
        return ops
    if s.augment == "ta_wide":
        return [*ops, {"op": "TrivialAugmentWide", "interpolation": s.interpolation}]
    how = "bicubic" if s.interpolation == "bicubic" else "random"  # timm's default is one of the two by chance
    mean = [min(255, round(255 * part)) for part in IMAGENET_STATS[0]]
    ops.append({"op": "TimmAugment", "config": s.augment, "fill": mean, "interpolation": how})
    if "3a" in s.augment and s.color_jitter:  # so timm looks for it: in rand-m9-t3a, too
        ops.append({"op": "ColorJitter", **dict.fromkeys(("brightness", "contrast", "saturation"), s.color_jitter)})
    return ops


def _filtered(op: dict[str, Any], s: Settings) -> dict[str, Any]:
    resizes = op["op"] in ("Resize", "RandomResizedCrop") and s.interpolation != "bilinear"
    return {**op, "interpolation": s.interpolation} if resizes else op


def eval_transform(s: Settings) -> list[dict[str, Any]]:
    """Return imgfeed's operations for evaluation; with --eval-crops of several they make as many views."""
    size = s.eval_size or s.size
    resize = s.eval_resize or (size if s.transform in ("cifar", "resize-flip") else short_side(size))
    crop = {1: "CenterCrop", 5: "FiveCrop", 10: "TenCrop"}[s.eval_crops]
    return [_filtered({"op": "Resize", "size": resize}, s), {"op": crop, "size": size}]


def short_side(size: int) -> int:
    """Return the short side before a crop of size: 256 for 224."""
    return round(size / 0.875)


def size_at(s: Settings, epoch: int) -> int:
    """Return the side of training images in an epoch: from size_start to size, multiples of 32 between them."""
    first, last = s.size_ramp or (0, s.epochs - 1)
    if not s.size_start or epoch >= last:
        return s.size
    grown = s.size_start + (s.size - s.size_start) * max(0.0, epoch - first) / (last - first)
    return s.size_start if epoch <= first else round(grown / STEP) * STEP


def eraser(s: Settings) -> RandomErasing | None:
    """Return what erases parts of a normalised batch's images; None if nothing is to."""
    if not s.random_erasing:
        return None
    return RandomErasing(s.random_erasing, value="random" if s.erase_with == "noise" else 0.0)


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
