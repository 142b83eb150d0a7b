"""Weights and moments as FSDP deals them to the ranks: each rank's part, read without the others, and the whole of all parts.

    weight of 10 rows, on 4 ranks     0..2   3..5   6..8   9      chunks of the first dimension, in the order of the ranks

Within forward and backward the module has gathered weights in the place of its own. The optimiser's stay what they are, and
change in its step alone; so they are looked up once, before the first forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

Part = dict[str, dict[str, Any]]


class Shards:
    """A rank's part of a model to which fully_shard was applied, and of its optimiser."""

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
