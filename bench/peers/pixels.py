#!/usr/bin/env python3
"""Measure sets of the encoding pixels beside FFCV's raw mode, in one run, on one core, and print a table.

    python3 bench/peers/pixels.py IMAGES --repeat 8 --json result.json > table.md
    python3 bench/peers/pixels_plot.py result.json docs/pixels.svg

IMAGES is a folder of JPEG files, in class folders or not. Each is packed --repeat times, so that the sets are far larger
than the caches, as original and as pixels by every codec, resized to 256. Then, alternating, round after round:

  imgfeed  `imgfeed bench --threads 1`: all that serving does, checksums too; set in the page cache
  FFCV     raw mode, one worker: centre crop (eval), random resized crop (train)

A figure is the median of the rounds, in images per second of CPU time, which is what a core does that has nothing else to
do; a ratio is that of two medians. How far rounds lie apart is said below the table: other work on the machine shows by what it
takes of the caches and of the memory's bandwidth. The JPEGs' `train` is cut out of the originals, that of pixels and FFCV out of
the resized images.

Needs Go, and for FFCV's rows a Python with ffcv and torchvision (--ffcv-python). On Debian 12 install python3-numba,
python3-opencv, python3-torch, python3-torchvision, libopencv-dev, libturbojpeg0-dev, pkg-config and g++. Then, in a virtual
environment with --system-site-packages:

    pip install --no-deps wheel tqdm pytorch_pfn_extras fastargs assertpy terminaltables
    pip install --no-build-isolation --no-deps ffcv
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import run
from run import HERE, LEVELS, Contender, arguments, output, processor, programs, say

TRANSFORMS = ("eval", "train-resize", "train")
CODECS = ("bitpack", "zstd", "lz4", "none")
FFCV = "FFCV, raw"


def pack(images: Path, repeat: int, work: Path, imgshard: Path) -> tuple[dict[str, Path], list[Path]]:
    """Pack every image repeat times, unless that was done before; return the sets by what they store, and the images."""
    files = sorted(p.resolve() for p in images.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg") and p.is_file())
    if not files:
        raise SystemExit(f"pixels.py: no .jpg or .jpeg files in {images}")
    for i in range(repeat):
        folder = work / "images" / f"class{i}"
        folder.mkdir(parents=True, exist_ok=True)
        for number, path in enumerate(files):
            link = folder / f"{number:07d}.jpg"
            link.unlink(missing_ok=True)
            link.symlink_to(path)
    sets = {"original": work / "original"}
    commands = [[str(imgshard), "build", str(work / "images"), "-o", str(sets["original"])]]
    for codec in CODECS:
        sets[codec] = work / codec
        commands.append([str(imgshard), "repack", str(sets["original"]), "-o", str(sets[codec]), "--codec", codec])
    for command in commands:
        if not Path(command[command.index("-o") + 1]).exists():
            subprocess.run(command, stdout=sys.stderr, check=True)
    return sets, files


def sample_bytes(folder: Path) -> float:
    """Return how many bytes a sample takes on disk, index and all."""
    manifest = json.loads((folder / "manifest.json").read_text())
    return sum(s["bytes"] for s in manifest["shards"]) / manifest["samples"]


def row(name: str, command: dict[str, list[str]], core: int, env: dict[str, str] | None = None) -> Contender:
    return Contender(
        name,
        command,
        env or {},
        (core,),
        figures={t: [] for t in TRANSFORMS},
        ratios={t: [] for t in TRANSFORMS},
    )


def contenders(args: argparse.Namespace, work: Path, sets: dict[str, Path], files: list[Path]) -> list[tuple[Contender, float]]:
    """Return the rows with their bytes a sample: FFCV first if it is there."""
    seconds = str(args.seconds)
    rows = []
    if output(args.ffcv_python, "-c", "import ffcv; print(1)"):
        listing, beton = work / "list.txt", work / "raw.beton"
        listing.write_text("".join(f"{f}\n" for f in files))
        script = [args.ffcv_python, str(HERE / "ffcv_raw.py")]
        if not beton.exists():
            subprocess.run([*script, "write", str(listing), str(beton), str(args.repeat)], stdout=sys.stderr, check=True)
        size = beton.stat().st_size / (len(files) * args.repeat)
        rows.append((row(FFCV, {t: [*script, t, str(beton), seconds] for t in ("eval", "train")}, args.core), size))
    else:
        say(f"LEFT OUT: FFCV ({args.ffcv_python} cannot import it; see --ffcv-python)")

    def bench(name: str, level: str) -> Contender:
        base = [str(args.imgfeed), "bench", str(sets[name]), "--threads", "1", "--seconds", seconds, "--json"]
        return row(f"imgfeed {name}, {level}", {t: [*base, "--transform", t] for t in TRANSFORMS}, args.core, {"IMGFEED_KERNELS": level})

    highest = json.loads(output(str(args.imgfeed), "version", "--json"))["kernels"]
    levels = LEVELS[LEVELS.index(highest) :]
    names = [("bitpack", level) for level in levels] + [(n, levels[0]) for n in ("none", "lz4", "zstd", "original")]
    return rows + [(bench(name, level), sample_bytes(sets[name])) for name, level in names]


def measure(rows: list[Contender], rounds: int) -> None:
    for number in range(rounds):
        turn = number % len(rows)
        for transform in TRANSFORMS:
            for r in rows[turn:] + rows[:turn]:
                if transform in r.command:
                    r.figures[transform].append(r.run(transform))
        say(f"round {number + 1} of {rounds} done")


def ratio(r: Contender, base: Contender | None, transform: str) -> str:
    if base is None or r is base or not r.figures[transform] or not base.figures[transform]:
        return "–"
    return f"{statistics.median(r.figures[transform]) / statistics.median(base.figures[transform]):.2f}"


def table(rows: list[tuple[Contender, float]]) -> str:
    ffcv = next((r for r, _ in rows if r.name == FFCV), None)
    lines = [
        "| images per second per core | KB a sample | eval | × FFCV | train-resize | train | × FFCV |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for r, size in rows:
        figure = {t: f"{statistics.median(f):,.0f}" if f else "–" for t, f in r.figures.items()}
        cells = [
            r.name,
            f"{size / 1000:.0f}",
            figure["eval"],
            ratio(r, ffcv, "eval"),
            figure["train-resize"],
            figure["train"],
            ratio(r, ffcv, "train"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def facts(args: argparse.Namespace, count: int, rows: list[Contender]) -> list[str]:
    version = json.loads(output(str(args.imgfeed), "version", "--json"))
    commit = output("git", "-C", str(run.ROOT), "rev-parse", "--short=12", "HEAD") or "unknown"
    peers = output(
        args.ffcv_python,
        "-c",
        "import importlib.metadata as m, numba, cv2, platform;"
        "print(f'FFCV {m.version(\"ffcv\")}, numba {numba.__version__}, OpenCV {cv2.__version__}, Python {platform.python_version()}')",
    )
    worst = max((max(f) - min(f)) / statistics.median(f) for r in rows for f in r.figures.values() if f)
    share = min(statistics.median(r.shares) for r in rows)
    return [
        f"processor: {processor()}, kernels {version['kernels']}",
        f"system: {platform.system()} {platform.release()}; one core, number {args.core}; load average at the end {os.getloadavg()[0]:.1f}",
        f"imgfeed: commit {commit}, {version['go']}, batches of 256 NHWC, sets in the page cache, every record's checksum checked at every read",
        *([f"peer: {peers}"] if peers else []),
        f"images: {count} JPEG files, each packed {args.repeat} times; shorter side 256, bilinear",
        f"{args.rounds} alternating rounds of {args.seconds:g} s a cell, the median of each; rounds lie {100 * worst:.0f} % apart at most",
        f"each process had {100 * share:.0f} % of its core or more, by the median of its runs",
    ]


def parse() -> argparse.Namespace:
    p = arguments(__doc__)
    p.add_argument("--repeat", type=int, default=8, help="how often each image is packed")
    p.add_argument("--seconds", type=float, default=1.5, help="measured in each cell of each round")
    p.add_argument("--core", type=int, default=0, help="core to pin to")
    p.add_argument("--ffcv-python", default=sys.executable, help="a Python that has ffcv and torchvision")
    p.add_argument("--work", type=Path, help="keep the packed sets in this folder, and use those that are there (default: a temporary one)")
    p.add_argument("--json", type=Path, help="write the result here, for pixels_plot.py")
    return p.parse_args()


def main() -> None:
    args = parse()
    with contextlib.ExitStack() as stack:
        work = args.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="imgfeed-pixels-")))
        work.mkdir(parents=True, exist_ok=True)
        imgshard = programs(args, work)
        sets, files = pack(args.images, args.repeat, work, imgshard)
        rows = contenders(args, work, sets, files)
        measure([r for r, _ in rows], args.rounds)
        about = facts(args, len(files), [r for r, _ in rows])
    print(table(rows), "\n".join(f"- {f}" for f in about), sep="\n\n")
    if args.json:
        result = [{"name": r.name, "bytes": size, "rounds": r.figures} for r, size in rows]
        args.json.write_text(json.dumps({"facts": about, "rows": result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
