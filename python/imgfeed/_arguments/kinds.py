"""The kinds of values that arguments take: each has words for errors, and a function that checks and converts a value."""

import importlib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .numbers import INT64_MAX, INT64_MIN, as_json, each_number, indices, listed, number, shown
from .paths import absolute, sources
from .vision import Pipeline, is_torchvisions, pipeline

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

TIMEOUT_MAX = (1 << 31) // 1000  # seconds: poll(2) takes milliseconds as an int

#: Types of torch that hold every whole number from 0 to 255, and with which torch computes.
DTYPES = ("uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Kind:
    """The values of an argument: words for them, and a function of name and value that returns the value, or raises."""

    want: str
    check: Callable[[str, Any], Any]


def kind(want: str, convert: Callable[[Any], Any], *, optional: bool = False, told: str = "") -> Kind:
    """Return the kind of values that convert takes; with optional also None.

    If convert raises TypeError or ValueError, the caller's error names the argument and the expected values, or told.
    """

    def check(name: str, value: Any) -> Any:
        if value is None and optional:
            return None
        wrong = f"imgfeed: {name} is {value!r:.80}, want {told or want}"
        try:
            return convert(value)
        except TypeError:
            raise TypeError(wrong) from None
        except ValueError:
            raise ValueError(wrong) from None

    return Kind(want, check)


def whole(low: int, high: int, want: str = "", *, optional: bool = False) -> Kind:
    """Whole numbers from low to high, also numpy's and torch's, but not True and False. want says it in other words."""

    def convert(value: Any) -> int:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
        if not low <= number <= high:
            raise ValueError
        return number

    return kind(want or f"a whole number, {low:,} to {high:,}{', or None' if optional else ''}", convert, optional=optional)


def at_least(low: int, *, optional: bool = False) -> Kind:
    """Whole numbers from low on. The server knows the largest that it takes, and says so in its hello."""
    return whole(low, INT64_MAX, f"a whole number, {low} or more{', or None' if optional else ''}", optional=optional)


def _truth(value: Any) -> bool:
    """Return the truth of Python's or numpy's True and False, 1 and 0. Other values have one, but shuffle="no" is not yes."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise TypeError


def choice(*names: str, optional: bool = False) -> Kind:
    """One of several words; with optional also None."""

    def convert(value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError
        if value not in names:
            raise ValueError
        return value

    last = "None" if optional else repr(names[-1])
    return kind(f"{', '.join(map(repr, names if optional else names[:-1]))} or {last}", convert, optional=optional)


def optional(want: str, check: Callable[[str, Any], Any], *, function: bool = False) -> Kind:
    """Values that check returns, or None; with function also a function, which gives such a value later."""
    return Kind(want, lambda name, value: value if value is None or (function and callable(value)) else check(name, value))


def having(want: str, accepts: Callable[[Any], bool]) -> Kind:
    """Values that a function accepts, as they are, or None."""

    def convert(value: Any) -> Any:
        if not accepts(value):
            raise TypeError
        return value

    return kind(want, convert, optional=True)


def text(want: str) -> Kind:
    """Any text, or None. The server knows which names exist."""
    return having(want, lambda value: isinstance(value, str))


def _joined(addresses: Any) -> str:
    each = addresses.split(",") if isinstance(addresses, str) else addresses
    return ",".join(f"file:{absolute(one[5:])}" if str.startswith(one, "file:") and one[5:] else one for one in each)


def duration(none: str) -> Kind:
    """Seconds; none says what 0 stands for."""

    def convert(value: Any) -> float:
        seconds = number(value)
        if not 0 <= seconds <= TIMEOUT_MAX:  # also NaN
            raise ValueError
        return seconds

    return kind(f"seconds, 0 to {TIMEOUT_MAX:,}", convert, told=f"seconds, at most {TIMEOUT_MAX:,}, or 0 {none}")


SWITCH = kind("True or False", _truth)
SWITCH_OR_NONE = kind("True or False, or None", lambda value: value is not None and _truth(value))  # None: False


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
        raise TypeError
    if len(set(value)) < len(value):
        raise ValueError
    return tuple(value)


def _transforms(name: str, value: Any) -> str | Pipeline | dict[int, str | Pipeline]:
    """Return a transform, or a dictionary of them in the order of the epochs in which they begin."""
    if not isinstance(value, Mapping) or not value or any(isinstance(key, str) for key in value):
        return _transform(name, value)
    made = by_epoch(name, value, _transform)
    _check_ends(f"{name}'s epochs", {epoch: numbers_of(one) for epoch, one in made.items()})
    return made


def _check_ends(of: str, ends: Mapping[int, tuple[Any, ...]]) -> None:
    """Raise ValueError unless several transforms end in the same conversions."""
    other = next((n for n, numbers in ends.items() if repr(numbers) != repr(ends[0])), None)
    if other is not None:
        raise ValueError(
            f"imgfeed: {of} 0 and {other} end otherwise ({ends[0]} and {ends[other]}), and all come as one type: "
            "let all of them end in the same conversions"
        )


def numbers_of(transform: str | Pipeline | dict[int, str | Pipeline]) -> tuple[Any, ...]:
    """Return the conversions in which a transform ends."""
    if isinstance(transform, dict):
        return numbers_of(transform[0])
    return () if isinstance(transform, str) else transform.numbers


def by_epoch(name: str, value: Mapping[Any, Any], check: Callable[[str, Any], Any]) -> dict[int, Any]:
    """Return a dictionary of checked values in the order of the epochs in which each begins."""
    made = {EPOCH.check(f"{name}'s key", epoch): check(f"{name}[{epoch!r}]", of) for epoch, of in value.items()}
    if 0 not in made:
        raise ValueError(f"imgfeed: {name} is {value!r:.80}, want one for epoch 0 too")
    return dict(sorted(made.items()))


def _transform(name: str, value: Any) -> str | Pipeline:
    """Return a preset's name, or the operations of server and client, which the server checks."""
    if isinstance(value, (str, Pipeline)):
        return value
    if isinstance(value, Mapping) and "views" in value:
        return _views(name, value)
    if is_torchvisions(value):
        made = pipeline(name, value)
        if not made.operations:
            raise ValueError(
                f"imgfeed: {name} is {value!r:.80}, and the images of a batch need one size: begin with a crop, such as "
                "RandomResizedCrop(224), or CenterCrop(32) for images of 32 by 32 pixels"
            )
        return made
    if isinstance(value, Mapping) and "op" in value:
        raise TypeError(f"imgfeed: {name} is {value!r:.80}, one operation, want a list of them: [{value!r:.80}]")
    ops = value if isinstance(value, Sequence) else [value]
    foreign = next((op for op in ops if not isinstance(op, Mapping)), None)
    if foreign is not None or ops is not value:
        kind = type(value if foreign is None else foreign).__name__
        raise TypeError(
            f"imgfeed: {name} holds {kind}, want the name of a preset, a transform of torchvision, or a "
            'list of operations such as [{"op": "Resize", "size": 256}, {"op": "CenterCrop", "size": 224}], or {"views": […]}'
        )
    return Pipeline([as_json(name, op) for op in ops], ())


def _views(name: str, value: Mapping[str, Any]) -> Pipeline:
    """Return several views of an image: each a transform, or {"repeat": n, "ops": transform}."""
    given = value["views"]
    if set(value) != {"views"} or not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        raise TypeError(f'imgfeed: {name} is {value!r:.80}, want {{"views": [transform, …]}}')
    views, ends = [], []
    for n, view in enumerate(given):
        of, repeated = f"{name}'s view {n}", isinstance(view, Mapping) and "ops" in view
        made = _transform(of, view["ops"] if repeated else view)
        if isinstance(made, Pipeline) and made.views:
            raise TypeError(f"imgfeed: {of} is {view!r:.80}: views hold no views")
        ops = made if isinstance(made, str) else made.operations
        views.append({**as_json(of, {k: v for k, v in view.items() if k != "ops"}), "ops": ops} if repeated else ops)
        ends.append(numbers_of(made))
    _check_ends(f"{name}'s views", dict(enumerate(ends)))
    return Pipeline([], ends[0] if ends else (), {"views": views})


def _import_torch(name: str) -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise ValueError(f"imgfeed: {name} needs torch, which is not installed") from None


def _device(name: str, value: Any) -> Any:
    torch, want = _import_torch(name), "'cpu', 'cuda', 'cuda:N', a device's number or a torch.device"
    if isinstance(value, (bool, np.bool_)) or not (isinstance(value, (str, torch.device)) or hasattr(value, "__index__")):
        raise TypeError(f"imgfeed: {name} is {value!r:.80}, want {want}")
    try:
        device = torch.device(value if isinstance(value, (str, torch.device)) else f"cuda:{operator.index(value)}")
    except (RuntimeError, TypeError):  # torch's words would list every backend that it knows
        raise ValueError(f"imgfeed: {name} is {value!r:.80}, want {want}") from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"imgfeed: {name} is {value!r}, want {want}: move batches to any other in the loop")
    return device


def _dtype(name: str, value: Any) -> Any:
    torch = _import_torch(name)
    if not isinstance(value, torch.dtype):
        raise TypeError(f"imgfeed: {name} is {value!r:.80}, want a type of torch such as torch.float16")
    if str(value).removeprefix("torch.") not in DTYPES:
        raise ValueError(f"imgfeed: {name} is {value}, want one that holds pixels from 0 to 255: {', '.join(DTYPES)}")
    return value


def _normalize(name: str, value: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel, for pixels from 0 to 1."""
    if isinstance(value, str) and value == "imagenet":
        return IMAGENET_MEAN, IMAGENET_STD
    wrong = f"imgfeed: {name} is {value!r:.120}, want 'imagenet' or a pair (mean, std) of three numbers each"
    if isinstance(value, str):
        raise ValueError(wrong)
    try:
        parts = [tuple(number(v) for v in part) for part in value]
    except TypeError:
        raise TypeError(wrong) from None
    if [len(part) for part in parts] != [3, 3]:
        raise ValueError(wrong)
    mean, std = parts
    if not all(map(math.isfinite, mean + std)) or min(std) <= 0:
        raise ValueError(f"{wrong}, all finite and the deviations positive")
    return mean, std


class Fraction(NamedTuple):
    """A share of all samples, and what chooses them."""

    share: float
    seed: int


_SUBSET = "indices, class names, a fraction, a pair (fraction, seed), or None"


def _subset(name: str, value: Any) -> Any:
    """Return an array of indices, a tuple of class names, or a Fraction."""
    names = (value,) if isinstance(value, str) else value
    if isinstance(names, (list, tuple)) and names and all(isinstance(of, str) for of in names):
        return tuple(names)
    pair = (value, 0) if isinstance(value, (float, np.floating)) else value
    if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], (float, np.floating)):
        share = float(pair[0])
        seed = whole(INT64_MIN, INT64_MAX, _SUBSET).check(name, pair[1])
        if not 0 < share <= 1:
            raise ValueError(f"imgfeed: {name} is {value!r:.80}, want a fraction above 0 and up to 1")
        return Fraction(share, seed)
    if isinstance(value, tuple) and len(value) == 2:  # (1, 7) is all samples to one, and two of them to another
        raise ValueError(
            f"imgfeed: {name} is {shown(value)}, and a tuple of two is a fraction, with a point, and a seed, as (0.5, 7): "
            "two indices stand in a list, as [1, 7]"
        )
    return indices(name, value, _SUBSET)


_WEIGHTS = "a number for each sample, a dictionary with one for each class, 'balanced', or None"


def _weights(name: str, value: Any) -> Any:
    """Return an array of weights, a dictionary of them, or 'balanced'."""
    if isinstance(value, str) and value == "balanced":
        return value
    wrong = f"imgfeed: {name} is {shown(value)}, want {_WEIGHTS if name == 'weights' else _MIX}"
    if isinstance(value, str):
        raise ValueError(wrong)
    of_class = isinstance(value, Mapping)
    numbers = list(value.values()) if of_class else listed(value)
    if isinstance(numbers, np.ndarray) and numbers.ndim == 1 and numbers.dtype.kind in "fiu":
        array = np.array(numbers, np.float64)
    else:
        array = each_number(numbers, wrong)
    wanted = "want finite numbers, 0 or more and not all of them 0"
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(bad):
        whose = repr(list(value)[bad[0]]) if of_class else f"sample {bad[0]}"
        raise ValueError(f"imgfeed: {name} holds {array[bad[0]]:g} for {whose}, {wanted}")
    if not array.any():
        raise ValueError(f"imgfeed: {name} is {value!r:.80}, {wanted}")
    if of_class:
        if not all(isinstance(of, str) for of in value):
            raise TypeError(f"imgfeed: {name} is {value!r:.80}, want the names of classes as its keys")
        return dict(zip(value, array.tolist(), strict=True))
    array.flags.writeable = False
    return array


SIDE = at_least(1)
_SIZE = "a whole number, a dictionary with one for each epoch from which on it holds, a function of the epoch's number, or None"


def _size(name: str, value: Any) -> Any:
    """Return the pixels of a side, or a dictionary of them in the order of the epochs."""
    return by_epoch(name, value, SIDE.check) if isinstance(value, Mapping) else SIDE.check(name, value)


#: Heights and widths by name: those of the paper on SDXL (Podell and others, 2023), appendix I.
BUCKETS = {
    "sdxl": tuple(
        (64 * h, 64 * w)
        for h, widths in {
            8: (32, 31, 30, 29), 9: (28, 27, 26), 10: (25, 24), 11: (23, 22, 21), 12: (21, 20), 13: (19, 18), 14: (18, 17),
            15: (17, 16), 16: (16, 15), 17: (15, 14), 18: (14, 13), 19: (13,), 20: (12,), 21: (12,), 22: (11,), 23: (11,),
            24: (10,), 25: (10,), 26: (9,), 27: (9,), 28: (9,), 29: (8,), 30: (8,), 31: (8,), 32: (8,),
        }.items()
        for w in widths
    )
}  # fmt: skip
_BUCKETS = "pairs of height and width, 'sdxl', or None"


def _buckets(name: str, value: Any) -> tuple[tuple[int, int], ...]:
    wrong = f"imgfeed: {name} is {value!r:.80}, want {_BUCKETS}"
    if isinstance(value, str):
        if value not in BUCKETS:
            raise ValueError(wrong)
        return BUCKETS[value]
    if not isinstance(value, Sequence) or not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in value):
        raise TypeError(wrong)
    if not value:
        raise ValueError(wrong)
    return tuple((SIDE.check(f"{name}'s height", h), SIDE.check(f"{name}'s width", w)) for h, w in value)


_MIX = "a number for each of the joined sets, a function that gives them for an epoch's number, or None"


def _mix(name: str, value: Any) -> Any:
    """Return an array of weights."""
    if isinstance(value, (str, Mapping)):
        raise TypeError(f"imgfeed: {name} is {value!r:.80}, want {_MIX}")
    return _weights(name, value)


_LENGTH = "a whole number, 1 or more; of a mixture also 'shortest' or 'longest'; or None"


def _length(name: str, value: Any) -> int | str | None:
    if isinstance(value, str) and value in ("shortest", "longest"):
        return value
    length: int | None = whole(1, INT64_MAX, _LENGTH, optional=True).check(name, value)
    return length


_ORDER = "the indices of an epoch, a function that gives them for an epoch's number, or None"
EPOCH = at_least(0)


def _is_sampler(value: Any) -> bool:
    ordered = hasattr(type(value), "__iter__") and hasattr(type(value), "__len__")
    return ordered and not isinstance(value, (set, frozenset, str, bytes, Mapping))


DATASET = Kind("a path (str, bytes or PathLike; `~` is expanded), a URL, or `unix:PATH`; a list or dictionary of them", sources)
TRANSFORM = Kind("a preset's name, a transform of torchvision, a list of operations, views, or one by epoch", _transforms)
SIZE = optional(_SIZE, _size, function=True)
BUCKET_SIZES = optional(_BUCKETS, _buckets)
DEVICE = optional("'cpu', 'cuda', 'cuda:N', N, a torch.device, or None", _device)
NORMALIZE = optional("'imagenet', (mean, std) of three numbers each, or None", _normalize)
DTYPE = optional(f"None, or torch's {', '.join(DTYPES[:-1])} or {DTYPES[-1]}", _dtype)
SUBSET = optional(_SUBSET, _subset)
WEIGHTS = optional(_WEIGHTS, _weights)
MIX = optional(_MIX, _mix, function=True)
LENGTH = Kind(_LENGTH, _length)
ORDER = optional(_ORDER, lambda name, value: indices(name, value, _ORDER), function=True)
_METHOD = choice("fork", "spawn", "forkserver")
CONTEXT = optional(
    "'fork', 'spawn', 'forkserver', their context, or None",
    lambda name, value: value if callable(getattr(value, "get_start_method", None)) else _METHOD.check(name, value),
)
PARAMS = kind("True or False, or 'records'", lambda of: of if isinstance(of, str) and of == "records" else _truth(of))
FOLDER = kind("a folder's path, or None", absolute, optional=True)
ADDRESSES = kind("addresses, as text or a list of texts, or None", _joined, optional=True)
GENERATOR = having("a torch.Generator, or None", lambda value: callable(getattr(value, "initial_seed", None)))
SAMPLER = having("a sampler of torch or another iterable of indices with a length, or None", _is_sampler)
FIELDS = kind("names of fields, or none", _names, told="a list of names, each once")
LISTS = kind("names among fields, or none", _names, told="a list of names, each once")
