"""The last whole step: what a checkpoint of it needs that the step after it changes before it is whole.

A run may have to stop within a step, where it waits for a lost feed. Weights, moments and schedule are still those of the
last whole step, as they change together at a step's end; what is not is copied here when a step is whole:

    progress, the loader's place       a few numbers, which move on with each batch
    random generators                  forward draws from them; 8 kB for Python, numpy and torch
    buffers, on rank 0                 forward moves the statistics of batch norm; a checkpoint has rank 0's

With FSDP each rank has a part of weights and moments, which it gives when a checkpoint is made.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ..data.loaders import Feed
from ..launch.place import Place
from ..model import parallel
from ..step import Step
from .state import Progress, assemble, capture, generators


class LastStep:
    """The last whole step of a rank. Once another thread finds ``at`` to be a step, all else is that step's, too."""

    def __init__(self, step: Step, feed: Feed, place: Place, copies: bool) -> None:
        """Remember what these are at; copies says that generators and buffers may be others when that is asked for."""
        self.step, self._feed, self._copies, self._first = step, feed, copies, place.rank == 0
        self._random: dict[str, Any] | None = None
        self._buffers: dict[str, torch.Tensor] = {}
        self._loader: dict[str, Any] = {}
        self._shards: Shards | None = None  # with FSDP, from the first step on
        self.at = Progress(epoch=-1)

    def keep(self, at: Progress) -> None:
        """Note that a step is whole, or that an epoch begins."""
        if self._shards is None and parallel.is_fsdp(self.step.model):
            self._shards = Shards(self.step.model, self.step.optimizer)
        self._loader = self._feed.loader.state_dict()
        if self._copies:
            self._random = generators(self.step.device)
            if self._first:
                self._copy_buffers()
        self.at = replace(at)

    def _copy_buffers(self) -> None:
        now = dict(parallel.bare(self.step.model).named_buffers())
        if self._buffers.keys() != now.keys():
            self._buffers = {name: buffer.clone() for name, buffer in now.items()}
        elif now:
            with torch.no_grad():
                torch._foreach_copy_(list(self._buffers.values()), list(now.values()))

    def rewind(self) -> None:
        """Have the loader go on behind this step."""
        self._feed.loader.load_state_dict(self._loader)

    @property
    def name(self) -> str:
        """What tells this step from all others."""
        return f"{self.at.epoch}/{self.at.batches}"

    def part(self, step: str) -> bytes:
        """Return what a checkpoint of the step of this name needs of this rank, b"" as long as another is the last."""
        if self.name != step:
            return b""
        written = io.BytesIO()
        random = generators(self.step.device) if self._random is None else self._random
        torch.save({"random": random, "shards": None if self._shards is None else self._shards.mine()}, written)
        return written.getvalue()

    def state(self, parts: Sequence[bytes]) -> dict[str, Any]:
        """Return the whole state of the training then, as ``snapshot`` does, on rank 0 alone, of the parts of every rank."""
        read = [torch.load(io.BytesIO(part), weights_only=True) for part in parts]
        if self._shards is None:
            captured = capture(self.step.model, self.step.optimizer)
            captured["model"] = {name: self._buffers.get(name, tensor) for name, tensor in captured["model"].items()}
        else:
            captured = self._shards.whole([part["shards"] for part in read], self._buffers)
        randoms = [part["random"] for part in read]
        return assemble(self.step, self._feed, self.at, captured, randoms=randoms, loader=self._loader)


Part = dict[str, dict[str, Any]]


class Shards:
    """A rank's part of a model to which fully_shard was applied, and of its optimiser, read without the other ranks.

        weight of 10 rows, on 4 ranks     0..2   3..5   6..8   9      chunks of the first dimension, in the order of ranks

    Within forward and backward the module has gathered weights in the place of its own. The optimiser's stay what they are,
    and change in its step alone; so they are looked up once, before the first forward.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Take them while no forward is under way."""
        self._weights = dict(model.named_parameters(remove_duplicate=False))
        self._kept = list(model.state_dict())  # the names that a checkpoint has, buffers among them
        self._optimizer = optimizer

    def mine(self) -> Part:
        """Return this rank's part, as CPU's tensors: of each weight, and of what the optimiser has beside it."""
        weights = {name: _local(weight) for name, weight in self._weights.items()}
        return {"weights": weights, "moments": {name: self._moments(name, sharded=True) for name in self._weights}}

    def whole(self, parts: Sequence[Part], buffers: dict[str, torch.Tensor]) -> dict[str, Any]:
        """Return what ``state.capture`` does, of the parts of all ranks, with these buffers."""
        model = {name: _joined([part["weights"][name] for part in parts]) for name in self._weights}
        of = {id(weight): name for name, weight in reversed(self._weights.items())}
        moments = {}
        for name in of.values():
            joined = {key: _joined([part["moments"][name][key] for part in parts]) for key in parts[0]["moments"][name]}
            if kept := {**self._moments(name, sharded=False), **joined}:
                moments[name] = kept
        groups = [{**group, "params": [of[id(weight)] for weight in group["params"]]} for group in self._optimizer.param_groups]
        return {
            "model": {name: model[name] if name in model else buffers[name] for name in self._kept},
            "optimizer": {"state": moments, "param_groups": groups},
        }

    def _moments(self, name: str, sharded: bool) -> dict[str, Any]:
        state = self._optimizer.state.get(self._weights[name], {})
        return {key: _local(value) if sharded else value for key, value in state.items() if _is_sharded(value) == sharded}


def _is_sharded(value: Any) -> bool:
    return hasattr(value, "to_local")


def _local(tensor: Any) -> torch.Tensor:
    own: torch.Tensor = tensor.detach().to_local()
    return own.cpu()


def _joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat(list(parts))
