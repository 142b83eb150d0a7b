"""The log book: report.md of a run with plots, and two runs side by side. It reads log.jsonl and nothing else."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import TrainError

Events = list[dict[str, Any]]


def main(arguments: Sequence[str]) -> None:
    """Run ``compare RUN_A RUN_B`` or ``report RUN``."""
    p = argparse.ArgumentParser(prog="imgfeed-train")
    commands = p.add_subparsers(dest="command", required=True)
    compare_parser = commands.add_parser("compare", help="two runs side by side: speed-up and efficiency")
    compare_parser.add_argument("run_a", type=Path)
    compare_parser.add_argument("run_b", type=Path)
    commands.add_parser("report", help="write report.md anew").add_argument("run", type=Path)
    args = p.parse_args(arguments)
    print(compare(args.run_a, args.run_b) if args.command == "compare" else write(args.run))


def read(run: Path) -> Events:
    """Return the events of a run's folder. Where a resumed run repeated steps or epochs, the later ones count."""
    try:
        text = (run / "log.jsonl").read_text()
    except OSError as e:
        raise TrainError(f"{run} is no folder of a run: {e}") from e
    latest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for number, line in enumerate(text.splitlines()):
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the last line of a run that was killed
        place = (event["epoch"], event.get("batch", -1)) if "epoch" in event else (number,)
        latest[(event["event"],) + place] = event  # noqa: RUF005 - Python 3.10
    return sorted(latest.values(), key=lambda event: float(event["at"]))


def summary(events: Events) -> dict[str, float]:
    """Return a run's numbers: ranks, epochs, seconds and images/s of training, best accuracies, highest wait."""
    steps, epochs = _of(events, "step"), _of(events, "epoch")
    if not steps or not epochs:
        raise TrainError("this run has not finished an epoch")
    best = max(epochs, key=lambda e: float(e["acc1"]))
    rates = [float(e["images_per_second"]) for e in steps]
    warm = sorted(rates[1:] or rates)  # the first line holds start-up
    return {
        "ranks": len(steps[-1]["wait"]),
        "epochs": len(epochs),
        "images/s (median of lines)": warm[len(warm) // 2],
        "training s per epoch": sum(e["train_seconds"] for e in epochs) / len(epochs),
        "best acc1 %": best["acc1"],
        "best acc5 %": best["acc5"],
        "last loss (validation)": epochs[-1]["loss"],
        "data wait %, worst rank, mean": 100 * sum(max(e["wait"]) for e in steps) / len(steps),
    }


def write(run: Path) -> Path:
    """Write report.md and its plots into a run's folder, and return its path."""
    events = read(run)
    start = _of(events, "start")[-1]
    steps, epochs = _of(events, "step"), _of(events, "epoch")
    numbers = summary(events)
    lines = [f"# {start['settings']['arch']}: {run.name}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value:,.4g} |" for name, value in numbers.items()]
    lines += ["", *_plots(run, steps, epochs), "", "## Epochs", ""]
    lines += ["| epoch | training s | evaluation s | loss | acc1 | acc5 | samples |", "|---|---|---|---|---|---|---|"]
    for e in epochs:
        values = f"{e['train_seconds']:.1f} | {e['eval_seconds']:.1f} | {e['loss']:.4f} | {e['acc1']:.3f} | {e['acc5']:.3f}"
        lines.append(f"| {e['epoch']} | {values} | {e['samples']} |")
    lines += ["", *_waiting(steps), "", "## Machine of rank 0", ""]
    lines += [f"- {name}: {value}" for name, value in start["machine"].items()]
    lines += ["", "## Settings", "", "```", *(f"{k} = {v}" for k, v in sorted(start["settings"].items())), "```", ""]
    path = run / "report.md"
    path.write_text("\n".join(lines))
    return path


def _waiting(steps: Events) -> list[str]:
    ranks = len(steps[-1]["wait"])
    lines = ["## Waiting", "", "| rank | data wait, mean | lines in which it held the others up |", "|---|---|---|"]
    for rank in range(ranks):
        rows = [e for e in steps if rank < len(e["wait"])]
        mean = sum(e["wait"][rank] for e in rows) / len(rows)
        lines.append(f"| {rank} | {mean:.1%} | {sum(e['straggler'] == rank for e in rows)} of {len(rows)} |")
    says = {what: sum(e["feed"] == what for e in steps) for what in ("disk", "cpu", "client", "idle")}
    return [*lines, "", "The feed of rank 0 waited for: " + ", ".join(f"{k} {v}" for k, v in says.items() if v) + " (lines)."]


def _plots(run: Path, steps: Events, epochs: Events) -> list[str]:
    try:
        import matplotlib  # noqa: PLC0415 - optional

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415
    except ImportError:
        return ["No plots: matplotlib is not installed. Install it and run `imgfeed-train report` on this folder."]
    begun = steps[0]["at"]

    def over_time(events: Events, value: Callable[[dict[str, Any]], float]) -> tuple[list[float], list[float]]:
        return [(e["at"] - begun) / 60 for e in events], [value(e) for e in events]

    curves: dict[str, list[tuple[str, tuple[list[float], list[float]]]]] = {
        "loss": [("training", over_time(steps, lambda e: e["loss"])), ("validation", over_time(epochs, lambda e: e["loss"]))],
        "accuracy (%)": [(name, over_time(epochs, lambda e, n=name: e[n])) for name in ("acc1", "acc5")],  # type: ignore[misc]
        "images/s": [("all ranks", over_time(steps, lambda e: e["images_per_second"]))],
        "data wait (fraction)": [("worst rank", over_time(steps, lambda e: max(e["wait"])))],
    }
    for name in sorted({name for e in steps for name in e["hardware"]}):
        rows = [e for e in steps if name in e["hardware"]]
        curves[name] = [("rank 0", over_time(rows, lambda e, n=name: e["hardware"][n]))]  # type: ignore[misc]
    figure, axes = plt.subplots(-(-len(curves) // 2), 2, figsize=(11, 3 * -(-len(curves) // 2)), squeeze=False)
    for axis, (title, lines) in zip(axes.flat, curves.items(), strict=False):
        for label, (x, y) in lines:
            axis.plot(x, y, marker="." if len(x) < 40 else None, label=label)
        axis.set_title(title)
        axis.set_xlabel("minutes")
        axis.legend()
    for axis in list(axes.flat)[len(curves) :]:
        axis.set_visible(False)
    figure.tight_layout()
    figure.savefig(run / "report.png", dpi=100)
    plt.close(figure)
    return ["![plots](report.png)"]


def compare(run_a: Path, run_b: Path) -> str:
    """Return two runs side by side as a table, with the speed-up of B over A and its efficiency for the ranks it adds."""
    a, b = summary(read(run_a)), summary(read(run_b))
    lines = [f"| | {run_a.name} | {run_b.name} | B/A |", "|---|---|---|---|"]
    lines += [f"| {k} | {a[k]:,.4g} | {b[k]:,.4g} | {f'{b[k] / a[k]:.3f}' if a[k] else '-'} |" for k in a]
    faster = a["training s per epoch"] / b["training s per epoch"]
    more = b["ranks"] / a["ranks"]
    lines += ["", f"Speed-up of an epoch: {faster:.2f} with {more:g} times the ranks: efficiency {100 * faster / more:.0f} %."]
    return "\n".join(lines)


def _of(events: Events, kind: str) -> Events:
    return [event for event in events if event["event"] == kind]
