"""What a training goes on from: weights, moments, schedule, scale, average, generators, and its place in the data."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from .. import optim
from ..data.loaders import Feed
from ..errors import DAMAGED, TrainError
from ..launch.place import Place
from ..model import parallel
from ..step import Step
from .files import VERSION


@dataclass
class Progress:
    """How far a training is, and what it reached. ``batches`` and ``seconds`` are of the epoch under way, ``steps`` of all."""

    epoch: int = 0
    batches: int = 0
    steps: int = 0
    best: float = -1.0  # the best accuracy so far, in percent
    seconds: float = 0.0  # of training this epoch, in all its parts
    scored: str = "model"  # which weights scored better last: "model", or the moving "average"
    run: str = ""  # what its log has too; "" in checkpoints of before

    def check(self) -> None:
        """Raise ValueError for what no training reaches."""
        for name, kind, least in (
            ("epoch", int, 0),
            ("batches", int, 0),
            ("steps", int, 0),
            ("best", int | float, -1),
            ("seconds", int | float, 0),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind) or isinstance(value, bool) or not value >= least:  # NaN is refused too
                raise ValueError(f"its {name} is {value!r:.40}")
        if self.scored not in ("model", "average"):
            raise ValueError(f"its scored is {self.scored!r:.40}")
        if not isinstance(self.run, str):
            raise ValueError(f"its run is {self.run!r:.40}")


def snapshot(step: Step, feed: Feed, at: Progress, place: Place) -> dict[str, Any]:
    """Return the whole state of a training. All ranks call it; with fsdp only rank 0 gets the tensors."""
    captured = capture(step.model, step.optimizer)
    randoms = random_states(place, step.device)
    return assemble(step, feed, at, captured, randoms=randoms, loader=feed.loader.state_dict())


def assemble(
    step: Step, feed: Feed, at: Progress, captured: dict[str, Any], *, randoms: list[Any], loader: dict[str, Any]
) -> dict[str, Any]:
    """Return the state that a checkpoint has, of its parts: :func:`capture`'s, the generators of every rank, the loader's."""
    return {
        **captured,
        "version": VERSION,
        "settings": step.s.saved(),
        "batch_size": feed.batch_size,
        "classes": feed.classes,
        "stats": feed.stats,
        "schedule": step.schedule.state_dict(),
        "total_steps": step.total,
        "scaler": step.scaler.state_dict(),
        "ema": None if step.ema is None else step.ema.state_dict(),
        "scored": at.scored,
        "random": randoms,
        "loader": loader,
        "progress": asdict(at),
    }


def resume(step: Step, feed: Feed, place: Place, state: dict[str, Any], path: str) -> tuple[Progress, list[str]]:
    """Go on from a state, which came from path; return how far it is, and what to say. Raises TrainError if it doesn't fit."""
    fresh = optim.hyperparameters(step.optimizer)
    before = state["settings"].get("optimizer") if isinstance(state["settings"], dict) else None
    if before is not None and before != step.s.optimizer:
        raise TrainError(f"{path} is of --optimizer {before}, and its moments don't fit {step.s.optimizer}: give {before}")
    try:
        restore(step.model, step.optimizer, state)
        if step.ema is not None:
            step.ema.load_state_dict(state["ema"] or {**step.ema.state_dict(), **_averaged(state["model"])})
    except DAMAGED as e:
        raise TrainError(f"{path} does not fit this model ({step.s.arch}) and optimiser: {str(e)[:300]}") from e
    feed.loader.load_state_dict(state["loader"])
    try:
        at = Progress(**state["progress"])
        at.check()
        if state["scaler"] and step.scaler.is_enabled():
            step.scaler.load_state_dict(state["scaler"])
        said = [f"resumed {path}: epoch {at.epoch}, batch {at.batches}"]
        said += _resume_schedule(step, feed, at, state, fresh)
        set_random_states(state["random"], place, step.device, step.s.seed + at.steps)
    except DAMAGED as e:
        what = f"{type(e).__name__}: {str(e)[:300]}"
        raise TrainError(f"{path} can't be resumed, it is damaged or another program's ({what}): --resume one before it") from e
    return at, said


def _resume_schedule(step: Step, feed: Feed, at: Progress, state: dict[str, Any], fresh: list[dict[str, Any]]) -> list[str]:
    """Set the schedule to its place; where steps or settings are others, a new one to the same part of the training.

    fresh is what the optimiser's groups held before the checkpoint's came.
    """
    s, per_epoch = step.s, feed.steps_per_epoch
    left = -(-feed.left() // feed.batch_size)  # batches of this epoch
    steps = (at.epoch + 1) * per_epoch - -(-left // s.accumulate)
    then = state["settings"]
    changed = [name for name in optim.SCHEDULED if name in then and then[name] != getattr(s, name)]
    if state["total_steps"] == step.total and steps == at.steps and not changed:
        step.schedule.load_state_dict(state["schedule"])
        return []
    for group, values in zip(step.optimizer.param_groups, fresh, strict=True):
        group.update(values)
    optim.advance(step.optimizer, step.schedule, s, per_epoch, steps)
    why = f"{', '.join(changed)} changed; " if changed else ""
    before, at.steps = at.steps, steps
    return [f"{why}the schedule goes on at step {steps} of {step.total}, where it was at {before} of {state['total_steps']}"]


def _averaged(weights: dict[str, Any]) -> dict[str, Any]:
    """Return weights under the names of an average, for a run that begins one at a checkpoint without."""
    return {f"module.{name}": tensor for name, tensor in weights.items()}


def capture(model: nn.Module, opt: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the whole state of model and optimiser, under the parameters' names: any strategy and world can take it.

    All ranks call it; with fsdp only rank 0 gets the tensors.
    """
    if parallel.is_fsdp(model):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict  # noqa: PLC0415

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights, moments = get_state_dict(model, opt, options=options)
        return {"model": weights, "optimizer": moments}
    names, packed = _names(model, opt), opt.state_dict()
    groups = [{**group, "params": [names[i] for i in group["params"]]} for group in packed["param_groups"]]
    moments = {names[i]: values for i, values in packed["state"].items()}
    return {"model": parallel.bare(model).state_dict(), "optimizer": {"state": moments, "param_groups": groups}}


def restore(model: nn.Module, opt: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Give model and optimiser the state that :func:`capture` returned."""
    if parallel.is_fsdp(model):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict  # noqa: PLC0415

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        set_state_dict(model, opt, model_state_dict=state["model"], optim_state_dict=state["optimizer"], options=options)
        return
    parallel.bare(model).load_state_dict(state["model"])
    index = {name: i for i, name in enumerate(_names(model, opt))}
    groups = [{**group, "params": [index[name] for name in group["params"]]} for group in state["optimizer"]["param_groups"]]
    opt.load_state_dict({"state": {index[n]: v for n, v in state["optimizer"]["state"].items()}, "param_groups": groups})


def _names(model: nn.Module, opt: torch.optim.Optimizer) -> list[str]:
    """Return the names of an optimiser's parameters, in the order that its state numbers them."""
    names = {id(p): name for name, p in parallel.bare(model).named_parameters()}
    return [names[id(p)] for group in opt.param_groups for p in group["params"]]


def generators(device: torch.device) -> dict[str, Any]:
    """Return the state of this rank's random generators: of Python, numpy, torch, and the GPU."""
    kind, keys, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": [str(kind), torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def random_states(place: Place, device: torch.device) -> list[Any]:
    """Return the state of the random generators of every rank."""
    mine = generators(device)
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
