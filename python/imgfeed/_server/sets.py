"""The sets that a server has, as its hello describes them, and the samples that a session selects."""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class FieldInfo:
    """A value that each sample of a set has beside its label."""

    name: str
    type: str  # int64, float32, bytes, text, json, objects or mask
    size: int  # of a vector; 0: one number, or a type without a fixed size
    classes: tuple[str, ...] = ()  # the names of the labels of objects or of a mask
    columns: tuple[dict[str, str], ...] = ()  # name and type of each object's numbers

    def __str__(self) -> str:
        """Return the type, as ``float32[40]``."""
        return f"{self.type}[{self.size}]" if self.size else self.type

    @classmethod
    def of(cls, field: Mapping[str, Any]) -> "FieldInfo":
        """Take a field of a hello."""
        lists = (tuple(field.get(name) or ()) for name in ("classes", "columns"))
        return cls(field["name"], field["type"], field.get("size", 0), *lists)


@dataclass(frozen=True)
class SetInfo:
    """One split that the server can serve, as its hello describes it."""

    split: str
    samples: int
    classes: int
    partitions: int
    fingerprint: str
    content: str  # digest of the records; "" if the set has no digest
    encoding: dict[str, Any]
    stored: str  # the encoding, for people
    keeps_files: bool  # records are the files' own bytes
    partitions_here: tuple[int, ...]
    fields: tuple[FieldInfo, ...]
    joined: tuple[int, ...]  # samples of each of the sets that it was joined of; () of any other

    @classmethod
    def of(cls, split: Mapping[str, Any]) -> "SetInfo":
        """Take a split of a hello."""
        return cls(
            **{name: split[name] for name in ("split", "samples", "classes", "partitions", "fingerprint", "encoding")},
            content=split.get("content", ""),
            stored=split.get("stored", ""),
            keeps_files=split.get("keeps_files", False),
            partitions_here=tuple(split["partitions_here"]),
            fields=tuple(map(FieldInfo.of, split.get("fields") or ())),
            joined=tuple(split.get("joined") or ()),
        )

    def differs(self, before: "SetInfo") -> str:
        """Say how the data differ from those of before; "" if they do not, as far as is known."""
        if self.fingerprint != before.fingerprint:
            return f"its fingerprint is {self.fingerprint}, and was {before.fingerprint}"
        if self.encoding != before.encoding:
            return f"its images are stored as {self.stored}, and were as {before.stored}"
        if self.content and before.content and self.content != before.content:
            return f"its samples have other content, {self.content}, and had {before.content}"
        return ""


@dataclass(frozen=True, eq=False)
class Selected:
    """Which samples epochs hold, as docs/format/wire.md's ``select`` has it. Two of the same digest are the same."""

    indices: Array | None = None  # int64
    weights: Array | None = None  # float64
    repeats: int = 1
    positions: int | None = None
    of_rank: bool = False
    mix: tuple[float, ...] | None = None  # a weight for each joined set

    @functools.cached_property
    def digest(self) -> str:
        """Name it: 32 hexadecimal digits."""
        text = f"{self.repeats} {self.positions} {self.of_rank} {self.indices is None} {self.weights is None}"
        hashed = hashlib.sha256(f"{text}{'' if self.mix is None else f' {self.mix}'}\n".encode())
        for part in self.payload():
            hashed.update(part)
        return hashed.hexdigest()[:32]

    def payload(self) -> list[memoryview]:
        """Return the bytes that follow the message: the arrays' own memory, where they are as the wire has them."""
        arrays = (self.indices, "<i8"), (self.weights, "<f8")
        return [np.ascontiguousarray(a, dtype).data.cast("B") for a, dtype in arrays if a is not None]

    def message(self) -> dict[str, Any]:
        """Return the request, without the payload that follows it."""
        given = {
            "list": None if self.indices is None else len(self.indices),
            "weights": None if self.weights is None else len(self.weights),
            "positions": self.positions,
            "of_rank": self.of_rank or None,
            "mix": self.mix,
            "repeats": None if self.repeats == 1 else self.repeats,
        }
        return {"type": "select", **{name: value for name, value in given.items() if value is not None}}
