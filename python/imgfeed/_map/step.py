"""A caller's own function, given as ``map=`` or ``map_batch=``: what it wants, and what its results may be."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arguments.arguments import Options
from .._epoch import outputs
from .._server.sets import Array

# The parameters that a function may have.
WANTED = {"map": "image, label, target, rng, index, view, fields, params", "map_batch": "images, labels, rng, indices, view"}
TEXT_BYTES_MAX = 4092  # of a label
TEXT = np.dtype(f"V{4 + TEXT_BYTES_MAX}")
_NUMBERS = "?bBhHiIlLqQefdFD"  # numpy's characters of the types that results may have


def wants(name: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """Return which of WANTED a function takes, or ("",) for the image or images alone; raise TypeError for others."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions in C
        return ("",)
    wanted = tuple(p for p in signature.parameters if p in WANTED[name].split(", "))
    try:
        signature.bind(*([] if wanted else [None]), **dict.fromkeys(wanted))
    except TypeError as e:
        raise TypeError(f"imgfeed: {name}'s function can't be called: {e}; its parameters may be {WANTED[name]}") from None
    return wanted or ("",)


@dataclass(frozen=True)
class Step:
    """A caller's function, for each sample or for each batch."""

    name: str  # map or map_batch
    function: Callable[..., Any]
    wanted: tuple[str, ...]
    options: Options
    whole: bool  # whether it takes batches
    torch: bool  # whether the caller gets tensors
    followed: bool  # whether boxes or masks are the second element of a batch

    def __call__(self, of: dict[str, Any], key: tuple[int, int, int]) -> tuple[Array, Array]:
        """Return the images and labels that the function makes, with an axis of samples.

        ``of`` has all that the function may want but rng. key is epoch, index and repetition, those of a batch's first sample.
        """
        image, label = ("images", "labels") if self.whole else ("image", "label")
        if "rng" in self.wanted:
            of["rng"] = outputs.rng_of(self.options.order_seed, *key, of["view"])
        made = self.function(of[image]) if self.wanted == ("",) else self.function(**{name: of[name] for name in self.wanted})
        labels = of[label]
        if isinstance(made, tuple) and len(made) == 2:
            if self.followed:
                raise TypeError("it returned two values: boxes and masks stay as they are, so return the image alone")
            made, labels = made
        return self._images(made), self._labels(labels)

    def _images(self, images: Any) -> Array:
        """Return images as an array: those of shape (H, W, C) in the caller's layout, others as they are."""
        tensor = hasattr(images, "permute") and hasattr(images, "numpy")  # of torch: (C, H, W)
        array = self._array(images.detach().numpy() if tensor else images)
        if array.ndim != 4 or tensor == (self.options.layout == "NCHW"):
            return array
        return np.moveaxis(array, -3, -1) if tensor else np.moveaxis(array, -1, -3)

    def _labels(self, labels: Any) -> Array:
        """Return labels as an array; texts as rows of bytes, like those of fields."""
        texts = [labels] if not self.whole else list(labels) if np.ndim(labels) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            return self._array(labels)
        data = [text.encode() for text in texts]
        if (longest := max(map(len, data))) > TEXT_BYTES_MAX:
            raise ValueError(f"it returned a label of {longest:,} bytes: a text has at most {TEXT_BYTES_MAX:,}")
        return np.frombuffer(b"".join((len(d).to_bytes(4, "little") + d).ljust(TEXT.itemsize, b"\0") for d in data), TEXT)

    def _array(self, value: Any) -> Array:
        """Return a value as an array with an axis of samples. Raises TypeError for a type that the caller could not get."""
        array = np.asarray(value)
        known = array.dtype.char in _NUMBERS and array.dtype.isnative
        if not known or (self.torch and not hasattr(outputs.torch(), array.dtype.name)):
            came = type(value).__name__ if array.dtype == object else array.dtype
            framework = "torch" if self.torch else "numpy"
            raise TypeError(f"it returned {came}: want numbers of a type that {framework} has; labels may be texts, too")
        return array if self.whole else array[None]


def step_of(options: Options, *, followed: bool) -> Step | None:
    """Return the step of a loader's arguments. Raises TypeError for a function that wants a value which batches lack."""
    if options.step is None:
        return None
    wanted = wants(*options.step)
    needs = {"fields": (options.fields, "fields="), "params": (options.with_params is True, "with_params=True")}
    needs["target"] = (followed, "boxes=, of a set with boxes, or one with masks")
    for name, (given, how) in needs.items():
        if name in wanted and not given:
            raise TypeError(f"imgfeed: {options.step[0]}'s function wants {name}: give the loader {how}")
    return Step(*options.step, wanted, options, options.map is None, outputs.torch_wanted(options.framework), followed)
