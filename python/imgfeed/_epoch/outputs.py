"""How a batch reaches the caller: as numpy arrays, as torch tensors in host memory, or (see cuda) on a CUDA device.

Of a field with lists, such as an image's captions, the sample's own draw chooses one element.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._arguments.arguments import Options
from .._server.client import Batch
from .._server.ring import Arrays, Ring
from .._server.sets import FieldInfo
from .._server.targets import Dictionaries, as_tensors
from ..records import Records

Columns = tuple[Any, ...]
#: Gives the batch after so many samples of the epoch, as it came and as the caller gets it; None at the end.
NextBatch = Callable[[int], tuple[Batch, Columns] | None]
#: Gives it as it came.
Fetch = Callable[[int], Batch | None]

_MASK = (1 << 64) - 1


class Output:
    """Turns batches into the caller's values: images, labels, then fields, indices and params if asked for, as numpy arrays."""

    def __init__(self, options: Options) -> None:
        self._with_index = options.with_index

    def __call__(self, arrays: Arrays) -> Columns:
        """Return a batch as the caller gets it."""
        return arrays.columns(with_index=self._with_index)

    def batches(self, fetch: Fetch, slots: int) -> NextBatch:
        """Return what gives an epoch's batches. fetch gives them as they came; slots is 0 without shared memory."""

        def following(after: int) -> tuple[Batch, Columns] | None:
            batch = fetch(after)
            return None if batch is None else (batch, self(batch.arrays))

        return following

    def attach(self, ring: Ring) -> None:
        """Prepare a new session's ring."""

    def drain(self) -> None:
        """Wait for running copies, and release their memory."""


class TorchOutput(Output):
    """Hands batches to the caller as torch tensors; images are NCHW in shape whatever their order in memory."""

    def __init__(self, options: Options, *, pin: bool) -> None:
        """Take layout, normalize, dtype and finish; pin copies each batch into page-locked memory of torch."""
        super().__init__(options)
        self._torch = torch()
        self._nhwc = options.layout == "NHWC"
        self._pin = pin
        self._normalize, self._dtype, self._finish = options.normalize, options.dtype, options.finish
        self._scale: dict[Any, tuple[Any, Any]] = {}

    def host(self, arrays: Arrays) -> Columns:
        """Return the batch as tensors in host memory, without a copy."""
        images, *rest = (each(self._torch.from_numpy, column) for column in Output.__call__(self, arrays))
        if isinstance(arrays.target, Dictionaries):
            rest[0] = as_tensors(self._torch, rest[0], arrays.target)
        if self._nhwc:
            images = each(lambda view: view.permute(0, 3, 1, 2) if view.ndim == 4 else view, images)
        return (images, *rest)

    def __call__(self, arrays: Arrays) -> Columns:
        images, *rest = self.host(arrays)
        if self._pin:
            images, *rest = (each(self._torch.Tensor.pin_memory, column) for column in (images, *rest))
        return (each(self.finish, images), *rest)

    def finish(self, images: Any) -> Any:
        """Return images normalised and converted as asked, on the device where they are."""
        if self._finish is not None:
            return self._finish(images)
        if self._normalize is not None:
            if images.ndim != 4 or images.shape[1] != 3:
                shape = tuple(images.shape)
                raise ValueError(f"imgfeed: normalize= takes images of shape (H, W, 3), and the batch has the shape {shape}")
            if images.device not in self._scale:
                self._scale[images.device] = self._constants(images.device)
            scale, shift = self._scale[images.device]
            done = images.to(scale.dtype).mul_(scale).add_(shift)
            return done if self._dtype is None else done.to(self._dtype)
        return images if self._dtype is None else images.to(self._dtype)

    def _constants(self, device: Any) -> tuple[Any, Any]:
        """Return scale and shift with (pixel/255 - mean)/std = pixel*scale + shift, in float32 at least."""
        assert self._normalize is not None
        mean, std = (self._torch.tensor(v, dtype=self._torch.float64).view(1, 3, 1, 1) for v in self._normalize)
        dtype = self._torch.float64 if self._dtype == self._torch.float64 else self._torch.float32
        return (1 / (255 * std)).to(device, dtype), (-mean / std).to(device, dtype)


def collated(columns: Columns, collate: Callable[[list[Any]], Any]) -> Any:
    """Return the result of a caller's function on a batch's samples (image, label, …); several views are a list."""
    return collate(list(zip(*map(_rows, columns), strict=True)))


def each(do: Callable[[Any], Any], column: Any) -> Any:
    """Apply a function to a column: to an array, or to each array of several views. Other values stay."""
    if not isinstance(column, list):
        return do(column) if _is_array(column) else column
    return [do(view) for view in column] if column and _is_array(column[0]) else column


def _is_array(column: Any) -> bool:
    return hasattr(column, "ndim")


def _rows(column: Any) -> Any:
    """Return a column's value for each sample: an index as a number, params as an array, views as a list, a text as it is."""
    if isinstance(column, list) and column and (_is_array(column[0]) or isinstance(column[0], Records)):
        return map(list, zip(*column, strict=True))
    return column.tolist() if _is_array(column) and column.ndim == 1 else column


def is_default_collate(function: Any) -> bool:
    """Return whether a function is torch's default_collate, which would make the same batch again."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and function is getattr(data, "default_collate", None)


def torch() -> Any:
    return importlib.import_module("torch")


def torch_wanted(framework: str) -> bool:
    """Return whether batches should be torch tensors: framework is ``torch``, ``numpy`` or ``auto`` (torch if installed)."""
    installed = "torch" in sys.modules or importlib.util.find_spec("torch") is not None
    if framework == "torch" and not installed:
        raise ValueError("imgfeed: framework is 'torch', which is not installed")
    return installed and framework != "numpy"


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
        assert arrays.repetitions is not None
        keys = zip(arrays.indices.tolist(), arrays.repetitions.tolist(), strict=True)
        rngs = [rng_of(options.order_seed, epoch, index, repetition) for index, repetition in keys]
        for column in columns:
            values = zip(arrays.fields[column].values(), rngs, strict=True)
            arrays.fields[column] = [one_of(value, rng) for value, rng in values]
        return batch

    return following


def rng_of(seed: int, *key: int) -> np.random.Generator:
    """Return a sample's generator by epoch, index and repetition, for its fields in their order; for ``map=`` also by view."""
    return np.random.default_rng([seed & _MASK, *key])


def one_of(value: Any, rng: np.random.Generator) -> Any:
    """Return an element of a list, None of an empty one, and any other value as it is."""
    if not isinstance(value, list):
        return value
    return value[rng.integers(len(value))] if value else None
