"""One of several values of a field, such as of an image's captions, chosen by the sample's own draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._arguments.arguments import Options
from .._server.client import Batch, FieldInfo
from .outputs import Fetch

_MASK = (1 << 64) - 1


def check_lists(names: Sequence[str], fields: Sequence[FieldInfo]) -> None:
    """Raise ValueError where one of the names is not of a field that may hold lists."""
    for field in fields:
        if field.name in names and field.type != "json":
            raise ValueError(
                f"imgfeed: choose names {field.name}, a field of type {field.type}: pack lists as JSON, see fields="
            )


def chosen(fetch: Fetch, columns: list[int], options: Options, epoch: int) -> Fetch:
    """Return a function that gives fetch's batches with one element of each list in these columns of the fields."""

    def following(after: int) -> Batch | None:
        if (batch := fetch(after)) is None:
            return None
        arrays = batch.arrays
        assert arrays.indices is not None and arrays.repetitions is not None
        keys = zip(arrays.indices.tolist(), arrays.repetitions.tolist(), strict=True)
        rngs = [rng_of(options.order_seed, epoch, index, repetition) for index, repetition in keys]
        for column in columns:
            values = zip(arrays.fields[column].values(), rngs, strict=True)
            arrays.fields[column] = [one_of(value, rng) for value, rng in values]
        if not options.with_index:
            arrays.indices = None
        return batch

    return following


def rng_of(seed: int, epoch: int, index: int, repetition: int) -> np.random.Generator:
    """Return the generator that draws the elements of a sample's fields, one after the other."""
    return np.random.default_rng([seed & _MASK, epoch, index, repetition])


def one_of(value: Any, rng: np.random.Generator) -> Any:
    """Return an element of a list, None of an empty one, and any other value as it is."""
    if not isinstance(value, list):
        return value
    return value[rng.integers(len(value))] if value else None
