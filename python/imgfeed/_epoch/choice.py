"""One of several values of a field, such as of an image's captions, chosen by the sample's own draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._server.client import Batch, FieldInfo
from .._server.ring import Packed

_MASK = (1 << 64) - 1


def check_lists(names: Sequence[str], fields: Sequence[FieldInfo]) -> None:
    """Raise ValueError where one of the names is not of a field that may hold lists."""
    for field in fields:
        if field.name in names and field.type != "json":
            raise ValueError(
                f"imgfeed: choose names {field.name}, a field of type {field.type}: pack lists as JSON, see fields="
            )


class Chosen:
    """Gives an epoch's batches with one element of each list in the chosen fields."""

    def __init__(
        self, fetch: Callable[[int], Batch | None], places: list[int], seed: int, epoch: int, *, with_index: bool
    ) -> None:
        """Take batches from fetch. places says which fields hold lists."""
        self._fetch, self._places, self._key, self._with_index = fetch, places, (seed, epoch), with_index

    def __call__(self, after: int) -> Batch | None:
        """Return the batch after so many samples of the epoch, None after the last. See ``BatchSource``."""
        batch = self._fetch(after)
        if batch is None:
            return None
        arrays = batch.arrays
        assert arrays.indices is not None and arrays.repetitions is not None
        rngs = [
            rng_of(*self._key, index, repetition)
            for index, repetition in zip(arrays.indices.tolist(), arrays.repetitions.tolist(), strict=True)
        ]
        for place in self._places:
            field = arrays.fields[place]
            assert isinstance(field, Packed)
            arrays.fields[place] = [one_of(value, rng) for value, rng in zip(field.values(), rngs, strict=True)]
        if not self._with_index:
            arrays.indices = None
        return batch


def rng_of(seed: int, epoch: int, index: int, repetition: int) -> np.random.Generator:
    """Return the generator that draws the elements of a sample's fields, one after the other."""
    return np.random.default_rng([seed & _MASK, epoch, index, repetition])


def one_of(value: Any, rng: np.random.Generator) -> Any:
    """Return an element of a list, None of an empty one, and any other value as it is."""
    if not isinstance(value, list):
        return value
    return value[rng.integers(len(value))] if value else None
