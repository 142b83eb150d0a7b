#!/usr/bin/env python3
"""Measure what a second thread brings, and what the way into Python costs, on two cores, and print two tables.

    python3 bench/peers/scaling.py IMAGES --cores 0,1 > tables.md

IMAGES is a folder of JPEG files, in class folders or not. Each is packed --repeat times, as original and as pixels (bitpack, resized
to 256), so that the sets are far larger than the caches and their epochs long enough. Then, alternating, round after round:

  one thread     `imgfeed bench --threads 1`: all that serving does, without a client; pinned to one core.
  two threads    the same with `--threads 2`, on both cores.
  two processes  two of the first at the same time, each pinned to a core of its own: what the machine gives to programs that
                 share nothing but its memory.
  DataLoader     `imgfeed serve` with one thread and with two, and a process of Python that takes every batch of 256 out of
                 shared memory (dataloader.py); both processes on both cores.

A sample costs more when a process reads it for the first time: the system then maps its pages. Sets of pixels are so fast that two
threads are through with that sooner than one; there every process works --warm-up seconds before it is measured, more than a pass
over the set takes. With original no pass is ever complete, and the share of first times is the same in all cells.

The client has no core of its own: what it uses is missing from the second thread, so that two threads can bring at most
2 / (1 + c), where c is the client's CPU time over the server's. A figure is the median of the rounds, a ratio that of each round's
ratio. By CPU time means: images for each second of CPU time, of all threads, times two, over those of one thread; below 2 the
threads hinder each other, and where it is 2 and the ratio by the clock is not, they stood still or had not both cores.

Needs Go, and a Python with numpy (--python); torch is used if that has it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import run
from cores import Others
from run import arguments, output, processor, programs, say

ENGINE = (("original", "eval"), ("original", "train"), ("original", "full"), ("pixels", "eval"), ("pixels", "train-resize"), ("pixels", "train"))
CLIENT = (("original", "eval"), ("pixels", "eval"), ("pixels", "train-resize"), ("pixels", "train"))
QUIET = 0.02  # the share of the cores that other programs may take before the table says so


@dataclass
class Way:
    """What one way of serving a set gave, by round."""

    rates: list[float] = field(default_factory=list)  # images per second of clock time
    cpu_rates: list[float] = field(default_factory=list)  # images per second of CPU time, of the server where there is a client
    shares: list[float] = field(default_factory=list)  # the client's CPU time over the server's
    batch: list[float] = field(default_factory=list)  # the client's CPU seconds for a batch
    others: list[float] = field(default_factory=list)  # of the cores, taken by other programs

    def rate(self) -> str:
        return f"{statistics.median(self.rates):,.0f}"

    def over(self, one: "Way") -> str:
        return f"{statistics.median(b / a for a, b in zip(one.rates, self.rates, strict=True)):.2f}"

    def over_by_cpu(self, one: "Way") -> str:
        return f"{statistics.median(2 * b / a for a, b in zip(one.cpu_rates, self.cpu_rates, strict=True)):.2f}"


def pack(args: argparse.Namespace, work: Path, imgshard: Path) -> tuple[dict[str, Path], int]:
    """Pack the JPEG files below the folder, and return the sets by encoding, and the number of files."""
    files = sorted(p.resolve() for p in args.images.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg") and p.is_file())
    if not files:
        raise SystemExit(f"scaling.py: no .jpg or .jpeg files in {args.images}")
    for i in range(args.repeat):
        folder = work / "images" / f"class{i:03d}"
        folder.mkdir(parents=True)
        for number, path in enumerate(files):
            (folder / f"{number:07d}.jpg").symlink_to(path)
    sets = {"original": work / "original", "pixels": work / "pixels"}
    for command in (
        ["build", str(work / "images"), "-o", str(sets["original"])],
        ["repack", str(sets["original"]), "-o", str(sets["pixels"]), "--codec", "bitpack"],
    ):
        subprocess.run([str(imgshard), *command], stdout=sys.stderr, check=True)
    os.sync()  # else the system writes the sets while the first cells are measured
    return sets, len(files)


def pinned(cores: Collection[int], command: list[str]) -> list[str]:
    return ["taskset", "-c", ",".join(map(str, sorted(cores))), *command]


def into_memory(folder: Path) -> None:
    """Read a set once, so that it is in the page cache."""
    for path in folder.rglob("*.imgshard"):
        with path.open("rb") as f:
            while f.read(1 << 24):
                pass


class Bench:
    """`imgfeed bench` of one set and transform."""

    def __init__(self, args: argparse.Namespace, data: Path, transform: str) -> None:
        self._command = [str(args.imgfeed), "bench", str(data), "--transform", transform, "--seconds", str(args.seconds), "--json"]
        if data.name == "pixels":
            self._command += ["--warm-up", str(args.warm_up)]

    def _start(self, threads: int, cores: set[int]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(pinned(cores, [*self._command, "--threads", str(threads)]), stdout=subprocess.PIPE)

    def run(self, way: Way, threads: int, *each: set[int]) -> None:
        """Run a process on each set of cores, all at the same time, and add up what they did."""
        others, before = Others(set().union(*each)), os.times()
        results = [json.loads(p.communicate()[0]) for p in [self._start(threads, cores) for cores in each]]
        after = os.times()
        own = after.children_user + after.children_system - before.children_user - before.children_system
        way.others.append(others.share(own))
        way.rates.append(sum(r["images_per_second"] for r in results))
        way.cpu_rates.append(sum(r["images"] for r in results) / sum(r["cpu_seconds"] for r in results))


class Feed:
    """A server with some threads and a DataLoader that takes its batches, both on the same cores."""

    def __init__(self, args: argparse.Namespace, work: Path, data: Path, transform: str, threads: int) -> None:
        path = work / f"{threads}.sock"
        command = [str(args.imgfeed), "serve", str(data), "--socket", str(path), "--threads", str(threads), "--log-level", "error"]
        self._server = subprocess.Popen(pinned(args.cores, command), stdout=subprocess.DEVNULL)  # taskset becomes the server
        while not path.exists():
            if self._server.poll() is not None:
                raise SystemExit("scaling.py: imgfeed serve did not start")
            time.sleep(0.01)
        script = [args.python, str(run.HERE / "dataloader.py"), str(path), transform, "--server-pid", str(self._server.pid)]
        env = {**os.environ, "PYTHONPATH": str(run.ROOT / "python")}
        self._client = subprocess.Popen(
            pinned(args.cores, script), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, way: Way | None, seconds: float) -> None:
        assert self._client.stdin is not None and self._client.stdout is not None
        print(seconds, file=self._client.stdin, flush=True)
        line = self._client.stdout.readline()
        if not line:
            raise SystemExit("scaling.py: the client ended")
        r = json.loads(line)
        if way is not None:
            way.rates.append(r["images"] / r["seconds"])
            way.cpu_rates.append(r["images"] / r["server_seconds"])
            way.shares.append(r["client_seconds"] / r["server_seconds"])
            way.batch.append(r["client_seconds"] / r["batches"])
            way.others.append(r["others"])

    def close(self) -> None:
        assert self._client.stdin is not None
        self._client.stdin.close()
        self._client.wait()
        self._server.terminate()
        self._server.wait()


def measure_engine(args: argparse.Namespace, sets: dict[str, Path]) -> dict[tuple[str, str], list[Way]]:
    """Return one thread, two threads and two processes of each row."""
    first, second = ({c} for c in args.cores)
    both = first | second
    ways = {row: [Way(), Way(), Way()] for row in ENGINE}
    for number in range(args.rounds):
        for encoding, transform in ENGINE:
            into_memory(sets[encoding])
            bench = Bench(args, sets[encoding], transform)
            one, two, processes = ways[encoding, transform]
            cells = [
                lambda b=bench, w=one: b.run(w, 1, first),
                lambda b=bench, w=two: b.run(w, 2, both),
                lambda b=bench, w=processes: b.run(w, 1, first, second),
            ]
            turn = number % len(cells)
            for cell in cells[turn:] + cells[:turn]:
                cell()
        say(f"engine: round {number + 1} of {args.rounds} done")
    return ways


def measure_client(args: argparse.Namespace, sets: dict[str, Path], work: Path) -> dict[tuple[str, str], list[Way]]:
    """Return one thread and two threads of each row."""
    ways = {row: [Way(), Way()] for row in CLIENT}
    for encoding, transform in CLIENT:
        feeds = [Feed(args, work, sets[encoding], transform, threads) for threads in (1, 2)]
        into_memory(sets[encoding])
        for feed in feeds:
            feed.run(None, max(args.seconds, args.warm_up))  # the first time touches the ring's pages, and the set's
        for number in range(2 * args.rounds):  # these are quick: nothing has to start
            for i in (0, 1) if number % 2 else (1, 0):
                feeds[i].run(ways[encoding, transform][i], args.seconds)
        for feed in feeds:
            feed.close()
        say(f"client: {encoding} {transform} done")
    return ways


def engine_table(ways: dict[tuple[str, str], list[Way]]) -> str:
    lines = [
        "| images/s | one thread | two threads | ratio | by CPU time | two processes | ratio | by CPU time |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (encoding, transform), (one, two, both) in ways.items():
        name = f"`{encoding}`, {'full decode' if transform == 'full' else transform}"
        pairs = [cell for w in (two, both) for cell in (w.rate(), w.over(one), w.over_by_cpu(one))]
        lines.append("| " + " | ".join([name, one.rate(), *pairs]) + " |")
    return "\n".join(lines)


def client_table(ways: dict[tuple[str, str], list[Way]]) -> str:
    lines = [
        "| images/s into Python | one thread | client, of the server's CPU time | two threads | client | ratio | by CPU time | client, µs a batch |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (encoding, transform), (one, two) in ways.items():
        share = [f"{100 * statistics.median(w.shares):.1f} %" for w in (one, two)]
        batch = " and ".join(f"{1e6 * statistics.median(w.batch):.0f}" for w in (one, two))
        cells = [f"`{encoding}`, {transform}", one.rate(), share[0], two.rate(), share[1], two.over(one), two.over_by_cpu(one), batch]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def quiet(ways: list[Way]) -> str:
    """Say what other programs took of the cores."""
    share = max(statistics.median(w.others) for w in ways)
    if share <= QUIET:
        return f"- other programs took {100 * share:.1f} % of the cores at most, by the median of a cell's rounds"
    say(f"WARNING: other programs took up to {100 * share:.0f} % of the cores: measure again when they rest")
    return f"- **not to be relied on**: other programs were running, and took up to {100 * share:.0f} % of the cores, by the median of a cell's rounds"


def facts(args: argparse.Namespace, count: int, ways: list[Way]) -> str:
    version = json.loads(output(str(args.imgfeed), "version", "--json"))
    commit = output("git", "-C", str(run.ROOT), "rev-parse", "--short=12", "HEAD") or "unknown"
    dirty = ", with changes not committed" if output("git", "-C", str(run.ROOT), "status", "--porcelain", "-uno") else ""
    about = "import platform, numpy; print(f'Python {platform.python_version()}, numpy {numpy.__version__}', end='')"
    torch = output(args.python, "-c", "import torch; print(f', torch {torch.__version__}', end='')")
    lines = [
        f"- processor: {processor()}, kernels {version['kernels']}",
        f"- system: {os.uname().sysname} {os.uname().release}; on cores {args.cores[0]} and {args.cores[1]}",
        f"- imgfeed: commit {commit}{dirty}, {version['go']}, batches of 256 NHWC, sets in the page cache",
        f"- client: {output(args.python, '-c', about)}{torch}",
        f"- images: {count} JPEG files, each packed {args.repeat} times; an epoch of the client's is a set once, its end counts",
        f"- {args.rounds} alternating rounds of {args.seconds:g} s a cell, {2 * args.rounds} of the client's, medians",
        quiet(ways),
    ]
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    p = arguments(__doc__)
    p.add_argument("--repeat", type=int, default=40, help="how often each image is packed")
    p.add_argument("--seconds", type=float, default=0.8, help="measured in each cell of each round")
    p.add_argument("--warm-up", type=float, default=3.0, help="seconds before each of these, with sets of pixels")
    p.add_argument("--cores", default="0,1", help="the two cores to use")
    p.add_argument("--python", default=sys.executable, help="a Python that has numpy, and torch or not")
    args = p.parse_args()
    if subprocess.run([args.python, "-c", "import numpy"], capture_output=True, check=False).returncode:
        p.error(f"{args.python} has no numpy, which the client needs: --python names another")
    args.cores = [int(c) for c in args.cores.split(",")]
    if len(set(args.cores)) != 2:
        p.error("--cores wants two cores, as 0,1")
    return args


def main() -> None:
    args = parse()
    with tempfile.TemporaryDirectory(prefix="imgfeed-scaling-") as folder:
        work = Path(folder)
        imgshard = programs(args, work)
        sets, count = pack(args, work, imgshard)
        client, engine = measure_client(args, sets, work), measure_engine(args, sets)
        ways = [w for row in (*engine.values(), *client.values()) for w in row]
        print(engine_table(engine), client_table(client), facts(args, count, ways), sep="\n\n")


if __name__ == "__main__":
    main()
