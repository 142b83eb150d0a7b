"""Weights from files: safetensors, torch's, or a checkpoint of this trainer."""

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch

from ..data import Images
from ..errors import DAMAGED, TrainError

ON_CPU = partial(torch.load, map_location="cpu")
State = dict[str, torch.Tensor]
#: Names of the head in the models of timm and torchvision. Formats sort their tensors, so that an index says nothing.
HEADS = (
    *("fc", "head", "head.fc", "classifier", "heads.head", "last_linear", "head.linear", "head.l", "head.head.l", "head.proj"),
    *(f"{name}.{i}" for name in ("classifier", "head.classifier") for i in range(6, 0, -1)),
    *("head.fc2", "head.fc.fc2", "head.classifier.linear", "head.0", "classif", "heads.0"),
)


def load(file: str | Path, path: str, reader: Callable[..., Any] = ON_CPU) -> Any:
    """Return the content of a file, on the CPU, without running pickled code. Raises TrainError, which names the path."""
    try:
        return reader(file, weights_only=True)
    except Exception as e:
        if pickle.UnpicklingError in (type(e), type(e.__cause__)):  # torch's own text advises to run such code
            raise TrainError(f"{path} holds pickled code or objects, which are never run, or it is damaged") from e
        raise TrainError(f"{path} is damaged or holds something else: {str(e).partition(chr(10))[0][:200]}") from e


def read(path: str) -> State:
    """Return the tensors of a file by name. Of a checkpoint it takes the moving average where there is one."""
    if not Path(path).is_file():
        raise TrainError(f"--weights {path}: there is no such file")
    content = load(path, f"--weights {path}", timm.models.load_state_dict)
    if not (content and all(isinstance(name, str) and torch.is_tensor(tensor) for name, tensor in content.items())):
        raise TrainError(f"--weights {path} holds no tensors by name")
    return dict(content)


def head_size(state: State, path: str) -> int:
    """Return how many classes weights tell apart. Raises TrainError where no head is found."""
    head = next((state[f"{name}.weight"] for name in HEADS if f"{name}.weight" in state), None)
    if head is None or not head.ndim:
        raise TrainError(f"{path} has no head among its {len(state)} tensors: is it a backbone alone?")
    return len(head)


def own(path: str) -> dict[str, Any]:
    """Return the content of a checkpoint of this trainer; {} for another file."""
    content = {} if path.endswith(".safetensors") or not Path(path).is_file() else load(path, path)
    content = content if isinstance(content, dict) and "progress" in content else {}
    names = content.get("classes", [])
    whole = isinstance(names, list) and all(type(name) is str for name in names) and images_of(content)
    if content and not (whole and isinstance(content.get("settings"), dict)):
        raise TrainError(f"--weights {path} is damaged: its images, classes or settings can't be used")
    return content


def images_of(content: dict[str, Any]) -> Images | None:
    """Return how the model of a checkpoint wants its images; None if the checkpoint holds something else."""
    try:
        found = Images(**content["images"])
        numbers = [*found.mean, *found.std, found.crop]
    except DAMAGED:
        return None
    plain = len(numbers) == 7 and all(type(number) in (int, float) for number in numbers)
    return found if plain and found.interpolation in ("bilinear", "bicubic") else None
