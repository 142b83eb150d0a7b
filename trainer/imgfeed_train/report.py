"""The log book: OUTPUT/report.md of a run's log.jsonl, written at its end, and by `imgfeed-train report RUN...`."""

import argparse
import contextlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from . import files
from .errors import DAMAGED, TrainError

Row = dict[str, Any]
LINKS = ("run.yaml", "log.jsonl", "checkpoints/best.pt", "tensorboard")


def main(arguments: Sequence[str]) -> None:
    """Write the report of each run, and print their numbers side by side."""
    p = argparse.ArgumentParser(prog="imgfeed-train report", description="Write RUN/report.md, and print the numbers of runs.")
    p.add_argument("RUN", nargs="+", help="an --output of imgfeed-train")
    books = {name: write(name) for name in p.parse_args(arguments).RUN}
    keys = dict.fromkeys(key for numbers in books.values() for key in numbers)
    print("\n".join(_table(("", *books), [(key, *(numbers.get(key, "") for numbers in books.values())) for key in keys])))


def events(path: Path) -> list[Row]:
    """Return the lines of a log.jsonl, without half-written ones."""
    rows = []
    for line in path.read_text(errors="replace").splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict) and isinstance(row.get("event"), str):
                rows.append(row)
    return rows


def write(output: str) -> dict[str, str]:
    """Write a run's report.md; return its numbers by name, {} where no line was logged yet."""
    folder = Path(output)
    try:
        rows = events(folder / "log.jsonl")
    except OSError as e:
        raise TrainError(f"{folder} is not the folder of a run (an --output of imgfeed-train): {e.strerror}") from e
    try:
        kinds = {kind: [row for row in rows if row["event"] == kind] for kind in ("start", "step", "trained", "epoch", "end")}
        if not (kinds["start"] and kinds["step"]):
            return {}
        numbers = summary(**kinds)
        text = [f"# {folder.resolve().name}", "", *_table(("", "value"), numbers.items()), *_details(folder, kinds), ""]
    except (ArithmeticError, *DAMAGED) as e:
        raise TrainError(f"{folder / 'log.jsonl'} holds lines that no run writes ({type(e).__name__}: {e})") from e
    try:
        files.write(folder / "report.md", "\n".join(text))
    except OSError as e:
        print(f"imgfeed-train: {folder / 'report.md'} can't be written: {e.strerror}", flush=True)
    return numbers


def summary(start: list[Row], step: list[Row], trained: list[Row], epoch: list[Row], end: list[Row]) -> dict[str, str]:
    """Return the numbers of a run by name."""
    last, s, seconds = start[-1], start[-1]["settings"], sum(row["seconds"] for row in step)
    scored = [row for row in epoch if row.get("acc1") is not None]
    best = next((row for row in reversed(scored) if row["best"]), scored[-1] if scored else {})
    hardware = [one for row in step for one in row["hardware"]]
    used = [one["gpu_utilisation_percent"] for one in hardware if "gpu_utilisation_percent" in one]
    peaks = [one["gpu_memory_peak_mb"] / 1024 for one in hardware if "gpu_memory_peak_mb" in one]
    rate = sum(row["samples"] for row in step) / seconds
    epoch_seconds = last["batches"] * last["batch_size"] * last["world"] / rate
    images = last["batch_size"] * last["world"] * s["accumulate"]
    found = {
        "state": end[-1]["state"] if end and end[-1]["at"] >= last["at"] else "running",
        "model": f"{s['arch']}, {last['parameters']:,} parameters, {last['classes']:,} classes",
        "ranks": f"{last['world']} ({s['strategy']}), {', '.join(sorted({m['host'] for m in last['machines']}))}",
        "GPU": ", ".join(sorted({m["gpu"] for m in last["machines"]})),
        "batch": f"{last['batch_size']} a rank, {images:,} a step",
        "epochs": f"{len(trained)} of {s['epochs']}, {step[-1]['step']:,} steps",
        "training time": f"{clock(seconds)} (and {clock(sum(row.get('eval_seconds') or 0 for row in epoch))} of evaluation)",
        "images/s": f"{rate:,.0f}",
        "an epoch": f"{clock(epoch_seconds)}; all {s['epochs']}: {clock(epoch_seconds * s['epochs'])}, without evaluation",
        "waited for data": f"{sum(max(row['wait']) * row['seconds'] for row in step) / seconds:.1%} of the time, worst rank",
        "GPU utilisation": f"{sum(used) / len(used):.0f} %" if used else "not measured",
        "GPU memory": f"{max(peaks):.1f} GiB at most" if peaks else "not measured",
        "training loss": _number(step[-1]["loss"]),
    }
    if best:
        found["best Acc@1"] = f"{best['acc1']:.3f} (epoch {best['epoch']})"
        found |= {f"its {name}": _number(best.get(key)) for key, name in {"acc5": "Acc@5", "loss": "loss"}.items()}
    return {name: text for name, text in found.items() if text}


def _details(folder: Path, kinds: dict[str, list[Row]]) -> list[str]:
    """Return the sections below the numbers, as lines of Markdown."""
    start, end = kinds["start"], kinds["end"]
    settings, scores = start[-1]["settings"], {row["epoch"]: row for row in kinds["epoch"]}
    lines = ["", f"The run ended with: {end[-1]['error']}"] if end and end[-1].get("error") else []
    columns = ("epoch", "train loss", "Acc@1", "Acc@5", "val loss", "val Acc@1", "val Acc@5", "time", "images/s")
    rows = []
    for row in kinds["trained"]:
        both = (row, scores.get(row["epoch"], {}))
        numbers = [_number(one.get(key)) for one in both for key in ("loss", "acc1", "acc5")]
        rows.append((str(row["epoch"]), *numbers, clock(row["seconds"]), f"{row['images_per_second']:,.0f}"))
    lines += ["", "## Epochs", "", *(_table(columns, rows) if rows else ["No epoch was finished."])]
    lines += ["", "## Links", ""]
    lines += [f"- [{name}]({name})" for name in LINKS if (folder / name).exists()]
    lines += [f"- checkpoints: {settings['checkpoints'].rstrip('/')}/best.pt and last.pt"] if settings["checkpoints"] else []
    lines += [f"- [Weights & Biases]({url})" for url in {row.get("wandb"): 0 for row in start} if url]
    machines = [(str(i), *(str(m[k]) for k in ("host", "cpus", "gpu", "torch"))) for i, m in enumerate(start[-1]["machines"])]
    lines += ["", "## Machines", "", *_table(("rank", "host", "CPUs", "GPU", "torch"), machines)]
    flags = _table(("flag", "value"), [(name, f"`{value}`") for name, value in settings.items()])
    return [*lines, "", "## Settings", "", *flags]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)]


def clock(seconds: float) -> str:
    """Return a time as h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if value < 1 else f"{value:.3f}"
