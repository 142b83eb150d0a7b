"""Which sets there are, and of which classes: asked of imgshard for a folder, and of the feed for a socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TrainError
from ..launch.place import Place
from ..launch.surroundings import mounts_text, socket_text, who
from ..settings import Settings

VAL_SPLITS = ("val", "valid", "validation", "test")
SHOWN = 3  # names of classes in an error
PATIENCE = 120.0  # seconds in which a feed must be there: DataLoader's own


class NotPackedError(TrainError):
    """There is a dataset, but no shard set of it yet."""


@dataclass(frozen=True)
class FoundSet:
    """A shard set: its folder, and its number of samples."""

    folder: Path
    samples: int


@dataclass(frozen=True)
class Splits:
    """What a run trains and evaluates on: the splits' names (val is None without evaluation), and all there are."""

    train: str
    val: str | None
    samples: Mapping[str, int]

    def line(self, data: str) -> str:
        """Return the line that says which splits, of how many samples, were found where."""
        sets = ", ".join(f"{name} ({samples:,})" for name, samples in sorted(self.samples.items()))
        return f"data: {data if data.startswith('unix:') or '://' in data else os.path.realpath(data)}: {sets}"


def sets_in(data: str, pack: str) -> dict[str, FoundSet]:
    """Return the sets in a folder by split, as `imgshard inspect` finds them. Raises TrainError with its words.

    For a dataset in the folder that is not packed it is a NotPackedError, which names pack, the command that does it.
    """
    from imgfeed.launcher import find_binary  # noqa: PLC0415 - only folders need it

    command = [find_binary("imgshard"), "inspect", "--json", data]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode and not done.stdout:  # it says what a dataset is, too, that it would refuse to pack
        said = done.stderr.strip().removeprefix("imgshard: ")
        if "://" in data:
            raise TrainError(f"--data {data}: {said}")
        try:
            os.stat(data)
        except FileNotFoundError:
            raise TrainError(f"--data {data}: no such file or directory; {who()}\n{mounts_text()}") from None
        except OSError:
            pass  # imgshard has met it, too, and says so
        raise TrainError(f"--data {data}: no shard set there: {said}; {who()}\n{mounts_text()}")
    found = json.loads(done.stdout)
    if found["sets"]:
        return {one["split"]: FoundSet(Path(one["path"]), one["samples"]) for one in found["sets"]}
    raise _not_packed(data, found["sources"], pack)


def _not_packed(data: str, sources: Sequence[Mapping[str, Any]], pack: str) -> TrainError:
    there = ", ".join(f"{one['path']} ({one['layout']})" for one in sources)
    root = Path(data).resolve()
    if all(Path(one["output"]).parent == root for one in sources):
        return NotPackedError(f"--data {data}: it holds {there}, not packed yet. Pack it, once: {pack}\n{mounts_text()}")
    return TrainError(
        f"--data {data}: no shard set there; it looks like {there}. Put each split into a folder of its name, as train/ and "
        f"val/, then pack it, once: {pack}\n{mounts_text()}"
    )


def splits(data: str, told: bool = False) -> dict[str, int]:
    """Return the number of samples of every split that data holds. Raises TrainError, naming what was looked for.

    A feed that is not there is waited for; standard error says so, unless another rank has told it.
    """
    if not data.startswith("unix:"):
        if Path(data).is_socket():
            raise TrainError(f"--data {data} is a socket, not a folder: for the feed that listens there say --data unix:{data}")
        return {split: one.samples for split, one in sets_in(data, f"imgshard build {data}").items()}
    from imgfeed import LostError, ServerError, client, service  # noqa: PLC0415 - as above

    path = data.removeprefix("unix:")
    try:
        try:
            session = client.connect(path, service.HELLO_TIMEOUT)
        except LostError as e:
            if not told:
                said = f"imgfeed-train: --data {data}: {e} {socket_text(path)}"
                print(f"{said}\nimgfeed-train: it is waited for, up to {PATIENCE:g} s", file=sys.stderr, flush=True)
            session = service.patiently(lambda: client.connect(path, service.HELLO_TIMEOUT), PATIENCE, told=True)
    except ServerError as e:
        raise TrainError(f"--data {data}: {e} {socket_text(path)}") from e
    try:
        return {info.split: info.samples for info in session.sets}
    finally:
        session.close()


def choose(s: Settings, place: Place) -> Splits:
    """Return the splits to train and to evaluate on. Raises TrainError for one that is not there."""
    found = splits(s.data, told=place.local_rank > 0)
    val = s.val_split or next((name for name in VAL_SPLITS if name in found), None)
    feed = "; serve a folder that holds both sets: imgfeed serve DATA" if s.data.startswith("unix:") else ""
    has = f"it has {', '.join(sorted(found))}{feed}"
    if s.train_split not in found and not s.evaluate:
        raise TrainError(f"--data {s.data} has no split {s.train_split!r} (--train-split); {has}")
    if val == "none":
        return Splits(s.train_split, None, found)
    if val not in found:
        want = val or "/".join(VAL_SPLITS)
        none = "" if s.evaluate else "; to train without: --val-split none"
        raise TrainError(f"--data {s.data} has no split {want!r} (--val-split); {has}{none}")
    return Splits(s.train_split, val, found)


def same_classes(train: str, ours: Sequence[str], val: str, theirs: Sequence[str]) -> None:
    """Raise TrainError unless two splits have the same classes in the same order: label i must mean one thing."""
    if list(ours) == list(theirs):
        return
    parts = [f"{train} has {len(ours)} classes and {val} {len(theirs)}" if len(ours) != len(theirs) else ""]
    parts += [_only(train, ours, theirs), _only(val, theirs, ours)]
    if sorted(ours) == sorted(theirs):
        label = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
        parts.append(f"they have another order: label {label} is {ours[label]} in {train} and {theirs[label]} in {val}")
    raise TrainError(
        f"the classes of {train} and {val} are not the same: {'; '.join(part for part in parts if part)}. A label would mean "
        f"one class in training and another in evaluation: pack both splits in one go (imgshard build of the folder with "
        f"{train}/ and {val}/), or train without evaluation: --val-split none"
    )


def _only(split: str, ours: Sequence[str], theirs: Sequence[str]) -> str:
    alone = sorted(set(ours) - set(theirs))
    more = f" and {len(alone) - SHOWN} more" if len(alone) > SHOWN else ""
    return f"only in {split}: {', '.join(alone[:SHOWN])}{more}" if alone else ""
