"""A run's log as one continuous book, however often the run was stopped and resumed. It reads log.jsonl and nothing else."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import DAMAGED, TrainError
from ..settings import LOG

Event = dict[str, Any]


class NothingLoggedError(TrainError):
    """A run has logged no line of training, so it has nothing to report."""


@dataclass
class Book:
    """What counts of a run: each step and epoch once. Every event has ``minutes`` of running time, without the pauses."""

    folder: Path
    starts: list[Event] = field(default_factory=list)
    plans: list[Event] = field(default_factory=list)
    resumes: list[Event] = field(default_factory=list)
    steps: list[Event] = field(default_factory=list)
    epochs: list[Event] = field(default_factory=list)
    end: Event | None = None

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.folder.resolve().name

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the last start."""
        settings: dict[str, Any] = self.starts[-1]["settings"]
        return settings

    @property
    def plan(self) -> Event:
        """What the settings left open: world, batch size, samples."""
        return self.plans[-1] if self.plans else {}

    @property
    def images_per_second(self) -> float:
        """Images over seconds of training, of all lines together."""
        return float(sum(e["samples"] for e in self.steps) / max(1e-9, sum(e["seconds"] for e in self.steps)))

    @property
    def scored(self) -> list[Event]:
        """The epochs that were evaluated."""
        return [e for e in self.epochs if e["acc1"] is not None]

    @property
    def ranks(self) -> int:
        """How many ranks wrote the last line."""
        return len(self.steps[-1]["wait"])

    @property
    def nodes(self) -> int:
        """How many nodes the last start had: two may be on one machine, and older logs name machines only."""
        return len({(m["host"], m.get("node")) for m in self.starts[-1]["machines"]})


def read(folder: Path) -> Book:
    """Return the book of a run's folder.

    A start that resumed goes on in the book, and lines after the place it resumed at are gone: it did those steps again. A
    start without resuming is a new run in the old folder, and a new book. One that did neither, as it was refused, leaves
    the book of a run as it was. Raises TrainError where there is no run, and
    NothingLoggedError where it has not come to a line.
    """
    path = folder / LOG
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError as e:
        what = "has no " + LOG if folder.is_dir() else "is not there"
        raise TrainError(f"{folder} is no folder of a run (an --output of imgfeed-train): it {what}") from e
    events = []
    for number, line in enumerate(lines, 1):
        try:
            events.append((number, json.loads(line)))
        except (ValueError, RecursionError):
            continue  # the last line of a process that was killed
    book = _bind(folder, events)
    if not book.starts:
        raise TrainError(f"{path} names no start of a run")
    if not book.steps:
        failed = (book.end or {}).get("error")
        raise NothingLoggedError(
            f"{folder}: this run wrote no line of training{f'; it ended with: {failed}' if failed else ''}"
        )
    return book


@contextlib.contextmanager
def telling(*runs: Path) -> Iterator[None]:
    """Make a TrainError, which names the logs, of what their lines hold that no run writes."""
    try:
        yield
    except (*DAMAGED, ArithmeticError) as e:
        logs = " or ".join(str(run / LOG) for run in runs)
        raise TrainError(f"{logs} holds what no run writes, and can't be told ({type(e).__name__}: {str(e)[:200]})") from e


def _bind(folder: Path, events: list[tuple[int, Any]]) -> Book:
    bound = _Binding(Book(folder))
    for number, event in events:
        try:
            bound.add(event)
        except (*DAMAGED, ArithmeticError) as e:
            what = f"{type(e).__name__}: {str(e)[:200]}"
            raise TrainError(f"{folder / LOG}: line {number} is none that a run writes ({what}): take it out") from e
    return bound.book


@dataclass
class _Binding:
    """A book under way. ``began`` is when the last start was, ``before`` the minutes of running until then."""

    book: Book
    began: float = 0.0
    before: float = 0.0
    resumed: bool = False
    pending: Event = field(default_factory=dict)  # the last start

    def add(self, event: Event) -> None:
        kind, book = event["event"], self.book
        if kind == "start":
            self.before = _last_minute(book)
            self.began, self.resumed = float(event["at"]), False
            event["minutes"] = self.before
            self.pending = event
            if not book.steps:
                book.starts, book.end = [*book.starts, event], None
            return
        if kind == "resume":
            self.resumed = True
            if not self._counts():
                book.starts, book.end = [*book.starts, self.pending], None
            here = (event["epoch"], event["batch"])
            book.steps = [e for e in book.steps if (e["epoch"], e["batch"]) <= here]
            book.epochs = [e for e in book.epochs if e["epoch"] < here[0]]
            self.before = min(self.before, _last_minute(book))
            self.pending["minutes"] = self.before
        elif kind in ("step", "epoch") and not self.resumed:
            if book.starts and book.starts[0] is not self.pending:  # what came before was another run
                book = self.book = Book(book.folder, [self.pending], book.plans[-1:])
                self.before = self.pending["minutes"] = 0.0
            self.resumed = True
        event["minutes"] = self.before + (event["at"] - self.began) / 60
        if kind == "end" and self._counts():
            book.end = event
        elif kind in ("step", "epoch", "plan", "resume"):
            getattr(book, kind + "s").append(_whole(book, event))

    def _counts(self) -> bool:
        """Return whether the last start is in the book."""
        return bool(self.book.starts) and self.book.starts[-1] is self.pending


def _whole(book: Book, event: Event) -> Event:
    """Return an event with what older logs leave out, and NaN for a number that JSON has not."""
    if event["event"] == "step" and "seconds" not in event:
        last = book.steps[-1] if book.steps else None
        batches = event["batch"] - (last["batch"] if last and last["epoch"] == event["epoch"] else 0)
        event["samples"] = batches * book.plan.get("batch_size", 0) * len(event["wait"])
        event["seconds"] = event["samples"] / event["images_per_second"]
    if event["event"] == "step" or event.get("samples"):
        event |= {name: math.nan for name in ("loss", "acc1", "acc5") if event.get(name) is None}
    return event


def _last_minute(book: Book) -> float:
    return max((e["minutes"] for e in (*book.steps, *book.epochs)), default=0.0)
