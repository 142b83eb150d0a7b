"""What a soak must show: the plan in every book, flat resources, and nothing left behind."""

import dataclasses
import hashlib
import os
import re
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from .director import MARK, Director
from .trainer import ROW, Task, rows

WARMING = 0.25  # of a run, whose measurements are not compared with later ones
GROWTH, GROWTH_KIB = 0.05, 4096  # of memory, between then and the end, that is taken for noise


def whole_tasks(director: Director) -> list[Task]:
    """Return the trainers' tasks on the sets that nothing has happened to, by servers of their own."""
    whole = director.folders.whole
    return [
        dataclasses.replace(task, timeout=0, train=str(whole / "train"), val=str(whole / "val"), own=str(whole / "val"))
        for task in director.tasks
    ]


def check_books(director: Director) -> Counter[str]:
    """Compare what every trainer saw with the plan: index and hash, in order. Differences are failures; return counts."""
    counts: Counter[str] = Counter()
    union: dict[tuple[str, int], Counter[int]] = {}
    for task in whole_tasks(director):
        book = director.book(task.name)
        for kind, loader in (("train", task.training(task.train)), ("val", task.evaluation(task.val))):
            with loader:
                epochs = sorted(int(p.name.split("-")[1]) for p in Path(task.book).glob(f"{kind}-*"))
                if epochs != list(range(len(epochs))):
                    director.failures.append(f"{task.name}: epochs of {kind} are {epochs}")
                for epoch in epochs:
                    loader.set_epoch(epoch)
                    plan = np.concatenate([rows(batch) for batch in loader])
                    seen = book.read(kind, epoch)
                    last = kind == "train" and epoch == epochs[-1]
                    differ = _differences(seen, plan, whole=not last)
                    if differ:
                        director.failures.append(f"{task.name}, {kind}, epoch {epoch}: {differ} samples differ from the plan")
                    counts[f"{kind} samples"] += len(seen)
                    counts[f"{kind} epochs"] += not last
                    counts["differences"] += differ
                    if task.world > 1 and not last:
                        union.setdefault((kind, epoch), Counter()).update(seen["index"].tolist())
                    for lost in Path(task.book).glob(f"lost-{epoch:06}.*") if kind == "train" else ():
                        forgotten = np.fromfile(lost, ROW)
                        differ = _differences(forgotten, plan, whole=False)
                        counts["samples forgotten and seen again"] += max(0, len(forgotten))
                        counts["differences"] += differ
                        if differ:
                            director.failures.append(f"{task.name}, forgotten of epoch {epoch}: {differ} samples differ")
                samples = len(loader.dataset)
            if task.rank == task.world - 1 and task.world > 1:
                for (of, epoch), seen_of in union.items():
                    if of == kind and _both(director, kind, epoch) and set(seen_of) != set(range(samples)):
                        director.failures.append(f"{kind}, epoch {epoch}: the ranks together saw {len(seen_of)} of {samples}")
                    counts[f"{kind} epochs that both ranks saw whole"] += of == kind and _both(director, kind, epoch)
    return counts


def _both(director: Director, kind: str, epoch: int) -> bool:
    """Whether both ranks have come further than an epoch."""
    more = epoch + (kind == "train")
    return all((director.folders.books / name / f"{kind}-{more:06}").exists() for name in ("rank0", "rank1"))


def _differences(seen: np.ndarray[Any, Any], plan: np.ndarray[Any, Any], *, whole: bool) -> int:
    """Count the rows that are not the plan's, and those that are missing if the whole is due."""
    n = min(len(seen), len(plan))
    return int((seen[:n] != plan[:n]).sum()) + abs(len(seen) - len(plan) if whole else len(seen) - n)


def check_notes(director: Director) -> Counter[str]:
    """Count the errors that trainers met: only those of damaged data and of a full disk may be, and they name a file."""
    counts: Counter[str] = Counter()
    for task in director.tasks:
        for note in director.book(task.name).notes():
            if note["what"] == "ended":
                counts["reconnects"] += sum(note["reconnects"])
            elif note["what"] == "began":
                counts["starts of a trainer"] += 1
            elif note["what"] == "error":
                counts[f"errors: {note['kind']}"] += 1
                if note["kind"] != "saving" and str(director.folders.root) not in note["text"]:
                    director.failures.append(f"{task.name}: an error that names no file: {note['text']}")
    return counts


class Meter:
    """Measures a server and a client that live as long as the soak: descriptors, threads, memory."""

    WATCHED = ("steady", "witness")

    def __init__(self, every: float) -> None:
        self.every = every
        self._next = time.monotonic() + every
        self.taken: dict[str, list[dict[str, int]]] = {name: [] for name in self.WATCHED}

    def __call__(self, director: Director) -> None:
        if time.monotonic() >= self._next:
            self._next += self.every
            for name in self.WATCHED:
                if director.processes[name].poll() is None:
                    self.taken[name].append(resources(director.processes[name].pid))

    def check(self, director: Director) -> list[str]:
        """Return a line for each of the measured, and note as failures what grew."""
        lines = []
        for name, taken in self.taken.items():
            early = taken[int(len(taken) * WARMING) : int(len(taken) * 2 * WARMING)]
            late = taken[int(len(taken) * (1 - WARMING)) :]
            if not early or not late:
                return ["too short to tell whether resources are flat"]
            for what in taken[0]:
                a, b = (statistics.median(row[what] for row in part) for part in (early, late))
                lines.append(
                    f"{name}, {what}: {a:g} in the second quarter, {b:g} in the last; most {max(r[what] for r in taken)}"
                )
                noise = GROWTH * a + GROWTH_KIB if what.endswith("KiB") else 1
                if b > a + noise:
                    director.failures.append(f"{name}: {what} grew from {a:g} to {b:g}")
        return lines


def resources(pid: int) -> dict[str, int]:
    """Return what a process has."""
    status = Path(f"/proc/{pid}/status").read_text()
    lines = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+)", status, re.MULTILINE)}
    return {
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": lines["Threads"],
        "resident KiB": lines["VmRSS"],
        "anonymous KiB": lines["RssAnon"],
        "shared KiB": lines["RssShmem"],
    }


def check_leftovers(director: Director) -> None:
    """Fail for each process, socket, lock or temporary file that is left, and each byte of the sets that is another."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={director.folders.root}".encode() in entry.read_bytes().split(b"\0"):
                director.failures.append(f"process {entry.parent.name} is left: {(entry.parent / 'cmdline').read_bytes()!r}")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    p = director.folders
    expected = {f"{task.name}.json" for task in director.tasks} | {"tmp"}
    stays = f"imgfeed-{os.getuid()}"  # imgfeed status looks there for running servers
    for path in (*p.disk.iterdir(), *p.temporary.iterdir()):
        if path.name not in (expected if path.parent == p.disk else {stays}):
            director.failures.append(f"{path} is left")
    if digests(p.sets) != digests(p.whole):
        director.failures.append("the sets are not what they were")


def digests(folder: Path) -> dict[str, str]:
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.rglob("*") if f.is_file()}
