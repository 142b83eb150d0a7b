"""Weights to begin with: published ones, fetched once a node, or a file's; the head is new where the classes differ."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import torch
import torch.distributed as dist
from torch import nn

from ..data.loaders import Stats
from ..errors import DAMAGED, TrainError
from ..launch.place import Place

State = dict[str, torch.Tensor]


@contextlib.contextmanager
def first_of_node(place: Place) -> Iterator[None]:
    """Have each node's first rank run the block before its others, so that a file is fetched once and then found."""
    if place.world > 1 and place.local_rank:
        dist.barrier()
    yield
    if place.world > 1 and not place.local_rank:
        dist.barrier()


def read(path: str, blurpool: bool = True) -> State:
    """Return the tensors of a file by name: safetensors, or torch's, bare or under ``state_dict`` or ``model``.

    A checkpoint of this trainer is such a file: of its model and its moving average it gives the one that scored better.
    Convolutions behind a blur (parts.blur) have the names that they had before. blurpool says whether the model is to have
    blurs: weights that learned with them need it. No pickled code is run. Raises TrainError with what is wrong.
    """
    if not Path(path).is_file():
        raise TrainError(f"--weights {path}: there is no such file")
    try:
        if path.endswith(".safetensors"):
            from safetensors.torch import load_file  # noqa: PLC0415 - comes with timm

            content: Any = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:
        raise TrainError(f"--weights {path} can't be read as weights: {str(e)[:300]}") from e
    if isinstance(content, dict) and "scored" in content:
        try:
            content = of_checkpoint(content)
        except DAMAGED as e:
            raise TrainError(f"--weights {path} is damaged: it has no whole weights of a checkpoint ({e!r:.100})") from e
    for key in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if (
        not isinstance(content, dict)
        or not content
        or not all(isinstance(name, str) and torch.is_tensor(value) for name, value in content.items())
    ):
        raise TrainError(f"--weights {path} holds no tensors by name")
    state = {name.removeprefix("module."): tensor for name, tensor in content.items()}
    blurs = [name for name in state if name.endswith(".blur")]
    if blurs and not blurpool:
        raise TrainError(f"--weights {path} is of a model with blurs before its convolutions: add --blurpool")
    bare = {f"{name[:-4]}conv.{kind}": f"{name[:-4]}{kind}" for name in blurs for kind in ("weight", "bias")}
    return {bare.get(name, name): tensor for name, tensor in state.items() if name not in blurs}


def of_checkpoint(state: Mapping[str, Any]) -> State:
    """Return the weights of a checkpoint of this trainer that scored better: the model's, or those of its moving average."""
    if state.get("scored") == "average" and state["ema"]:
        return {name.removeprefix("module."): tensor for name, tensor in state["ema"].items() if name != "n_averaged"}
    weights: State = state["model"]
    return weights


def outputs(path: str) -> tuple[int, list[str]]:
    """Return how many classes a file's weights tell apart, and their names where it is a checkpoint that has them."""
    last = list(read(path).values())[-1]  # of a head, which ends every model's list of tensors
    names = _own(path).get("classes", ())
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TrainError(f"--weights {path} is damaged: its classes are no names")
    return len(last) if last.ndim else 0, list(names)


def stats(path: str) -> Stats | None:
    """Return the mean and deviation that a checkpoint's images were normalised by; None for a file that does not say."""
    kept = _own(path).get("stats")
    try:
        return None if kept is None else (tuple(map(float, kept[0])), tuple(map(float, kept[1])))
    except DAMAGED as e:
        raise TrainError(f"--weights {path} is damaged: its stats are no mean and deviation") from e


def _own(path: str) -> Mapping[str, Any]:
    """Return the state in a checkpoint of this trainer; {} for another file."""
    if path.endswith(".safetensors"):
        return {}
    content = torch.load(path, map_location="cpu", weights_only=True)
    return content if isinstance(content, dict) and "progress" in content else {}


def published(name: str) -> tuple[State, str]:
    """Return torchvision's published weights of a model, and the file they are in. Fetches it if it isn't there."""
    import torchvision  # noqa: PLC0415 - slow to import

    weights = torchvision.models.get_model_weights(name).DEFAULT
    file = Path(torch.hub.get_dir()) / "checkpoints" / Path(urlparse(weights.url).path).name
    try:
        state: State = weights.get_state_dict(progress=False, check_hash=True)
    except Exception as e:
        raise TrainError(
            f"--pretrained: {file} is not there, or can't be read, and it can't be fetched ({e}). Where there is a network, "
            f"fetch {weights.url} and put it there (TORCH_HOME names another place), or say --weights FILE"
        ) from e
    return state, str(file)


def put(model: nn.Module, state: Mapping[str, torch.Tensor], path: str, classes: int) -> list[str]:
    """Give a model of torchvision these weights; return the names of those that stay new since the classes differ."""
    mine = model.state_dict()
    anew = [name for name, tensor in mine.items() if name in state and _another_head(tensor, state[name], classes)]
    taken = {name: tensor for name, tensor in state.items() if name not in anew and not name.lower().startswith("aux")}
    try:
        missing, unknown = model.load_state_dict(taken, strict=False)
    except RuntimeError as e:
        raise _misfit(path, str(e)) from e
    missing = [name for name in missing if name not in anew]
    if missing or unknown:
        raise _misfit(path, f"missing {missing[:5]}, unknown {unknown[:5]}")
    return anew


def _another_head(mine: torch.Tensor, other: torch.Tensor, classes: int) -> bool:
    """Return whether two tensors differ only in the number of classes, their first dimension."""
    return bool(mine.shape != other.shape and mine.shape[:1] == (classes,) and mine.shape[1:] == other.shape[1:])


def _misfit(path: str, why: str) -> TrainError:
    return TrainError(f"{path} holds the weights of another model: {why[:300]}")


def timm_options(name: str, path: str, blurpool: bool) -> dict[str, Any]:
    """Return what makes timm.create_model take a file's weights, all of them: with the file's number of classes."""
    import timm  # noqa: PLC0415 - optional

    state = read(path, blurpool)
    head = getattr(timm.get_pretrained_cfg(name), "classifier", None)
    heads = [head] if isinstance(head, str) else list(head or ())
    classes = next((len(state[f"{h}.weight"]) for h in heads if f"{h}.weight" in state), 0)
    overlay = {"state_dict": state, "source": "", "custom_load": False, "num_classes": classes}
    return {"pretrained": True, "pretrained_cfg_overlay": overlay, "num_classes": classes}
