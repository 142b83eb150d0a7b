"""Checkpoints: everything that a training goes on from, written atomically to a folder or a URL."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from . import models, storage
from .errors import TrainError
from .launch import Place
from .settings import Settings

VERSION = 2  # 2: the optimiser's state is under the parameters' names


def folder(s: Settings) -> str:
    """Return the folder or URL of a run's checkpoints."""
    return str(s.checkpoints or f"{s.output}/checkpoints")


def try_folder(s: Settings) -> None:
    """Raise TrainError where checkpoints could not be kept: before the first epoch rather than at its end."""
    storage.check(folder(s))


def save(state: dict[str, Any], where: str, *names: str) -> None:
    """Write a state under each name in a folder or at a URL. A reader finds the old one or the new one, whole."""
    storage.write(where, names, lambda f: torch.save(state, f))


def load(path: str) -> dict[str, Any] | None:
    """Return the state at a path or URL, None if nothing is there. No pickled code is run. TrainError if it's unreadable.

    All ranks call it. Rank 0 reads for all of them: a folder of one node alone, where rank 0 saved, is enough.
    """
    if not dist.is_initialized():
        return _read(path)
    read: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            read[0] = _read(path)
        except Exception as e:  # the others wait for it, whatever it is
            read[1] = str(e)
    dist.broadcast_object_list(read)
    if read[1] is not None:
        raise TrainError(read[1])
    state: dict[str, Any] | None = read[0]
    return state


def _read(path: str) -> dict[str, Any] | None:
    with storage.local_copy(path) as here:
        if here is None:
            return None
        try:
            state = torch.load(here, map_location="cpu", weights_only=True)
        except Exception as e:
            raise TrainError(f"{path} can't be read as a checkpoint: {e}") from e
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise TrainError(f"{path} is no checkpoint of this trainer, or of another version than {VERSION}")
    return state


def find(s: Settings, what: str) -> tuple[str, dict[str, Any] | None]:
    """Return the path and state to resume: ``auto`` is the last checkpoint, None if there is none; or a path or URL."""
    path = storage.join(folder(s), "last.pt") if what == "auto" else what
    state = load(path)
    if state is None and what != "auto":
        raise TrainError(f"--resume {what}: there is no such checkpoint")
    return path, state


def capture(model: nn.Module, opt: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the whole state of model and optimiser, under the parameters' names: any strategy and world can take it.

    All ranks call it; with fsdp only rank 0 gets the tensors.
    """
    if models.is_fsdp(model):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict  # noqa: PLC0415

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights, moments = get_state_dict(model, opt, options=options)
        return {"model": weights, "optimizer": moments}
    names, packed = _names(model, opt), opt.state_dict()
    groups = [{**group, "params": [names[i] for i in group["params"]]} for group in packed["param_groups"]]
    moments = {names[i]: values for i, values in packed["state"].items()}
    return {"model": models.bare(model).state_dict(), "optimizer": {"state": moments, "param_groups": groups}}


def restore(model: nn.Module, opt: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Give model and optimiser the state that :func:`capture` returned."""
    if models.is_fsdp(model):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict  # noqa: PLC0415

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        set_state_dict(model, opt, model_state_dict=state["model"], optim_state_dict=state["optimizer"], options=options)
        return
    models.bare(model).load_state_dict(state["model"])
    index = {name: i for i, name in enumerate(_names(model, opt))}
    groups = [{**group, "params": [index[name] for name in group["params"]]} for group in state["optimizer"]["param_groups"]]
    opt.load_state_dict({"state": {index[n]: v for n, v in state["optimizer"]["state"].items()}, "param_groups": groups})


def _names(model: nn.Module, opt: torch.optim.Optimizer) -> list[str]:
    """Return the names of an optimiser's parameters, in the order that its state numbers them."""
    names = {id(p): name for name, p in models.bare(model).named_parameters()}
    return [names[id(p)] for group in opt.param_groups for p in group["params"]]


def random_states(place: Place, device: torch.device) -> list[Any]:
    """Return the state of the random generators of every rank: of Python, numpy, torch, and the GPU."""
    kind, keys, *rest = np.random.get_state()
    mine = {
        "python": random.getstate(),
        "numpy": [str(kind), torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }
    if place.world == 1:
        return [mine]
    gathered: list[Any] = [None] * place.world
    dist.all_gather_object(gathered, mine)
    return gathered


def set_random_states(states: list[Any], place: Place, device: torch.device, seed: int) -> None:
    """Give this rank its generators' states; where the world has another size than theirs, begin from the seed and rank."""
    if len(states) != place.world:
        seed_all(seed + place.rank)
        return
    mine = states[place.rank]
    version, internal, gauss = mine["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, *rest = mine["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(mine["torch"])
    if mine["cuda"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(mine["cuda"], device)


def seed_all(seed: int) -> None:
    """Seed the generators of Python, numpy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
