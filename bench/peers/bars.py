#!/usr/bin/env python3
"""Plot the tables of original JPEGs that stand in docs/benchmarks.md, one panel for each processor. Needs matplotlib.

    python3 bench/peers/bars.py docs/benchmarks.md docs/benchmarks.svg

A panel is a table below a heading "### JPEG on …": each row of one core with its `eval` and `train`, and the full decode of
the first row, which decodes only, as a line. Rows of generic kernels and of two threads are left out.
"""

import re
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "imgfeed"
mpl.rcParams["svg.fonttype"] = "none"
import matplotlib.pyplot as plt

COLOURS = {True: ("#1f77b4", "#7fb2d9"), False: ("#7f7f7f", "#bdbdbd")}  # imgfeed's or not: train, eval


def main() -> None:
    panels = re.findall(r"^### JPEG on (.+)\n\n((?:\|.*\n)+)", Path(sys.argv[1]).read_text(), re.MULTILINE)
    tables = []
    for title, text in panels:
        head, _, *rows = ([cell.strip().replace(",", "") for cell in line.strip("|").split("|")] for line in text.splitlines())
        names = [line.strip("|").split("|")[0].strip() for line in text.splitlines()[2:]]
        bare = float(rows[0][head.index("full decode")])
        figures = [
            (name, float(row[head.index("train")]), float(row[head.index("eval")]))
            for name, row in zip(names, rows, strict=True)
            if row[head.index("train")] != "–" and "generic" not in name and "two threads" not in name
        ]
        tables.append((title, bare, figures))
    heights = [len(figures) for _, _, figures in tables]
    figure, axes = plt.subplots(
        len(tables), 1, figsize=(10, 1.6 + 0.42 * sum(heights)), layout="constrained", height_ratios=heights
    )
    for axis, (title, bare, figures) in zip(axes, tables, strict=True):
        for row, (name, train, evaluation) in enumerate(figures):
            colours = COLOURS[name.startswith("imgfeed")]
            for shift, value, colour in ((-0.2, train, colours[0]), (0.2, evaluation, colours[1])):
                axis.barh(row + shift, value, 0.38, color=colour)
                axis.annotate(
                    f"{value:,.0f}", (value, row + shift), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7
                )
        axis.axvline(bare, color="black", linestyle="--", linewidth=1)
        axis.annotate(
            "libjpeg-turbo decodes only", (bare, len(figures) - 0.45), xytext=(3, 0), textcoords="offset points", fontsize=7
        )
        axis.set(
            title=f"{title}: images/s of one core; dark train, light eval",
            yticks=range(len(figures)),
            ylim=(len(figures) - 0.3, -0.6),
        )
        axis.set_yticklabels([name for name, _, _ in figures], fontsize=8)
        axis.title.set_fontsize(9)
        axis.margins(x=0.08)
    figure.savefig(sys.argv[2], metadata={"Date": None})


main()
