"""Compares what imgfeed plan says with what imgfeed bench then measures.

    make build && python3 bench/plan/run.py IMAGES [--rounds 3] [--seconds 6] > table.md

IMAGES is a folder of images, in folders or not. imgfeed plan is given every second one of them, not packed; imgfeed bench sets of all of them, packed. The two take turns,
setting by setting, and a cell is the median of the rounds. The clock tells how good the prediction is on a machine that is idle; where others work too, CPU time tells it.
It takes about three minutes on an idle machine, with 500 images and two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BIN = Path(__file__).parents[2] / "bin"
# The encoding as plan calls it, how it is packed, the transform, and whether on all cores.
SETTINGS = [
    ("original", ["--encoding", "original"], "train", False),
    ("pixels bitpack", ["--encoding", "pixels"], "train-resize", True),
    ("pixels zstd", ["--encoding", "pixels", "--codec", "zstd"], "eval", True),
]
WITHIN = 0.15


def run(*command: str | Path) -> Any:
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    return json.loads(done.stdout) if "--json" in command else done.stdout


def lay_out(images: list[Path], folder: Path) -> Path:
    """Links the images into two class folders."""
    for k, image in enumerate(images):
        place = folder / f"class{k % 2}" / f"{k}{image.suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(image.resolve())
    return folder


def measure(setting: tuple[str, list[str], str, bool], source: Path, packed: Path, cores: int, seconds: float) -> tuple[float, float, float]:
    """Images a second of a core as predicted, as measured, and by the clock."""
    name, _, transform, all_cores = setting
    threads = str(cores if all_cores else 1)
    common = ["--transform", transform, "--json", "--seconds"]
    plan = run(BIN / "imgfeed", "plan", source, "--cores", threads, "--disk", "1GB", *common, str(seconds))
    predicted = next(e for e in plan["encodings"] if e["name"] == name)
    bench = run(BIN / "imgfeed", "bench", packed, "--threads", threads, *common, str(seconds / 2))
    return predicted["images_per_core_second"], bench["images_per_cpu_second"], bench["images_per_second"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6, help="that plan measures for; bench takes half of it")
    options = parser.parse_args()
    images = sorted(p for p in options.images.rglob("*") if p.suffix.lower() in (".jpeg", ".jpg", ".png"))
    if len(images) < 8:
        sys.exit(f"{options.images} has {len(images)} images: want 8 or more")
    cores = len(os.sched_getaffinity(0))
    results: list[list[tuple[float, float, float]]] = [[] for _ in SETTINGS]
    with tempfile.TemporaryDirectory(prefix="imgfeed-bench-plan-") as temp:
        half = lay_out(images[::2], Path(temp) / "half" / "train")
        whole = lay_out(images, Path(temp) / "whole" / "train")
        packed = [Path(temp) / f"set{i}" for i in range(len(SETTINGS))]
        for place, (_, flags, _, _) in zip(packed, SETTINGS, strict=True):
            run(BIN / "imgshard", "build", whole, "-o", place, *flags)
        for r in range(options.rounds):
            for i, setting in enumerate(SETTINGS):
                print(f"round {r + 1} of {options.rounds}: {setting[0]}, {setting[2]}", file=sys.stderr)
                results[i].append(measure(setting, half, packed[i], cores, options.seconds))
    print_table(results, cores)
    print(f"- images: {len(images)}, of which plan saw {len(images[::2])}; {cores} cores; load average at the end {os.getloadavg()[0]:.1f}")
    print(f"- {options.rounds} alternating rounds, medians; {run(BIN / 'imgfeed', 'version').splitlines()[0]}")


def print_table(results: list[list[tuple[float, float, float]]], cores: int) -> None:
    print("| encoding | transform | cores | predicted, images/s | bench, by the clock | off | bench, by CPU time | off |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    good = True
    for (name, _, transform, all_cores), rounds in zip(SETTINGS, results, strict=True):
        threads = cores if all_cores else 1
        predicted, by_cpu, by_clock = (statistics.median(column) for column in zip(*rounds, strict=True))
        predicted, by_cpu = predicted * threads, by_cpu * threads
        off_clock, off_cpu = predicted / by_clock - 1, predicted / by_cpu - 1
        good = good and abs(off_clock) <= WITHIN
        print(f"| {name} | {transform} | {threads} | {predicted:,.0f} | {by_clock:,.0f} | {off_clock:+.1%} | {by_cpu:,.0f} | {off_cpu:+.1%} |")
    print(f"\n- the clock is within {WITHIN:.0%} of the prediction: {'yes' if good else '**no**'}")


if __name__ == "__main__":
    main()
