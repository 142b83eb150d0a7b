"""A loader's arguments: what they may be, and what to do instead where they can't be honoured."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

# Arguments of torch's DataLoader that have no meaning here, and what to do instead.
_REFUSED = {
    "sampler": "the server makes the order from seed and epoch: use shuffle=, seed= and set_epoch()",
    "batch_sampler": "the server makes the batches: use batch_size=, shuffle=, seed= and drop_last=",
    "collate_fn": "batches come collated, in memory that no worker of Python has touched: change them in the loop",
    "worker_init_fn": "there are no worker processes of Python to initialise",
    "multiprocessing_context": "there are no worker processes of Python to start",
    "generator": "order and random crops are keyed by seed= and the epoch",
    "prefetch_factor": "the ring's size says how many batches are loaded ahead: use slots=",
    "pin_memory_device": "use device='cuda:N', which copies from a page-locked ring",
}


def whole(name: str, value: Any) -> int:
    """Return the argument as an int; numpy's and torch's whole numbers are taken."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"imgfeed: {name} is {value!r}, want a whole number") from None


def path(dataset: Any) -> str:
    """Return where the data is, as a str. Raises TypeError for a Dataset of torch, say."""
    try:
        return os.fsdecode(dataset)
    except TypeError:
        raise TypeError(
            f"imgfeed: the data is a {type(dataset).__name__}, want the path of a shard set (imgshard build FOLDER makes one "
            "of a folder of images), or unix:PATH of a server that runs"
        ) from None


def operations(transform: Any) -> str | list[dict[str, Any]]:
    """Return a transform as it goes over the wire."""
    if isinstance(transform, str):
        return transform
    operations = transform if isinstance(transform, Sequence) else [transform]
    foreign = next((op for op in operations if not isinstance(op, Mapping)), None)
    if foreign is not None or operations is not transform:
        kind = type(transform if foreign is None else foreign).__name__
        raise TypeError(
            f"imgfeed: transform holds a {kind}, want the name of a preset or a "
            'list of operations such as [{"op": "Resize", "size": 256}, {"op": "CenterCrop", "size": 224}]'
        )
    return [dict(op) for op in operations]


def refuse(refused: Mapping[str, Any]) -> None:
    """Raise for arguments that DataLoader does not have, unless they are torch's and have torch's defaults."""
    for name, value in refused.items():
        if name not in _REFUSED:
            raise TypeError(f"imgfeed: DataLoader has no argument {name!r}")
        if value is not None and value != "":
            raise ValueError(f"imgfeed: {name}= can't be honoured: {_REFUSED[name]}")


def policy(drop_last: bool, even_batches: bool) -> str:
    """Return what happens at the end of an epoch that does not divide evenly, as the wire calls it."""
    if drop_last and not even_batches:
        raise ValueError("imgfeed: drop_last=True leaves samples out, and even_batches=False leaves none out: choose one")
    return "drop_last" if drop_last else "pad" if even_batches else "uneven"


def check(source: str, batch_size: int, num_workers: int, timeout: float, transport: str) -> None:
    """Raise ValueError for a value that a loader of the source can't have."""
    if source in ("", "unix:"):
        raise ValueError("imgfeed: the path of the data is empty")
    if source.startswith("unix:") and num_workers:
        raise ValueError("imgfeed: num_workers can't be chosen here: the server that runs has its own number of threads")
    if batch_size < 1:
        raise ValueError(f"imgfeed: batch_size is {batch_size}, want at least 1")
    if num_workers < 0:
        raise ValueError(f"imgfeed: num_workers is {num_workers}, want a number of threads, or 0 for all processors")
    if isinstance(timeout, str) or timeout is None:
        raise TypeError(f"imgfeed: timeout is {timeout!r}, want seconds, or 0 to wait for ever")
    if timeout < 0:
        raise ValueError(f"imgfeed: timeout is {timeout}, want seconds, or 0 to wait for ever")
    if transport not in ("auto", "shm", "socket"):
        raise ValueError(f"imgfeed: transport must be 'auto', 'shm' or 'socket', not {transport!r}")
