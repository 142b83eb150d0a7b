"""Where the ranks of FSDP wait for one another: brackets around its collectives, between which a rank computes by itself.

fully_shard hangs its work on hooks of the modules it was given: before a module's forward its weights are gathered, before its
backward again, and after that its gradients are reduced and scattered. Hooks of torch that stand before and after those
take the time:

    forward     enter [gather weights] leave   compute
    backward    enter [gather weights] leave   compute   enter [reduce gradients, gather those of the module before] leave

Both marks are made where the rank computes: on a GPU, events on its stream, which waits there for what it still lacks. So a
collective that runs beside the computing and is ready in time counts for nothing. The gathered weights are also copied in
there, on all ranks alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..model import parallel

Mark = Callable[[], None]


def bracket(model: nn.Module, enter: Mark, leave: Mark) -> None:
    """Have enter and leave called around FSDP's work for each part of a model that was sharded.

    Calls may come doubled where two brackets touch: an enter within one, a leave outside of any. They mean nothing.
    """
    for part in model.modules():
        if parallel.is_fsdp(part):
            _bracket(part, enter, leave)


def _bracket(part: nn.Module, enter: Mark, leave: Mark) -> None:
    def before_gather(_: nn.Module, inputs: Any) -> None:
        _at_gradient(inputs, leave)  # the last of a backward: the gradients are out of FSDP's hands
        enter()

    def after_gather(_: nn.Module, inputs: Any) -> None:
        leave()
        _at_gradient(inputs, enter)

    def before_backward(_: nn.Module, inputs: Any, output: Any) -> None:
        _at_gradient(output, enter)

    def after_backward(_: nn.Module, inputs: Any, output: Any) -> None:
        _at_gradient(output, leave)

    part.register_forward_pre_hook(before_gather, prepend=True)
    part.register_forward_pre_hook(after_gather)
    part.register_forward_hook(before_backward, prepend=True)
    part.register_forward_hook(after_backward)


def _at_gradient(tensors: Any, mark: Mark) -> None:
    """Call mark when the gradient of the first of these tensors that has one is there."""
    for tensor in tensors if isinstance(tensors, tuple | list) else (tensors,):
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            tensor.register_hook(lambda _: mark())
            return
