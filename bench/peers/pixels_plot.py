#!/usr/bin/env python3
"""Plot size against speed from the result of pixels.py. Needs matplotlib.

    python3 bench/peers/pixels_plot.py result.json docs/pixels.svg
"""

import json
import statistics
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "imgfeed"
mpl.rcParams["svg.fonttype"] = "none"
import matplotlib.pyplot as plt

TITLES = {"eval": "Resize(256), CenterCrop(224)", "train": "RandomResizedCrop(224), flip"}


def main() -> None:
    result = json.loads(Path(sys.argv[1]).read_text())
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharex=True, layout="constrained")
    for axis, (transform, title) in zip(axes, TITLES.items(), strict=True):
        for row in result["rows"]:
            if not row["rounds"][transform] or "generic" in row["name"]:
                continue
            ours = row["name"].startswith("imgfeed")
            x, y = row["bytes"] / 1000, statistics.median(row["rounds"][transform])
            axis.plot(x, y, "o" if ours else "s", color="tab:blue" if ours else "tab:gray")
            axis.annotate(row["name"].removeprefix("imgfeed "), (x, y), xytext=(5, 4), textcoords="offset points", fontsize=8)
        axis.set(title=title, xlabel="KB a sample", yscale="log", xlim=(80, 350))
        axis.grid(which="both", alpha=0.25)
    axes[0].set_ylabel("images per second of one core")
    figure.text(0.01, -0.03, result["facts"][0], fontsize=7)
    figure.savefig(sys.argv[2], bbox_inches="tight", metadata={"Date": None})


main()
