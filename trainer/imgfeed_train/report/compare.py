"""Two runs side by side: one node against two, one GPU against four; speed-up and efficiency."""

from __future__ import annotations

from pathlib import Path

from ..errors import TrainError
from . import book as books
from . import plots, verdict
from .book import Book

#: Settings that change with the machines, or name places: a comparison of speed does not mind them.
EXPECTED = {
    "output", "nodes", "gpus", "node_rank", "master", "resume", "checkpoints", "rendezvous_timeout", "collective_timeout",
    "overwrite", "keep", "log_every", "tensorboard", "wandb", "workers", "cache", "cache_size", "max_steps", "checkpoint_every",
}  # fmt: skip


def write(run_a: Path, run_b: Path, output: Path | None = None) -> str:
    """Write compare.md and compare.png, and return the text with the path. Raises TrainError for what a run lacks."""
    a, b = books.read(run_a), books.read(run_b)
    folder = output or run_b / f"compare-{a.name}"
    with books.telling(run_a, run_b):
        lines = text(a, b)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with books.telling(run_a, run_b):
            drawn = plots.draw([a, b], folder / "compare.png")
        if drawn:
            lines += ["", "![plots](compare.png)"]
        else:
            lines += ["", "No plots: matplotlib is not installed (pip install matplotlib)."]
        (folder / "compare.md").write_text("\n".join([*lines, ""]))
    except OSError as e:
        raise TrainError(f"{folder} can't be written: {e}; choose another folder with --output") from e
    return "\n".join([*lines, "", f"written: {folder / 'compare.md'}"])


def text(a: Book, b: Book) -> list[str]:
    """Return the comparison as lines of Markdown."""
    first, second = verdict.summary(a), verdict.summary(b)
    names = (a.name, b.name) if a.name != b.name else (str(a.folder), str(b.folder))
    lines = [f"# {names[0]} and {names[1]}", "", f"| | {names[0]} | {names[1]} | ratio |", "|---|---|---|---|"]
    for name in dict.fromkeys((*first, *second)):
        one, two = first.get(name), second.get(name)
        ratio = f"{two / one:.3f}" if one and two is not None else ""
        lines.append(f"| {name} | {_number(one)} | {_number(two)} | {ratio} |")
    return [*lines, "", *_speed(first, second), *_missing(a, b, names), *_differences(a, b)]


def _number(value: float | None) -> str:
    return "missing" if value is None else f"{value:,.4g}"


def _speed(a: dict[str, float], b: dict[str, float]) -> list[str]:
    """Return speed-up and efficiency: by images/s of training, and by the time of whole epochs where both have one."""
    more = b["ranks"] / a["ranks"]
    faster = b[verdict.RATE] / a[verdict.RATE]
    lines = [
        f"- Speed-up: **{faster:.2f}** in images/s with {more:.3g} times the ranks, {a['nodes']:g} -> {b['nodes']:g} nodes: "
        f"efficiency **{100 * faster / more:.0f} %**."
    ]
    if "epochs" in a and "epochs" in b:
        epoch = [run["training s per epoch"] + run["evaluation s per epoch"] for run in (a, b)]
        lines.append(
            f"- An epoch with its evaluation: {epoch[0]:,.1f} s -> {epoch[1]:,.1f} s, {epoch[0] / epoch[1]:.2f} times as fast."
        )
    return lines


def _missing(a: Book, b: Book, names: tuple[str, str]) -> list[str]:
    lines = []
    for name, book in zip(names, (a, b), strict=True):
        if not book.epochs:
            last = book.steps[-1]
            lines.append(
                f"- {name} has finished no epoch (it came to batch {last['batch']} of {last['batches']}), "
                "so accuracies and epoch times are missing."
            )
        elif len(book.epochs) < book.settings["epochs"]:
            lines.append(f"- {name} has finished {len(book.epochs)} of its {book.settings['epochs']} epochs.")
    return lines


def _differences(a: Book, b: Book) -> list[str]:
    """Return what else differs, so that nobody takes it for the machines' doing."""
    one, two = a.settings, b.settings
    different = [k for k in sorted({*one, *two} - EXPECTED) if one.get(k) != two.get(k)]
    lines = []
    if different:
        listed = "; ".join(f"{k}: {one.get(k)} / {two.get(k)}" for k in different)
        lines.append(f"- The settings differ too, and the ratios hold their effect: {listed}.")
    kinds = [
        " + ".join(sorted({m["gpu"] if m["gpu"] != "none" else m["cpu"] for m in x.starts[-1]["machines"]})) for x in (a, b)
    ]
    if kinds[0] != kinds[1]:
        lines.append(f"- The hardware differs: {kinds[0]} / {kinds[1]}.")
    return lines
