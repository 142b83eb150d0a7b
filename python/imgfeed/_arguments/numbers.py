"""Numbers as callers give them: by themselves, in lists, and in arrays of numpy and torch, which may be as long as a set."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
_DEPTH_MAX = 64  # of lists and objects within each other; the server takes fewer


def number(value: Any) -> float:
    """Return a number of Python, numpy or torch as a float; raises TypeError for text and the like, which float() takes."""
    if isinstance(value, (bool, np.bool_, str, bytes, bytearray)) or not hasattr(value, "__float__"):
        raise TypeError(f"imgfeed: {value!r:.80} is not a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def shown(value: Any) -> str:
    """Return the first 80 characters of a value's text. It looks at no more of a list than they need."""
    return f"{value[:80] if isinstance(value, (list, tuple)) else value!r:.80}"


def kind_of(value: Any) -> str:
    """Return a value's type with its article, as ``an int``."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'AEIOUaeio' else 'a'} {name}"


def listed(value: Any) -> Any:
    """Return numpy's and torch's numbers as an array of numpy's, in the same memory if possible, and else as a list.

    Other values are returned as they are. A list takes half a gigabyte for the samples of ImageNet-21k.
    """
    if isinstance(value, np.ndarray) or not hasattr(value, "tolist"):
        return value
    if hasattr(value, "__array__"):
        try:
            return np.asarray(value)
        except (TypeError, RuntimeError):  # a tensor on a GPU, of a type that numpy has not, or with gradients
            pass
    return value.tolist()


def indices(name: str, value: Any, want: str) -> npt.NDArray[np.int64]:
    """Return indices as an array of their own: a list's, a range's, or numpy's or torch's of one dimension."""
    wrong = f"imgfeed: {name} is {shown(value)}, want {want}"
    value = listed(value)
    if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, (str, bytes, bytearray)):
        raise TypeError(wrong)
    try:
        array = np.asarray(value)
    except ValueError:  # lists of several lengths
        raise TypeError(wrong) from None
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(wrong)
    if not array.size:
        raise ValueError(f"imgfeed: {name} is empty, want {want}")
    if int(array.max()) > INT64_MAX:
        raise ValueError(wrong)
    array = np.array(array, np.int64)
    array.flags.writeable = False
    return array


def each_number(numbers: Any, wrong: str) -> npt.NDArray[np.float64]:
    """Return the numbers of a sequence. Raises TypeError that names anything else."""
    if isinstance(numbers, np.ndarray):
        numbers = numbers.tolist()
    if not isinstance(numbers, Sequence) or isinstance(numbers, (bytes, bytearray)):
        raise TypeError(wrong)
    try:
        return np.array([number(v) for v in numbers], dtype=np.float64)
    except TypeError:
        raise TypeError(wrong) from None


def as_json(where: str, value: Any, depth: int = 0) -> Any:
    """Return a value for JSON: plain, also from numbers of numpy and torch, all of them finite and of 64 bits."""
    if depth > _DEPTH_MAX:
        raise ValueError(f"imgfeed: {where:.80} holds lists or operations within each other, {_DEPTH_MAX} deep or more")
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        fits = math.isfinite(value) if isinstance(value, float) else INT64_MIN <= value <= INT64_MAX
        if not fits:
            raise ValueError(f"imgfeed: {where} holds {value!r:.80}, want a finite number of 64 bits")
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"imgfeed: {where} holds {value!r:.80}, want the names of parameters as text")
        of = f"{where}'s {value['op']}" if isinstance(value.get("op"), str) else where
        return {key: as_json(f"{of}: {key}", v, depth + 1) for key, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [as_json(where, v, depth + 1) for v in value]
    raise TypeError(
        f"imgfeed: {where} holds {value!r:.80}, which is not a number, text or list, and can't be sent to the server"
    )
