"""What follows the images: boxes with labels, and masks, as the second element of a batch."""

import functools
import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import errors
from .._arguments.arguments import Options
from .sets import Array, SetInfo


@dataclass(frozen=True)
class TargetFields:
    """The fields that a batch's dictionaries are made of, by name; a mask alone is the second element itself."""

    objects: str | None
    mask: str | None
    image_id: str | None
    label: bool  # the set has class labels, too
    boxes: str  # the format of boxes
    layout: str  # of the images in memory

    @property
    def names(self) -> list[str]:
        if self.objects is None:
            return [] if self.mask is None else [self.mask]
        return [name for name in (self.objects, self.mask, self.image_id, "height", "width") if name is not None]


def target_fields(served: SetInfo, options: Options) -> TargetFields | None:
    """Return the target fields of a split for boxes= and target=, or None where labels and fields come as they are."""
    boxes, target = options.boxes, options.target
    of = {kind: next((f.name for f in served.fields if f.type == kind), None) for kind in ("objects", "mask")}
    if boxes is None and (of["mask"] is None or of["objects"] is not None or target is not None):
        return None
    image_id = next((f.name for f in served.fields if f.name == "image_id" and f.type == "int64" and not f.size), None)
    objects = None if boxes is None else of["objects"]
    return TargetFields(objects, of["mask"], image_id, served.classes > 0, boxes or "", options.layout_sent)


def objects_of(value: bytes, columns: Iterable[Mapping[str, str]]) -> dict[str, Array]:
    """Return a value of type objects, see docs/format/shard.md: boxes, labels and columns; none of an empty one."""
    n, at = int.from_bytes(value[:4], "little"), 4

    def numbers(count: int, dtype: str) -> Array:
        nonlocal at
        begin, at = at, at + count * np.dtype(dtype).itemsize
        if at > max(len(value), 4):
            raise errors.ProtocolError(f"imgfeed: {n} objects came in {len(value)} bytes")
        return np.frombuffer(value[begin:at], dtype).copy()

    made = {"boxes": numbers(4 * n, "<f4").reshape(n, 4), "labels": numbers(n, "<i8")}
    return made | {of["name"]: numbers(n, {"int64": "<i8", "float32": "<f4"}[of["type"]]) for of in columns}


def mask_of(value: bytes) -> Array:
    """Return a mask of a sample's values: width and height come first, then the labels."""
    width, height = np.frombuffer(value[:8], "<u4").tolist()
    return np.frombuffer(value, np.uint8, offset=8).reshape(height, width).copy()


#: What replaces a batch's labels: a field, or dictionaries made of several.
Target = str | TargetFields | None


def second_of(served: SetInfo, options: Options) -> Target:
    """Return the second element of a split's batches."""
    follow = target_fields(served, options)
    if follow is None:
        return options.target
    if follow.objects is not None and follow.objects in options.fields:
        raise ValueError(f"imgfeed: fields names {follow.objects}, which boxes= gives in the dictionaries: leave it out")
    return follow.mask if follow.objects is None else follow


def names_of(fields: Sequence[str], target: Target) -> list[str]:
    """Return the names of all fields that batches have to have, each once."""
    more = target.names if isinstance(target, TargetFields) else [] if target is None else [target]
    return list(dict.fromkeys([*fields, *more]))


@dataclass(slots=True)
class Dictionaries:
    """Each sample's target as a dictionary."""

    objects: Array  # uint8, (B, stride): a length, and the value of docs/format/shard.md
    columns: Sequence[Mapping[str, str]]  # name and type of each object's numbers
    sizes: tuple[Array, Array]  # height and width of each stored image
    ids: Array
    labels: Array | None
    masks: Array | None
    boxes: str  # their format
    canvas: tuple[int, int]  # height and width of the images

    def values(self) -> list[dict[str, Any]]:
        """Return each sample's dictionary of numpy arrays; masks are views of the batch's."""
        return [self._of(i) for i in range(len(self.objects))]

    def _of(self, i: int) -> dict[str, Any]:
        row = self.objects[i]
        length = int(row[:4].view("<u4")[0])
        if length > row.size - 4:
            raise errors.ProtocolError(f"imgfeed: objects of {length} bytes came where {row.size - 4} have room")
        made: dict[str, Any] = objects_of(row[4 : 4 + length].tobytes(), self.columns)
        made["image_id"] = int(self.ids[i])
        made["orig_size"] = np.array([self.sizes[0][i], self.sizes[1][i]], np.int64)
        if self.labels is not None:
            made["label"] = int(self.labels[i])
        if self.masks is not None:
            made["mask"] = self.masks[i]
        return made

    def arrays(self) -> list[Array]:
        return [a for a in (self.objects, *self.sizes, self.ids, self.labels, self.masks) if a is not None]

    def of(self, arrays: Iterable[Array]) -> "Dictionaries":
        """Return the same of other arrays, such as a sample's own."""
        objects, height, width, ids, *rest = arrays
        labels = None if self.labels is None else rest[0]
        masks = None if self.masks is None else rest[-1]
        return replace(self, objects=objects, sizes=(height, width), ids=ids, labels=labels, masks=masks)

    def copy(self) -> "Dictionaries":
        return self.of([a.copy() for a in self.arrays()])


def as_tensors(torch: Any, made: list[dict[str, Any]], of: Dictionaries) -> list[dict[str, Any]]:
    """Return dictionaries with torch's tensors; boxes are torchvision's BoundingBoxes where it is installed."""
    tv = _tv_tensors()

    def tensor(name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        t = torch.from_numpy(value)
        if tv is None or name not in ("boxes", "mask"):
            return t
        return tv.Mask(t) if name == "mask" else tv.BoundingBoxes(t, format=of.boxes.upper(), canvas_size=of.canvas)

    return [{name: tensor(name, value) for name, value in one.items()} for one in made]


@functools.cache
def _tv_tensors() -> Any:
    """Return torchvision's module; None where it is missing, or too old to have it."""
    try:
        return importlib.import_module("torchvision.tv_tensors")
    except ImportError:
        return None
