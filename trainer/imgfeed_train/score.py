"""``imgfeed-train --evaluate``: the score of weights on a set, also one of other classes than the weights'.

ImageNet-A and -R have 200 of ImageNet's 1000 classes, named by the same synsets: the model chooses among those alone, as is the
custom. ImageNet-V2's folders are the labels as numbers. ReaL's labels come in a file of their own, some for each image.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .checkpoint import files
from .data import loaders, sets
from .errors import DAMAGED, TrainError
from .evaluate import answers, evaluate
from .launch.notes import Notes
from .launch.place import Place
from .model import build, weights
from .settings import Settings

IMAGENET_CLASSES = 1000
VAL_IMAGE = re.compile(r"ILSVRC2012_val_(\d{8})")
SHOWN = 3  # names of classes in an error


def run(s: Settings, place: Place, device: torch.device, notes: Notes) -> int:
    """Print the score on rank 0; return 0."""
    split = sets.choose(s, place).val
    if split is None:
        raise TrainError("--evaluate needs a split: --val-split none leaves none")
    theirs = loaders.classes(s, split, place)
    model, stats, known = _model(s, len(theirs), place)
    model = model.to(device)
    if s.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,unused-ignore]
    outputs = outputs_of(theirs, known)
    size = 64 if s.batch_size == "auto" else s.batch_size
    loader = loaders.evaluation(s, split, place, device, batch_size=size, stats=stats)
    kept = None if outputs is None else torch.tensor(outputs, device=device)
    score = evaluate(model, ((images, labels) for images, labels, *_ in loader), s, device, kept)
    real = real_accuracy(model, loader, s, device, kept) if s.real_labels else None
    if place.rank == 0:
        which = (
            ""
            if outputs is None or len(outputs) == len(known)
            else f", among {len(theirs)} of the model's {len(known)} classes"
        )
        print(f" * {score} on {score.samples:,} samples{which}")
        if real is not None:
            print(f" * ReaL Acc@1 {real[0]:.3f} on the {real[1]:,} of them that have labels there")
    return 0


def _model(s: Settings, classes: int, place: Place) -> tuple[nn.Module, Any, list[str]]:
    """Return the model with its weights, what its images are normalised by, and the names of its outputs ([]: not known)."""
    if s.resume:
        path, state = files.find(s, s.resume)
        if state is None:
            raise TrainError(f"--resume {s.resume}: there is no {path}")
        names = list(state.get("classes", ()))
        model, stats = build.build(s, len(names) or classes, place)
        try:
            model.load_state_dict(weights.of_checkpoint(state))
        except DAMAGED as e:
            raise TrainError(f"{path} does not fit --arch {s.arch}: {str(e)[:300]}") from e
        if place.rank == 0:
            print(f"weights: {path}, the {state.get('scored', 'model')}", flush=True)
        return model, state.get("stats", stats), names
    count, names = weights.outputs(s.weights) if s.weights else (build.published_classes(s), [])
    model, stats = build.build(s, count, place)
    return model, stats, names or (imagenet_synsets() if count == IMAGENET_CLASSES else [])


def imagenet_synsets() -> list[str]:
    """Return the synsets of ImageNet's 1000 classes, in the order of their labels; [] without timm, which knows them."""
    try:
        from timm.data import ImageNetInfo  # noqa: PLC0415 - optional
    except ImportError:
        return []
    return list(ImageNetInfo().label_names())


def outputs_of(theirs: Sequence[str], known: Sequence[str]) -> list[int] | None:
    """Return for each class of a set the model's output that stands for it; None where they are the same, or not known.

    Raises TrainError for classes that the model has no output for.
    """
    if not known or list(theirs) == list(known):
        return None
    index = {name: i for i, name in enumerate(known)}
    if all(name in index for name in theirs):
        return [index[name] for name in theirs]
    if all(name.isdecimal() and int(name) < len(known) for name in theirs):
        return [int(name) for name in theirs]
    alone = [name for name in theirs if name not in index]
    more = f" and {len(alone) - SHOWN} more" if len(alone) > SHOWN else ""
    raise TrainError(
        f"{len(alone)} of the set's {len(theirs)} classes are none of the {len(known)} that the weights know: "
        f"{', '.join(alone[:SHOWN])}{more}; the weights' begin with {', '.join(known[:SHOWN])}"
    )


@torch.no_grad()
def real_accuracy(
    model: nn.Module, loader: Any, s: Settings, device: torch.device, outputs: torch.Tensor | None
) -> tuple[float, int]:
    """Return the percentage of images whose first answer is one of ReaL's labels, and of how many (Beyer 2020).

    An image without such labels does not count. The loader gives indices. Raises TrainError for keys that are not ImageNet's.
    """
    real = read_real_labels(s.real_labels or "")
    right = torch.zeros(2, dtype=torch.int64, device=device)
    model.eval()
    for images, _, indices in loader:
        first = answers(s, model, images, device, outputs).argmax(1)
        if outputs is not None:
            first = outputs[first]
        for answer, index in zip(first.tolist(), indices.tolist(), strict=True):
            image = number(loader.dataset.key(index))
            if image > len(real):
                raise TrainError(
                    f"--real-labels {s.real_labels} has labels of {len(real):,} images, and none of image {image:,}"
                )
            labels = real[image - 1]
            right += torch.tensor([answer in labels, bool(labels)], device=device)
    if dist.is_initialized():
        dist.all_reduce(right)
    return 100 * int(right[0]) / max(1, int(right[1])), int(right[1])


def read_real_labels(path: str) -> list[list[int]]:
    """Return the labels of each image of a file as reassessed-imagenet/real.json is. Raises TrainError for another."""
    try:
        real = json.loads(Path(path).read_text())
    except (OSError, ValueError, RecursionError) as e:
        raise TrainError(f"--real-labels {path} can't be read: {str(e)[:300]}") from e
    for i, labels in enumerate(real if isinstance(real, list) else [real]):
        if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
            raise TrainError(
                f"--real-labels {path}: image {i + 1} has {labels!r:.40}, want a list of labels for each, as in real.json"
            )
    return list(real)


def number(key: str) -> int:
    """Return which of ImageNet's validation images a key is, from 1. Raises TrainError for another."""
    found = VAL_IMAGE.search(key)
    if found is None:
        raise TrainError(f"--real-labels: {key} is no validation image of ImageNet: want names as ILSVRC2012_val_00000001.JPEG")
    return int(found[1])
