"""The log book's plots: one picture of a run, or of several over one another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .book import Book, Event

RANKS_DRAWN = 4  # with more, the highest and the median rank are drawn
SMOOTHED_FROM = 60  # lines of a log: with more, a mean is drawn over the values


@dataclass
class Curve:
    """One line of a plot; x in minutes. ``marked`` shows each value, ``faint`` steps back behind other lines."""

    label: str
    x: list[float]
    y: list[float]
    marked: bool = False
    faint: bool = False


@dataclass
class Panel:
    """One plot. y is drawn from zero if ``zero`` says so, and then at least up to ``least``."""

    title: str
    curves: list[Curve] = field(default_factory=list)
    zero: bool = True
    least: float = 0.0


def draw(books: Sequence[Book], path: Path) -> bool:
    """Draw the runs into a PNG; return False if matplotlib is not installed."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - optional
    except ImportError:
        return False
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    sets = [panels(book) for book in books]
    titles = list(dict.fromkeys(panel.title for one in sets for panel in one))
    rows = -(-len(titles) // 2)
    figure, axes = plt.subplots(rows, 2, figsize=(12, 2.9 * rows), squeeze=False, layout="constrained")
    begin, end = min(_begin(book) for book in books), max(_end(book) for book in books)
    unit, divisor = _unit(end)
    for axis, title in zip(axes.flat, titles, strict=False):
        for number, (book, one) in enumerate(zip(books, sets, strict=True)):
            panel = next((p for p in one if p.title == title), None)
            if panel is not None:
                _panel(axis, panel, divisor, (number, book.name) if len(books) > 1 else None)
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_xlabel(unit, fontsize=8)
        axis.set_xlim(begin / divisor, (end + 0.02 * (end - begin)) / divisor)
    for axis in list(axes.flat)[len(titles) :]:
        axis.set_visible(False)
    if len(books) == 1:
        _pauses(axes.flat[: len(titles)], books[0], divisor)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def panels(book: Book) -> list[Panel]:
    """Return what there is to draw of a run."""
    steps, epochs = book.steps, book.scored
    marks = {"marked": True}
    found = [
        Panel("loss", [_curve("training", steps, "loss"), _curve("validation", epochs, "loss", **marks)], zero=False),
        Panel(
            "accuracy (%)",
            [
                _curve("training, top 1", steps, "acc1", faint=True),
                _curve("validation, top 1", epochs, "acc1", **marks),
                _curve("validation, top 5", epochs, "acc5", **marks),
            ],
        ),
        Panel("images/s, all ranks", [_curve("", steps, "images_per_second")]),
        Panel("waiting for data (% of time)", _by_rank(steps, lambda e: e["wait"], 100), least=10),
    ]
    if book.ranks > 1:
        found.append(
            Panel("waiting for the other ranks (% of time)", _by_rank(steps, lambda e: e["collective"], 100), least=10)
        )
    for title, name, scale in (
        ("GPU utilisation (%)", "gpu_utilisation_percent", 1.0),
        ("GPU power (W)", "gpu_power_w", 1.0),
        ("GPU memory in use (GB)", "gpu_memory_mb", 2**20 / 1e9),
        ("GPU memory, peak of the allocator (GB)", "gpu_memory_peak_mb", 2**20 / 1e9),
        ("memory of the process, peak (GB)", "host_memory_peak_mb", 2**20 / 1e9),
    ):
        rows = [e for e in steps if name in e["hardware"]]
        if rows and not (name.startswith("host") and any("gpu_memory_mb" in e["hardware"] for e in steps)):
            least = 100.0 if "%" in title else 0.0
            found.append(Panel(title, _by_rank(rows, lambda e, n=name: e["hardware"][n], scale), least=least))  # type: ignore[misc]
    found.append(Panel("learning rate", [_curve("", steps, "lr")]))
    return found


def _curve(label: str, events: Sequence[Event], name: str, **how: bool) -> Curve:
    return Curve(label, [e["minutes"] for e in events], [float(e[name]) for e in events], **how)


def _by_rank(events: Sequence[Event], values: Callable[[Event], list[float | None]], scale: float) -> list[Curve]:
    """Return a curve for each rank, or those of the highest and the median where there are many."""
    x = [e["minutes"] for e in events]
    rows = [[math.nan if v is None else v * scale for v in values(e)] for e in events]
    most = max(map(len, rows))
    if most > RANKS_DRAWN:
        return [
            Curve("highest rank", x, [max(row) for row in rows]),
            Curve("median rank", x, [sorted(r)[len(r) // 2] for r in rows]),
        ]
    label = "rank {}" if most > 1 else ""
    return [Curve(label.format(r), x, [row[r] if r < len(row) else math.nan for row in rows]) for r in range(most)]


def _panel(axis: Any, panel: Panel, divisor: float, of: tuple[int, str] | None) -> None:
    for i, curve in enumerate(panel.curves):
        if not curve.x:
            continue
        x = [value / divisor for value in curve.x]
        # One run: a colour for each curve. Several: a colour for each run, a dash for each of its curves.
        colour = f"C{i if of is None else of[0]}"
        dash = "-" if of is None else ("-", "--", ":", "-.")[i % 4]
        label = curve.label if of is None else f"{of[1]}{', ' if curve.label else ''}{curve.label}"
        marker = "o" if curve.marked or len(x) < 12 else None
        look = {"color": colour, "linestyle": dash, "marker": marker, "markersize": 3.5, "linewidth": 1.4}
        if len(x) >= SMOOTHED_FROM:
            axis.plot(x, curve.y, color=colour, linewidth=0.7, alpha=0.3)
            axis.plot(x, _smooth(curve.y), label=label, **look)
        else:
            axis.plot(x, curve.y, label=label, alpha=0.55 if curve.faint else 1.0, **look)
    if panel.zero:
        values = [v for line in axis.get_lines() for v in line.get_ydata() if not math.isnan(v)]
        axis.set_ylim(0, max([panel.least, *(1.08 * v for v in values)]))
    else:
        _cut_outliers(axis, [v for curve in panel.curves for v in curve.y if math.isfinite(v)])
    axis.grid(visible=True, linewidth=0.4, alpha=0.5)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    if any(axis.get_legend_handles_labels()[1]):
        axis.legend(fontsize=8, framealpha=0.8)


def _cut_outliers(axis: Any, values: list[float]) -> None:
    """Leave out of the picture what would flatten the rest of it: values far above nine tenths of all."""
    high = sorted(values)[int(0.9 * (len(values) - 1))] if values else math.inf
    if values and max(values) > 10 * abs(high):
        axis.set_ylim(min(values) - 0.05 * abs(high), 1.5 * high)
        axis.annotate(f"up to {max(values):.3g}", (1, 1), xycoords="axes fraction", ha="right", va="top", fontsize=8)


def _smooth(values: Sequence[float]) -> list[float]:
    """Return the mean over a window of a thirtieth of all values around each."""
    half = max(1, len(values) // 60)
    windows = [values[max(0, i - half) : i + half + 1] for i in range(len(values))]
    return [sum(w) / len(w) for w in windows]


def _pauses(axes: Any, book: Book, divisor: float) -> None:
    for axis in axes:
        for event in book.resumes:
            axis.axvline(event["minutes"] / divisor, color="grey", linestyle=":", linewidth=1)


def _begin(book: Book) -> float:
    """Return when the first step began: starting takes minutes, at times."""
    first = book.steps[0]
    return float(max(0.0, first["minutes"] - first["seconds"] / 60))


def _end(book: Book) -> float:
    return float(max(e["minutes"] for e in (*book.steps, *book.epochs)))


def _unit(minutes: float) -> tuple[str, float]:
    """Return the unit of a time axis so long, and how many minutes it has."""
    if minutes < 3:
        return "seconds of running", 1 / 60
    return ("minutes of running", 1.0) if minutes < 180 else ("hours of running", 60.0)
