"""A loader's arguments: one table of their kinds, checked before anything starts.

Every field of ``Options`` is an argument of DataLoader, with its group in the docstring and its kind.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, TypeVar

from . import kinds
from .kinds import SIDE, SWITCH, SWITCH_OR_NONE, Kind, at_least, choice, duration, having, text, whole
from .numbers import INT64_MAX, INT64_MIN
from .paths import Joined
from .vision import Known, Pipeline, operations

Value = TypeVar("Value")

#: Arguments of torch's DataLoader that are refused unless they have torch's default, each with its remedy.
REFUSED = {
    "batch_sampler": "the server makes the batches: use batch_size= and drop_last=, and sampler= for the order",
    "pin_memory_device": "use device='cuda:N', which copies from a page-locked ring",
}


#: The least to decode, where Python takes whole images.
LEAST = Pipeline([{"op": "CenterCrop", "size": 1}], ())


def _row(group: str, of: Kind) -> dict[str, Any]:
    return {"group": group, "kind": of}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of a loader, checked: all that another one of the same batches is made from."""

    dataset: str | Joined = field(metadata=_row("data", kinds.DATASET))
    classes_apart: bool = field(metadata=_row("data", SWITCH))
    split: str | None = field(metadata=_row("data", text("a split's name, or None")))
    transform: str | Pipeline | dict[int, str | Pipeline] = field(metadata=_row("data", kinds.TRANSFORM))
    size: Any = field(metadata=_row("data", kinds.SIZE))
    buckets: Any = field(metadata=_row("data", kinds.BUCKET_SIZES))
    resampler: str | None = field(metadata=_row("data", text("'pillow-13', 'pillow-12', or None")))
    bit_exact: bool = field(metadata=_row("data", SWITCH))
    on_error: str = field(metadata=_row("data", choice("error", "blank", "substitute")))
    max_bad: int | None = field(metadata=_row("data", at_least(0, optional=True)))

    batch_size: int = field(metadata=_row("batches", at_least(1)))
    drop_last: bool = field(metadata=_row("batches", SWITCH))
    even_batches: bool = field(metadata=_row("batches", SWITCH))
    fields: tuple[str, ...] = field(metadata=_row("batches", kinds.FIELDS))
    choose: tuple[str, ...] = field(metadata=_row("batches", kinds.LISTS))
    boxes: str | None = field(metadata=_row("batches", choice("xyxy", "xywh", "cxcywh", optional=True)))
    boxes_unit: str | None = field(metadata=_row("batches", choice("pixels", "fraction", optional=True)))
    target: str | None = field(metadata=_row("batches", text("a field's name, or None")))
    map: Any = field(metadata=_row("batches", having("a function of a sample, or None", callable)))
    map_batch: Any = field(metadata=_row("batches", having("a function of a batch, or None", callable)))
    decode: str = field(metadata=_row("batches", choice("crop", "full")))
    with_index: bool = field(metadata=_row("batches", SWITCH))
    with_params: bool | str = field(metadata=_row("batches", kinds.PARAMS))

    shuffle: bool = field(metadata=_row("order", SWITCH_OR_NONE))
    seed: int = field(metadata=_row("order", whole(INT64_MIN, INT64_MAX, "a whole number of 64 bits, signed")))

    subset: Any = field(metadata=_row("order", kinds.SUBSET))
    weights: Any = field(metadata=_row("order", kinds.WEIGHTS))
    repeats: int = field(metadata=_row("order", at_least(1)))
    mix: Any = field(metadata=_row("order", kinds.MIX))
    num_samples: int | str | None = field(metadata=_row("order", kinds.LENGTH))
    order: Any = field(metadata=_row("order", kinds.ORDER))
    sampler: Any = field(metadata=_row("order", kinds.SAMPLER))

    rank: int | None = field(
        metadata=_row("ranks", whole(0, INT64_MAX, "a whole number, 0 to world - 1, or None", optional=True))
    )
    world: int | None = field(metadata=_row("ranks", at_least(1, optional=True)))

    framework: str = field(metadata=_row("output", choice("auto", "torch", "numpy")))
    layout: str = field(metadata=_row("output", choice("NHWC", "NCHW")))
    device: Any = field(metadata=_row("output", kinds.DEVICE))
    normalize: Any = field(metadata=_row("output", kinds.NORMALIZE))
    dtype: Any = field(metadata=_row("output", kinds.DTYPE))
    pin_memory: bool = field(metadata=_row("output", SWITCH))
    verbose: bool = field(metadata=_row("output", SWITCH))

    num_workers: int = field(metadata=_row("resources", at_least(0)))
    map_workers: int = field(metadata=_row("resources", at_least(1)))
    cache: str | None = field(metadata=_row("resources", kinds.FOLDER))
    cache_size: str | None = field(metadata=_row("resources", text("a size such as '400GB', or None")))
    allow_source: str | None = field(metadata=_row("resources", text("a URL, or None")))
    feeders: str | None = field(metadata=_row("resources", kinds.ADDRESSES))
    tls: str | None = field(metadata=_row("resources", kinds.FOLDER))
    metrics: str | None = field(metadata=_row("resources", text("an address, a port, or None")))
    slots: int = field(metadata=_row("resources", at_least(0)))
    transport: str = field(metadata=_row("resources", choice("auto", "shm", "socket")))
    timeout: float = field(metadata=_row("resources", duration("to wait for ever")))
    reconnect: float = field(metadata=_row("resources", duration("not to wait")))

    persistent_workers: bool = field(metadata=_row("torch compatibility", SWITCH))
    in_order: bool = field(metadata=_row("torch compatibility", SWITCH))
    collate_fn: Any = field(metadata=_row("torch compatibility", having("a function of a list of samples, or None", callable)))
    generator: Any = field(metadata=_row("torch compatibility", kinds.GENERATOR))
    worker_init_fn: Any = field(metadata=_row("torch compatibility", having("a function, or None", callable)))
    multiprocessing_context: Any = field(metadata=_row("torch compatibility", kinds.CONTEXT))
    prefetch_factor: int | None = field(metadata=_row("torch compatibility", at_least(1, optional=True)))

    def __post_init__(self) -> None:
        """Raise ValueError for arguments that don't fit together."""
        if self.drop_last and not self.even_batches:
            raise ValueError("imgfeed: drop_last=True leaves samples out, and even_batches=False leaves none out: choose one")
        if self.classes_apart and not isinstance(self.dataset, Joined):
            raise ValueError("imgfeed: classes_apart=True is for several sets as dataset")
        if self.socket is not None:
            if self.num_workers:
                raise ValueError("imgfeed: num_workers can't be chosen here: a running server has its own number of threads")
            for name in ("cache", "cache_size", "allow_source", "feeders", "tls", "metrics"):
                if getattr(self, name) is not None:
                    flag = name.replace("_", "-")
                    raise ValueError(f"imgfeed: {name} can't be chosen here: start the server with imgfeed serve --{flag}")
        if self.normalize is not None and self.dtype is not None and not self.dtype.is_floating_point:
            raise ValueError(f"imgfeed: dtype is {self.dtype}, want one of floating point for what normalize= gives")
        numbers = kinds.numbers_of(self.transform)
        if numbers and (given := [name for name in ("normalize", "dtype") if getattr(self, name) is not None]):
            last = type(numbers[-1]).__name__
            raise ValueError(
                f"imgfeed: transform ends in {last}, which makes numbers of the pixels already: leave out {given[0]}="
            )
        if self.max_bad is not None and self.on_error == "error":
            raise ValueError(
                "imgfeed: max_bad goes with on_error='blank' or 'substitute': with 'error' the first bad sample raises"
            )
        self._check_map()
        self._check_order()
        if self.buckets is not None:
            self._check_buckets()
        if self.generator is not None and self.seed:
            raise ValueError("imgfeed: generator and seed both key the order: give one of them")
        if self.framework == "numpy" and self.of_torch:
            raise ValueError(f"imgfeed: these need torch, and framework is 'numpy': {', '.join(self.of_torch)}")

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of: not every torch can pickle a generator."""
        return {**self.__dict__, "seed": self.order_seed, "generator": None}

    def _check_map(self) -> None:
        if self.boxes is None and self.boxes_unit is not None:
            raise ValueError("imgfeed: boxes_unit goes with boxes=, the format of the boxes")
        if self.boxes is not None and self.target is not None:
            raise ValueError("imgfeed: boxes= makes dictionaries of the targets: use fields= for another field, not target=")
        if strange := [name for name in self.choose if name not in self.fields]:
            raise ValueError(f"imgfeed: choose names {', '.join(strange)}: give fields= with it")
        if self.decode == "full":
            shaped = self.transform != LEAST or self.size is not None or self.with_params
            if self.map is None or shaped or self.on_error == "blank":
                raise ValueError(
                    "imgfeed: decode='full' gives whole images to map=, which does all that is done to them: give map, and "
                    "leave out transform, size, with_params and on_error='blank'"
                )
        if self.step is None:
            return
        if self.map is not None and self.map_batch is not None:
            raise ValueError("imgfeed: map and map_batch: give one of them")
        if self.target is not None:
            raise ValueError(f"imgfeed: {self.step[0]}'s function determines the labels: use fields=, not target=")

    def _check_buckets(self) -> None:
        chosen = ("subset", "weights", "order", "sampler", "num_samples", "mixture")
        clash = [name for name in (*chosen, "size", "map", "map_batch") if getattr(self, name) is not None]
        clash += [name for name, is_ in (("repeats", self.repeats > 1), ("with_params", self.with_params == "records")) if is_]
        if clash:
            raise ValueError(f"imgfeed: buckets say which samples make a batch, and their size: leave out {', '.join(clash)}=")

    @property
    def keyed(self) -> bool:
        """Whether Python draws for each sample, and so has to know which it is."""
        return self.step is not None or bool(self.choose)

    @property
    def step(self) -> tuple[str, Any] | None:
        """The caller's own function, and the argument that it is of."""
        return next(((name, getattr(self, name)) for name in ("map", "map_batch") if getattr(self, name) is not None), None)

    def _check_order(self) -> None:
        given = [name for name in ("sampler", "order", "subset", "weights") if getattr(self, name) is not None]
        if self.mixture is None and isinstance(self.num_samples, str):
            raise ValueError(f"imgfeed: num_samples is {self.num_samples!r}, which goes with mix=, or a dictionary as dataset")
        if self.mixture is not None and (given or self.repeats > 1):
            raise ValueError(f"imgfeed: a mixture of sets determines the order: omit {', '.join(given) or 'repeats'}=")
        if self.mixture is not self.mix and self.mix is not None:
            raise ValueError("imgfeed: dataset has weights, and mix has others: give a list as dataset")
        first = given[0] if given else ""
        excluded = {"sampler": {"order", "subset", "weights"}, "order": {"subset", "weights"}}.get(first, set())
        clash = [name for name in given if name in excluded]
        if first in ("sampler", "order") and self.shuffle:
            clash.append("shuffle")
        if first == "sampler":
            clash += [name for name, none in (("repeats", 1), ("num_samples", None)) if getattr(self, name) != none]
        if clash:
            raise ValueError(f"imgfeed: {first}= determines the whole order: omit {', '.join(name + '=' for name in clash)}")

    def size_at(self, epoch: int) -> int | None:
        """Return the pixels of a side in an epoch; None: the transform says."""
        if self.size is None:
            return None
        size = _begun(self.size, epoch) if isinstance(self.size, dict) else self.size
        return int(SIDE.check("size", size(epoch) if callable(size) else size))

    @property
    def transforms(self) -> dict[int, str | Pipeline]:
        """The transforms by the epoch in which each begins."""
        return self.transform if isinstance(self.transform, dict) else {0: self.transform}

    def transform_at(self, epoch: int) -> str | Pipeline:
        return _begun(self.transforms, epoch)

    def changed(self, name: str, value: Any) -> "Options":
        """Return the arguments with another transform or batch_size, checked: no others may change."""
        if name == "transform" and self.decode == "full":
            raise ValueError("imgfeed: with decode='full' map= does everything to images: there is no transform to change")
        checked = ARGUMENTS[name].metadata["kind"].check(name, value)
        if name == "transform" and repr(kinds.numbers_of(checked)) != repr(kinds.numbers_of(self.transform)):
            raise ValueError(
                "imgfeed: the new transform ends in other conversions to numbers than the old one: make another loader"
            )
        return replace(self, **{name: checked})

    @staticmethod
    def operations(transform: str | Pipeline, known: Known) -> Any:
        """Return a transform as the wire has it. Raises ValueError for a step of torchvision's that the server lacks."""
        if isinstance(transform, str):
            return transform
        return operations(transform.operations if transform.views is None else transform.views, known)

    @property
    def socket(self) -> str | None:
        """The socket of a running server; None: the loader starts its own."""
        given = self.dataset
        return given.removeprefix("unix:") if isinstance(given, str) and given.startswith("unix:") else None

    @property
    def mixture(self) -> Any:
        """The weight of each of the joined sets, or a function that gives them for an epoch; None: no mixture."""
        return self.dataset.weights if isinstance(self.dataset, Joined) and self.dataset.weights is not None else self.mix

    @property
    def selects(self) -> bool:
        """Whether epochs hold anything but each sample of the split once."""
        chosen = (self.subset, self.weights, self.order, self.sampler, self.num_samples, self.mixture)
        return self.repeats > 1 or any(value is not None for value in chosen)

    @property
    def finish(self) -> Callable[[Any], Any] | None:
        """The work on batches at the transform's end, if any."""
        first = self.transform_at(0)
        return first.finish if isinstance(first, Pipeline) and first.numbers else None

    @property
    def layout_sent(self) -> str:
        """The layout of the images as the server makes them: functions get (H, W, C)."""
        return self.layout if self.step is None else "NHWC"

    @property
    def policy(self) -> str:
        """What happens at the end of an epoch that does not divide evenly, as the wire calls it."""
        return "drop_last" if self.drop_last else "pad" if self.even_batches else "uneven"

    @property
    def order_seed(self) -> int:
        """What keys the order and the draws: seed, or the one that a generator began with, signed."""
        if self.generator is None:
            return self.seed
        return ((int(self.generator.initial_seed()) + (1 << 63)) % (1 << 64)) - (1 << 63)

    @property
    def of_torch(self) -> list[str]:
        """The names of those arguments given that only torch can honour."""
        given = {"device": self.device, "normalize": self.normalize, "dtype": self.dtype, "pin_memory": self.pin_memory or None}
        given["transform"] = self.finish
        return [name for name, value in given.items() if value is not None]


def _begun(of: Mapping[int, Value], epoch: int) -> Value:
    """Return the value of the last of the epochs that have begun."""
    return of[max(begin for begin in of if begin <= epoch)]


#: The table, by name.
ARGUMENTS: dict[str, Field[Any]] = {f.name: f for f in fields(Options)}


def check(given: Mapping[str, Any], others: Mapping[str, Any]) -> Options:
    """Return the arguments among given, checked. others are those that DataLoader does not have."""
    for name, value in others.items():
        if name not in REFUSED:
            near = difflib.get_close_matches(name, ARGUMENTS, 1)
            hint = f' (did you mean "{near[0]}"?)' if near else ""
            raise TypeError(f"imgfeed: DataLoader has no argument {name!r}{hint}")
        if value is not None and value != "":
            raise ValueError(f"imgfeed: {name}= can't be honoured: {REFUSED[name]}")
    values = {name: f.metadata["kind"].check(name, given[name]) for name, f in ARGUMENTS.items()}
    if values["decode"] == "full" and values["transform"] == "eval":  # the default: the server decodes next to nothing
        values["transform"] = LEAST
    return Options(**values)
