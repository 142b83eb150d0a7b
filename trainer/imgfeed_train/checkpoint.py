"""Checkpoints: everything that a training goes on from, written atomically to a folder or a URL."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from . import models
from .errors import TrainError
from .launch import Place

VERSION = 1


def save(state: dict[str, Any], folder: str, name: str) -> None:
    """Write a state as folder/name. A reader finds the old one or the new one, whole, whenever the writer ends."""
    if "://" in folder:
        fs, root = _remote(folder)
        fs.makedirs(root, exist_ok=True)
        with fs.open(f"{root}/.{name}.partial", "wb") as f:
            torch.save(state, f)
        fs.mv(f"{root}/.{name}.partial", f"{root}/{name}")
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    partial = Path(folder) / f".{name}.partial"
    with partial.open("wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())
    partial.replace(Path(folder) / name)


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
        except TrainError as e:
            read[1] = str(e)
    dist.broadcast_object_list(read)
    if read[1] is not None:
        raise TrainError(read[1])
    state: dict[str, Any] | None = read[0]
    return state


def _read(path: str) -> dict[str, Any] | None:
    try:
        if "://" in path:
            fs, inner = _remote(path)
            if not fs.exists(inner):
                return None
            with fs.open(inner, "rb") as f:
                state = torch.load(f, map_location="cpu", weights_only=True)
        elif not Path(path).exists():
            return None
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:
        raise TrainError(f"{path} can't be read as a checkpoint: {e}") from e
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise TrainError(f"{path} is no checkpoint of this trainer, or of another version than {VERSION}")
    return state


def _remote(url: str) -> tuple[Any, str]:
    try:
        import fsspec  # noqa: PLC0415 - only URLs need it
    except ImportError as e:
        raise TrainError(f"{url}: URLs need fsspec (and s3fs for s3://): pip install fsspec s3fs") from e
    fs, path = fsspec.core.url_to_fs(url)
    return fs, str(path)


def capture(model: nn.Module, opt: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the whole state of model and optimiser. All ranks call it; with fsdp only rank 0 gets the tensors."""
    if models.is_fsdp(model):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict  # noqa: PLC0415

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights, moments = get_state_dict(model, opt, options=options)
        return {"model": weights, "optimizer": moments}
    return {"model": models.bare(model).state_dict(), "optimizer": opt.state_dict()}


def restore(model: nn.Module, opt: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Give model and optimiser the state that :func:`capture` returned."""
    if models.is_fsdp(model):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict  # noqa: PLC0415

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        set_state_dict(model, opt, model_state_dict=state["model"], optim_state_dict=state["optimizer"], options=options)
        return
    models.bare(model).load_state_dict(state["model"])
    opt.load_state_dict(state["optimizer"])


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
