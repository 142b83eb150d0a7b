"""The log book: report.md of a run with plots, and the numbers that :mod:`compare` sets side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from .. import flags
from . import book as books
from . import compare, plots, verdict
from .book import Book, Event, NothingLoggedError

__all__ = ["NothingLoggedError", "main", "write"]


def main(arguments: Sequence[str]) -> None:
    """Run ``compare RUN_A RUN_B`` or ``report RUN``."""
    p = flags.Parser(prog="imgfeed-train")
    commands = p.add_subparsers(dest="command", required=True, parser_class=flags.Parser)
    two = commands.add_parser("compare", help="two runs side by side: speed-up, efficiency, plots of both")
    two.add_argument("run_a", type=Path, help="--output of the first run, which the second is measured against")
    two.add_argument("run_b", type=Path, help="--output of the second run")
    two.add_argument("--output", type=Path, help="folder for compare.md and compare.png; if not given, RUN_B/compare-RUN_A")
    commands.add_parser("report", help="write report.md anew").add_argument("run", type=Path)
    args = p.parse_args(arguments)
    if args.command == "report":
        print(write(args.run))
    else:
        print(compare.write(args.run_a, args.run_b, args.output))


def write(run: Path) -> Path:
    """Write report.md and its plots into a run's folder, and return its path. Raises NothingLoggedError without a line."""
    book = books.read(run)
    with books.telling(run):
        lines = _lines(book)
    path = run / "report.md"
    path.write_text("\n".join(lines))
    return path


def _lines(book: Book) -> list[str]:
    run, s = book.folder, book.settings
    lines = [f"# {s['arch']} on {s['data']}: {book.name}", "", _state(book), "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value:,.4g} |" for name, value in verdict.summary(book).items()]
    lines += ["", *verdict.words(book), ""]
    lines += ["![plots](report.png)" if plots.draw([book], run / "report.png") else _no_plots(run), ""]
    return [*lines, *_epochs(book), "", *_waiting(book), "", *_machines(book), "", *_starts(book), "", *_settings(book), ""]


def _no_plots(run: Path) -> str:
    return f"No plots: matplotlib is not installed. `pip install matplotlib`, then `imgfeed-train report {run}`."


def _state(book: Book) -> str:
    """Return in a sentence how far the run came."""
    last, wanted = book.steps[-1], book.settings["epochs"]
    place = f"in epoch {last['epoch']} of 0 to {wanted - 1}, after {last['batch']:,} of {last['batches']:,} batches"
    if len(book.epochs) and book.epochs[-1]["epoch"] == wanted - 1:
        return f"Finished: {wanted} epochs, {last['step']:,} steps."
    state = (book.end or {}).get("state")
    how = {"stopped": "Stopped", "failed": "Failed"}.get(state or "", "Not ended yet, or killed; its last line is")
    error = f" The error: {book.end['error']}." if book.end and "error" in book.end else ""
    return f"{how} {place}; {len(book.epochs)} epochs are complete.{error} `--resume auto` goes on from the last checkpoint."


def _epochs(book: Book) -> list[str]:
    lines = [
        "## Epochs",
        "",
        "| epoch | training s | evaluation s | images/s | data wait, worst rank | training loss | loss | acc1 | acc5 | of |",
    ]
    lines += ["|---|---|---|---|---|---|---|---|---|---|"]
    for e in book.epochs:
        rows = [step for step in book.steps if step["epoch"] == e["epoch"]]
        trained = _columns(rows, e.get("images_per_second"))
        scores = "| | | |"
        if e["acc1"] is not None:
            scores = f"| {e['loss']:.4f} | {e['acc1']:.2f} | {e['acc5']:.2f} | {_of(e)}"
        lines.append(f"| {e['epoch']} | {e['train_seconds']:.1f} | {e['eval_seconds']:.1f} | {trained} {scores} |")
    begun = [e for e in book.steps if e["epoch"] not in {done["epoch"] for done in book.epochs}]
    if begun:
        lines.append(f"| {begun[-1]['epoch']} (to batch {begun[-1]['batch']}) | | | {_columns(begun)} | | | | |")
    samples = sorted({e["samples"] for e in book.scored})
    if samples:
        lines += [
            "",
            f"Loss and accuracies (%) are of {', '.join(f'{n:,}' for n in samples)} validation images, each taken once.",
        ]
    if any(e.get("mixed") for e in book.steps):
        lines += ["", "Accuracies in training are of mixed images (mixup, cutmix): lower than the model deserves."]
    if any(len(e.get("scores", ())) > 1 for e in book.epochs):
        lines += ["", "Both the model and the average of its weights were scored; the table has the better of each epoch."]
    return lines


def _of(epoch: Event) -> str:
    """Return whose score an epoch's is, where there were two."""
    other = [f"{name} {score['acc1']:.2f}" for name, score in epoch.get("scores", {}).items() if name != epoch["scored"]]
    return f"{epoch['scored']} ({', '.join(other)})" if other else ""


def _columns(rows: Sequence[Event], rate: float | None = None) -> str:
    """Return images/s, the worst rank's wait, and the last loss of an epoch's lines; rate is that of the whole epoch."""
    if not rows:
        return "| |"
    if rate is None:
        rate = sum(e["samples"] for e in rows) / sum(e["seconds"] for e in rows)
    wait = max(mean(e["wait"][r] for e in rows if r < len(e["wait"])) for r in range(len(rows[-1]["wait"])))
    return f"{rate:,.0f} | {wait:.1%} | {rows[-1]['loss']:.4f}"


def _waiting(book: Book) -> list[str]:
    """Return the table of where each rank's time went."""
    lines = ["## Where the time of each rank went", ""]
    gpu = any("gpu_utilisation_percent" in e["hardware"] for e in book.steps)
    shown = " GPU utilisation | GPU power |" if gpu else ""
    lines += [f"| rank | host | waiting for data | computing | waiting for ranks |{shown} held the others up |"]
    lines += ["|---|---|---|---|---|---|" + ("---|---|" if gpu else "")]
    machines = book.starts[-1]["machines"]
    for rank in range(book.ranks):
        rows = [e for e in book.steps if rank < len(e["wait"])]
        parts = [f"{mean(e[name][rank] for e in rows):.1%}" for name in ("wait", "compute", "collective")]
        if gpu:
            parts += [_mean(rows, "gpu_utilisation_percent", rank, " %"), _mean(rows, "gpu_power_w", rank, " W")]
        whys = [e["why"] for e in rows if e["straggler"] == rank]
        held = f"{len(whys)} of {len(rows)} lines"
        if whys:
            held += " (" + ", ".join(f"{why} {whys.count(why)}" for why in sorted(set(whys))) + ")"
        host = machines[rank]["host"] if rank < len(machines) else ""
        lines.append("| " + " | ".join([str(rank), host, *parts, held]) + " |")
    return [*lines, "", "The rest of the time went into lines of the log, checkpoints and Python. A GPU that waits for another",
            "rank shows 100 % utilisation at a part of its power: go by the waits."]  # fmt: skip


def _mean(rows: Sequence[Event], name: str, rank: int, unit: str) -> str:
    values = [e["hardware"][name][rank] for e in rows if name in e["hardware"]]
    values = [v for v in values if v is not None]
    return f"{mean(values):,.0f}{unit}" if values else ""


def _machines(book: Book) -> list[str]:
    lines = ["## Machines", "", "| rank | host | GPU | CPU | torch | Python |", "|---|---|---|---|---|---|"]
    for rank, m in enumerate(book.starts[-1]["machines"]):
        lines.append(f"| {rank} | {m['host']} | {m['gpu']} | {m['cpu']} | {m['torch']} | {m['python']} |")
    return lines


def _starts(book: Book) -> list[str]:
    if not book.resumes:
        return ["Run in one go."]
    lines = ["## Interruptions", "", "Dotted lines in the plots. Running time is without the pauses.", ""]
    lines += [f"- resumed at epoch {e['epoch']}, batch {e['batch']}, from {e['checkpoint']}" for e in book.resumes]
    return lines


def _settings(book: Book) -> list[str]:
    plan: dict[str, Any] = {k: v for k, v in book.plan.items() if k not in ("event", "at", "minutes")}
    lines = ["## Settings", "", "```", *(f"{k} = {v}" for k, v in sorted(book.settings.items())), "```"]
    return [*lines, "", "What they came to:", "", "```", *(f"{k} = {v}" for k, v in sorted(plan.items())), "```"]
