#!/usr/bin/env python3
"""Measure imgfeed beside its peers, in one run, on one core, on the same JPEG files, and print a table.

    python3 bench/peers/run.py IMAGES --python PYTHON > table.md

IMAGES is a folder of JPEG files, in class folders or not. They are packed with `imgshard build`; then, alternating, round
after round:

  imgfeed        `imgfeed bench --threads 1` at each level of kernels: read from the shard set, check the checksum,
                 decode, resize, write the batch; from a set of the files, and from one of the encoding coefficients
  libjpeg-turbo  bare decode of the whole image to RGB out of memory, by TurboJPEG (turbo.c, compiled here): the system's
                 release, and each of --turbojpeg
  Python's       what training programs use today, out of memory into a batch (loaders.py): torchvision on Pillow and on
                 tensors of torchvision.io and of torchcodec, simplejpeg, OpenCV, TensorFlow, SPDL, DALI, TurboLoader

Each process is pinned to one core. A figure is the median of the rounds, in images per second of CPU time; a ratio is the
median of each round's ratio to the bare decode that opened the same column of the same round. With --cores A,B imgfeed also
runs with two threads on both, and what that brings is said below the table.

Needs Go, a C compiler, libturbojpeg0-dev, and a Python with the peers (--python, which may be given several times, for peers
that cannot be installed beside each other): torchvision, torchcodec, simplejpeg, opencv-python-headless, tensorflow-cpu, spdl
(which wants the libraries of ffmpeg 4 to 7), nvidia-dali-cuda120, turboloader. --peers names the ones to run. What is missing is left out,
and standard error says so.

Another release of libjpeg-turbo is built as its BUILDING.md says, with cmake and nasm (apt install cmake nasm), and named by
the folder of its libturbojpeg.so.0:

    git clone --branch 3.2.0 https://github.com/libjpeg-turbo/libjpeg-turbo && mkdir build && cd build
    cmake -G"Unix Makefiles" ../libjpeg-turbo && make               # then --turbojpeg build
"""

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LEVELS = ("avx512", "avx2", "generic")
TRANSFORMS = ("eval", "train", "full")
TURBO = "libjpeg-turbo"  # how the names of its rows begin
PEERS = ("pillow", "tensors", "torchcodec", "simplejpeg", "opencv", "tensorflow", "spdl", "dali", "turboloader")  # of loaders.py
DECODERS = ("simplejpeg",)  # of these, those that only decode


@dataclass
class Contender:
    """A row of the table: how to run it for a transform, and what came out, in images per second by round."""

    name: str
    command: dict[str, list[str]]
    env: dict[str, str] = field(default_factory=dict)
    cores: tuple[int, ...] = ()
    figures: dict[str, list[float]] = field(default_factory=lambda: {t: [] for t in TRANSFORMS})
    ratios: dict[str, list[float]] = field(default_factory=lambda: {t: [] for t in TRANSFORMS})
    shares: list[float] = field(default_factory=list)  # CPU time over clock time, of each run
    versions: str = ""
    by_clock: dict[str, list[float]] = field(default_factory=dict)  # images per second of clock time, as figures

    def run(self, transform: str) -> float:
        """Return the images per second of CPU time of one run, pinned to the row's cores."""
        done = subprocess.run(
            self.command[transform],
            env={**os.environ, **self.env},
            preexec_fn=lambda: os.sched_setaffinity(0, self.cores),
            stdout=subprocess.PIPE,
            check=True,
        )
        result = json.loads(done.stdout)
        expected = self.env.get("IMGFEED_KERNELS")
        if expected and result["kernels"] != expected:
            raise RuntimeError(f"{self.name} ran the {result['kernels']} kernels")
        self.shares.append(result["cpu_seconds"] / result["seconds"] / len(self.cores))
        self.by_clock.setdefault(transform, []).append(result["images_per_second"])
        return float(result["images"] / result["cpu_seconds"])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def output(*command: str) -> str:
    """Return a command's output, or "" if it cannot be had."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def build_go(package: str, to: Path, module: Path = ROOT) -> Path:
    toolchain = next(line.split()[1] for line in (ROOT / "go.mod").read_text().splitlines() if line.startswith("toolchain "))
    env = {"GOEXPERIMENT": "simd", "GOTOOLCHAIN": toolchain, **os.environ, "CGO_ENABLED": "0"}
    subprocess.run(["go", "build", "-trimpath", "-o", str(to), package], cwd=module, env=env, check=True)
    return to


def build_turbo(to: Path) -> Path | None:
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-O2", "-o", str(to), str(HERE / "turbo.c"), "-lturbojpeg"]
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"LEFT OUT: libjpeg-turbo ({error}); install libturbojpeg0-dev and a C compiler")
        return None
    return to


def turbo_version(turbo: Path, env: dict[str, str]) -> str:
    """Return the release of the library that the program loads."""
    libraries = subprocess.run(["ldd", str(turbo)], env={**os.environ, **env}, capture_output=True, text=True, check=True).stdout
    path = re.search(r"libturbojpeg\S* => (\S+)", libraries)
    found = path and re.search(rb"libjpeg-turbo version ([0-9.]+)", Path(path[1]).read_bytes())
    return found[1].decode() if found else "of unknown version"


def pack(images: Path, work: Path, imgshard: Path) -> tuple[Path, list[Path]]:
    """Pack the JPEG files below images as one class, and return the set and the files that it holds."""
    files = sorted(p for p in images.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg") and p.is_file())
    if not files:
        raise SystemExit(f"run.py: no .jpg or .jpeg files in {images}")
    copies = []
    (work / "images" / "class").mkdir(parents=True)
    for i, path in enumerate(files):
        copies.append(work / "images" / "class" / f"{i:07d}.jpg")
        shutil.copyfile(path, copies[-1])
    data = work / "set"
    subprocess.run([str(imgshard), "build", str(work / "images"), "-o", str(data), "--force-classes"], stdout=sys.stderr, check=True)
    repack = [str(imgshard), "repack", str(data), "-o", str(work / "coefficients"), "--encoding", "coefficients"]
    subprocess.run(repack, stdout=sys.stderr, check=True)
    rejects = data / "rejects.jsonl"
    if rejects.exists():
        rejected = rejects.read_text()
        say(f"left out by imgshard build:\n{rejected}")
        copies = [c for c in copies if c.name not in rejected]
    return data, copies


def resampler(python: str) -> str:
    """Return the resampler that gives the bits of a Python's Pillow; the default where there is none."""
    version = output(python, "-c", "import PIL; print(PIL.__version__)")
    return "pillow-12" if version and int(version.split(".")[0]) < 13 else "pillow-13"


def find_peer(pythons: list[str], peer: str) -> dict[str, str] | None:
    """Return the title and versions of a peer, and the first Python that can run it."""
    for python in pythons:
        if about := output(python, str(HERE / "loaders.py"), peer):
            return {**json.loads(about.splitlines()[-1]), "python": python}
    return None


def contenders(args: argparse.Namespace, work: Path, data: Path, listing: Path) -> list[Contender]:
    """Return the rows, the bare decode first."""
    one, seconds = (args.cores[0],), str(args.seconds)
    rows = []
    if turbo := build_turbo(work / "turbo"):
        for folder in (None, *args.turbojpeg):
            env = {} if folder is None else {"LD_LIBRARY_PATH": str(folder.resolve())}
            name = f"{TURBO} {turbo_version(turbo, env)}, bare decode to RGB"
            measured = TRANSFORMS if folder is None else ("full",)
            rows.append(Contender(name, {t: [str(turbo), str(listing), seconds] for t in measured}, env, one))

    def bench(threads: int, stored: Path = data) -> dict[str, list[str]]:
        base = [str(args.imgfeed), "bench", str(stored), "--threads", str(threads), "--seconds", seconds, "--json"]
        base += ["--resampler", resampler(args.python[0])]
        return {t: [*base, "--transform", t] for t in TRANSFORMS}

    highest = json.loads(output(str(args.imgfeed), "version", "--json"))["kernels"]
    for level in LEVELS[LEVELS.index(highest) :]:
        rows.append(Contender(f"imgfeed, {level}", bench(1), {"IMGFEED_KERNELS": level}, one))
    for level in LEVELS[LEVELS.index(highest) : -1]:
        rows.append(Contender(f"imgfeed, `coefficients`, {level}", bench(1, work / "coefficients"), {"IMGFEED_KERNELS": level}, one))
    if len(args.cores) > 1:
        two = tuple(args.cores[:2])
        rows.append(Contender(f"imgfeed, {highest}, two threads on two cores", bench(2), {"IMGFEED_KERNELS": highest}, two))
    for peer in args.peers:
        about = find_peer(args.python, peer)
        if not about:
            say(f"LEFT OUT: {peer} (none of {', '.join(args.python)} can run it; see --python)")
            continue
        command = [about["python"], str(HERE / "loaders.py"), peer, str(listing), seconds]
        measured = ("full",) if peer in DECODERS else TRANSFORMS
        rows.append(Contender(about["title"], {t: [*command, t] for t in measured}, cores=one, versions=about["versions"]))
    return rows


def measure(rows: list[Contender], rounds: int) -> None:
    """Run all rows round after round; the order of those after the bare decode rotates."""
    baseline, others = (rows[0], rows[1:]) if rows[0].name.startswith(TURBO) else (None, rows)
    for number in range(rounds):
        turn = number % len(others)
        for transform in TRANSFORMS:
            base = baseline.run(transform) if baseline else 0.0
            if baseline:
                baseline.figures[transform].append(base)
            for row in others[turn:] + others[:turn]:
                if transform not in row.command:
                    continue
                figure = row.run(transform)
                row.figures[transform].append(figure)
                if base:
                    row.ratios[transform].append(figure / base)
            say(f"round {number + 1} of {rounds}: {transform} done")


def table(rows: list[Contender]) -> str:
    lines = [
        "| images per second per core | eval | × bare decode | train | × bare decode | full decode | × bare decode |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        if len(row.cores) > 1:
            continue
        cells = [row.name]
        for transform in TRANSFORMS:
            figures, ratios = row.figures[transform], row.ratios[transform]
            if row is rows[0] and row.name.startswith(TURBO):
                figures, ratios = (row.figures["full"], [1.0]) if transform == "full" else ([], [])
            cells.append(f"{statistics.median(figures):,.0f}" if figures else "–")
            cells.append(f"{statistics.median(ratios):.2f}" if ratios else "–")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spread(rows: list[Contender]) -> str:
    """Say how far rounds lie apart: the largest of (max - min) / median over rows."""
    worst = max(
        ((max(f) - min(f)) / statistics.median(f), f"{row.name}, {t}")
        for row in rows
        for t, f in row.figures.items()
        if f
    )
    return f"{100 * worst[0]:.0f} % at most ({worst[1]})"


def idle(rows: list[Contender]) -> str:
    """Say whether the cores were ours: each row keeps its cores busy, unless something else runs on them."""
    share = min(statistics.median(row.shares) for row in rows)
    if share > 0.95:
        return f"- the processes had their cores for {100 * share:.0f} % of the time at least"
    say(f"WARNING: other programs took part of the cores ({100 * share:.0f} % left for a row): measure again when they rest")
    return f"- **not to be relied on**: other programs were running, and left a row {100 * share:.0f} % of its core's time"


def scaling(rows: list[Contender]) -> str:
    """Two threads over one, for the highest level."""
    two = next((r for r in rows if "two threads" in r.name), None)
    one = next((r for r in rows if two and r.name == two.name.split(", two")[0]), None)
    if not two or not one:
        return ""
    ratios = [
        f"{t} {statistics.median(b / a for a, b in zip(one.by_clock[t], two.by_clock[t], strict=True)):.2f}"
        for t in TRANSFORMS
    ]
    return "- two threads over one, by the clock: " + ", ".join(ratios)


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = {}
    for line in lines:
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    ident = f"family {facts.get('cpu family', '?')}, model {facts.get('model', '?')}"
    return f"{facts.get('model name', platform.machine())} ({ident}), {os.cpu_count()} cores visible"


def facts(args: argparse.Namespace, files: list[Path], rows: list[Contender]) -> str:
    mean = statistics.mean(f.stat().st_size for f in files) / 1000
    version = json.loads(output(str(args.imgfeed), "version", "--json"))
    commit = output("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD") or "unknown"
    dirty = ", with changes not committed" if output("git", "-C", str(ROOT), "status", "--porcelain", "-uno") else ""
    compiler = output(os.environ.get("CC", "cc"), "--version").partition("\n")[0] or "no compiler"
    peers = "; ".join(row.versions for row in rows if row.versions)
    lines = [
        f"- processor: {processor()}",
        f"- system: {platform.system()} {platform.release()}; each process on core {args.cores[0]}",
        f"- imgfeed: commit {commit}{dirty}, {version['go']}, batches of 256 NHWC, shard set in the page cache",
        f"- resampler of imgfeed: {resampler(args.python[0])}",
        f"- peers: libjpeg-turbo by TurboJPEG, called from C by {compiler}" + (f"; {peers}" if peers else ""),
        f"- images: {len(files)} JPEG files, {mean:.0f} KB on average",
        f"- {args.rounds} alternating rounds of {args.seconds:g} s a cell, medians; rounds are {spread(rows)} apart",
        idle(rows),
        scaling(rows),
    ]
    return "\n".join(line for line in lines if line)


def arguments(about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the arguments that the benchmarks of this folder share."""
    p = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("images", type=Path, help="folder of JPEG files")
    p.add_argument("--imgfeed", type=Path, help="binary (default: built from this checkout)")
    p.add_argument("--imgshard", type=Path, help="binary (default: built from this checkout)")
    p.add_argument("--rounds", type=int, default=5)
    return p


def programs(args: argparse.Namespace, work: Path) -> Path:
    """Have args name imgfeed, and return imgshard: those given, or built from this checkout."""
    args.imgfeed = (args.imgfeed or build_go("./cmd/imgfeed", work / "imgfeed")).resolve()
    return (args.imgshard or build_go("./cmd/imgshard", work / "imgshard")).absolute()  # resolved it would be imgfeed


def parse() -> argparse.Namespace:
    p = arguments(__doc__)
    p.add_argument("--seconds", type=float, default=2, help="measured in each cell of each round")
    p.add_argument("--cores", default="0", help="core to pin to; two, as 0,1, also measure two threads")
    p.add_argument("--turbojpeg", type=Path, action="append", default=[], help="folder of another libturbojpeg.so.0 to measure")
    p.add_argument("--peers", type=lambda s: s.split(","), default=PEERS, help="of Python's, as pillow,torchcodec (default: all)")
    p.add_argument("--python", action="append", help="a Python that has peers; several times for several (default: this one)")
    args = p.parse_args()
    args.python = args.python or [sys.executable]
    args.cores = [int(c) for c in args.cores.split(",")]
    return args


def main() -> None:
    args = parse()
    with tempfile.TemporaryDirectory(prefix="imgfeed-peers-") as folder:
        work = Path(folder)
        imgshard = programs(args, work)
        data, files = pack(args.images, work, imgshard)
        listing = work / "list.txt"
        listing.write_text("".join(f"{f}\n" for f in files))
        rows = contenders(args, work, data, listing)
        measure(rows, args.rounds)
        print(table(rows), facts(args, files, rows), sep="\n\n")


if __name__ == "__main__":
    main()
