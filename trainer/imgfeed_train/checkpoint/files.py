"""Checkpoints as files: where they are, reading one for all ranks, writing one whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ..errors import AgreedError
from ..settings import Settings
from . import storage

VERSION = 2  # 2: the optimiser's state is under the parameters' names

#: The parts that every checkpoint has.
PARTS: dict[str, Any] = {
    **dict.fromkeys(("model", "optimizer", "settings", "schedule", "scaler", "loader", "progress"), dict),
    "ema": dict | None,
    "batch_size": int,
    "total_steps": int,
    "random": list,
}


def folder(s: Settings) -> str:
    """Return the folder or URL of a run's checkpoints."""
    return str(s.checkpoints or f"{s.output}/checkpoints")


def unsent(s: Settings) -> Path:
    """Return the folder of this machine where checkpoints of a run stay that its store did not take."""
    return Path(s.output) / "unsent"


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
        raise AgreedError(read[1])
    state: dict[str, Any] | None = read[0]
    return state


def _read(path: str) -> dict[str, Any] | None:
    with storage.local_copy(path) as here:
        if here is None:
            return None
        try:
            state = torch.load(here, map_location="cpu", weights_only=True)
        except Exception as e:
            raise AgreedError(f"{path} can't be read as a checkpoint: {e}") from e
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise AgreedError(f"{path} is no checkpoint of this trainer, or of another version than {VERSION}")
    return state


def find(s: Settings, what: str) -> tuple[str, dict[str, Any] | None]:
    """Return the path and state to resume: ``auto`` is the last checkpoint, None if there is none; or a path or URL."""
    path = storage.join(folder(s), "last.pt") if what == "auto" else what
    if what == "auto" and (unsent(s) / "last.pt").exists():  # newer than what the store has
        path = str(unsent(s) / "last.pt")
    try:
        state = load(path)
    except AgreedError as e:
        torn = path.rpartition("/")[2]
        others = [name for name in storage.names(folder(s)) if name.endswith(".pt") and name != torn]
        hint = f"; {folder(s)} has {', '.join(others)} too: --resume PATH goes on from there" if others else ""
        raise AgreedError(f"{e}{hint}") from e
    if state is None and what != "auto":
        raise AgreedError(f"--resume {what}: there is no such checkpoint")
    wrong = [name for name, kind in PARTS.items() if state is not None and not isinstance(state.get(name), kind)]
    if wrong:
        raise AgreedError(f"{path} is damaged or another program's: its {', '.join(wrong)} is missing or no checkpoint's")
    return path, state
