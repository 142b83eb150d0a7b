"""How long everything takes that concerns a whole set, and how much memory, with a set of ImageNet-21k's 14,197,122 samples and 72,000 long names of classes.

    make build && python3 bench/large/run.py WORK [--samples 14197122] [--classes 72000] > table.md

WORK is a folder with room for 2.2 GB, where the set (main.go makes it, in a minute or two, of pictures of 8 × 8 pixels) is left for the next run. It is read once
before anything is timed, so that what is measured is work and not the disk. Each row of Python is a process of its own, and the server is the same for all of them: the time is from after
`import imgfeed` on, memory is what the client's process had at most more than after that import, and what the server had at most of its own (not of the index,
which is page cache). Needs numpy, and torch where it is installed. About five minutes on an idle machine with two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "bin"
sys.path.insert(0, str(ROOT / "bench/peers"))
from run import processor

# The work of a row, in Python. SIZE is the number of samples; load() makes a loader of the server.
CLIENT = {
    "a loader, and its `len`": "len(load())",
    "`dataset.targets`": "assert len(load().dataset.targets) == SIZE",
    "`dataset.classes`": "assert len(load().dataset.classes) > 1",
    "the first batch": "first(load())",
    "the first batch of the set's order": "first(load(shuffle=False))",
    "a thousand batches": "loader = load(); iterator = iter(loader); [next(iterator) for _ in range(1000)]",
    "`subset=0.1`": "first(load(subset=0.1))",
    "`subset=` a thousand classes": "first(load(subset=names(1000)))",
    "`weights=` float64 by sample": "first(load(weights=np.linspace(0, 1, SIZE)))",
    "`weights=` a list by sample": "first(load(weights=[1.0, 2.0] * (SIZE // 2) + [3.0] * (SIZE % 2)))",
    '`weights="balanced"`': 'first(load(weights="balanced"))',
    "`order=` int64": "first(load(shuffle=False, order=mixed()))",
    "`order=` a function": "first(load(shuffle=False, order=lambda epoch: mixed()))",
    "`sampler=` a list": "first(load(shuffle=False, sampler=mixed().tolist()))",
    "`skip(50_000)`": "loader = load(); loader.skip(50_000); first(loader)",
    "`load_state_dict` in the middle": "first(resumed())",
    "`load_state_dict` in the middle, with `order=`": "first(resumed(shuffle=False, order=mixed()))",
    "`loader.sampler`'s order, gone through": "assert sum(1 for _ in load().sampler) == SIZE",
    "`dataset.key` of a hundred": "d = load().dataset; [d.key(i * (SIZE // 100)) for i in range(100)]",
}
WITH_TORCH = {
    "`order=` torch's int64": "import torch; order = torch.from_numpy(mixed()); begin(); first(load(shuffle=False, order=order))",
    "`weights=` torch's float64": "import torch; w = torch.ones(SIZE, dtype=torch.float64); begin(); first(load(weights=w))",
    "`sampler=` torch's RandomSampler": (
        "from torch.utils.data import RandomSampler; begin(); first(load(shuffle=False, sampler=RandomSampler(range(SIZE))))"
    ),
}
PROLOGUE = """
import json, sys, time
import numpy as np
from imgfeed import DataLoader
SOCKET, SIZE, CLASSES = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def peak():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
def begin():
    global start, before
    start, before = time.monotonic(), peak()
def load(**options):
    options = {"shuffle": True, "seed": 0, "transform": [{"op": "CenterCrop", "size": 8}], "framework": "numpy", **options}
    return DataLoader(SOCKET, 256, **options)
def first(loader):
    return next(iter(loader))
def names(count):
    return load().dataset.classes[:: CLASSES // count][:count]
def mixed():
    return np.arange(SIZE - 1, -1, -1)
def resumed(**options):
    loader = load(**options)
    state = {**loader.state_dict(), "consumed": SIZE // 512 * 256}
    loader.load_state_dict(state)
    return loader
begin()
"""
EPILOGUE = "\nprint(json.dumps([time.monotonic() - start, peak() - before]))\n"
SERVING = "serve SET, until it answers"


def status(pid: int, name: str) -> int:
    """Return what /proc tells of a process's memory, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


class Watch:
    """The most memory of its own that a process has while this is entered."""

    def __init__(self, pid: int) -> None:
        self.pid, self.most, self._over = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                self.most = max(self.most, status(self.pid, "RssAnon"))
            if self._over.wait(0.01):
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@contextlib.contextmanager
def served(data: Path, socket: Path) -> Iterator[int]:
    """Serve a set; gives the server's pid once it answers."""
    start = time.monotonic()
    with subprocess.Popen(
        [BIN / "imgfeed", "serve", data, "--socket", socket, "--log-level", "error"],
        stdout=subprocess.DEVNULL,
    ) as server:
        with Watch(server.pid) as watch:
            while subprocess.run([BIN / "imgfeed", "status", "--socket", socket], check=False, capture_output=True).returncode:
                if server.poll() is not None:
                    raise SystemExit("run.py: the server ended")
                time.sleep(0.02)
            took = time.monotonic() - start
        row(SERVING, took, None, watch.most)
        yield server.pid
        server.terminate()


def row(name: str, seconds: float, client: int | None, server: int | None) -> None:
    cells = ["" if b is None else f"{b / 1e6:,.0f}" for b in (client, server)]
    print(f"| {name} | {seconds:.2f} | {' | '.join(cells)} |", flush=True)


def command(name: str, *args: str | Path) -> None:
    """Run imgshard and print its row."""
    start = time.monotonic()
    process = subprocess.Popen([BIN / "imgshard", *args], stdout=subprocess.DEVNULL)
    with Watch(process.pid) as watch:
        code = process.wait()
    if code:
        raise SystemExit(f"run.py: imgshard {name} failed")
    row(f"imgshard {name}", time.monotonic() - start, None, watch.most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--samples", type=int, default=14_197_122)
    parser.add_argument("--classes", type=int, default=72_000)
    parser.add_argument("--only", default="", help="only rows whose names contain this")
    args = parser.parse_args()
    data = args.work / f"large-{args.samples}-{args.classes}"
    args.work.mkdir(parents=True, exist_ok=True)
    if not data.exists():
        subprocess.run(
            [
                os.environ.get("GO", "go"),
                "run",
                "./bench/large",
                data.resolve(),
                "-samples",
                str(args.samples),
                "-classes",
                str(args.classes),
            ],
            cwd=ROOT,
            env={**os.environ, "CGO_ENABLED": "0"},
            check=True,
        )
    for path in data.rglob("*.imgshard"):
        path.read_bytes()
    print(f"{args.samples:,} samples, {args.classes:,} classes; {processor()}; Python {platform.python_version()}\n")
    print("| | s | client, MB | server's own, MB |\n|---|--:|--:|--:|")
    with (
        tempfile.TemporaryDirectory() as folder,
        served(data, Path(folder) / "socket") as pid,
    ):
        rows = dict(CLIENT)
        if not subprocess.run([sys.executable, "-c", "import torch"], check=False, capture_output=True).returncode:
            rows |= WITH_TORCH
        for name, code in rows.items():
            if args.only not in name:
                continue
            with Watch(pid) as watch:
                done = subprocess.run(
                    [
                        sys.executable,
                        "-c",
                        PROLOGUE + code + EPILOGUE,
                        f"unix:{folder}/socket",
                        str(args.samples),
                        str(args.classes),
                    ],
                    env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
                    check=False,
                    capture_output=True,
                    text=True,
                )
            if done.returncode:
                print(
                    f"| {name} | failed: {done.stderr.strip().splitlines()[-1]} | | |",
                    flush=True,
                )
                continue
            row(name, *json.loads(done.stdout), watch.most)
    if args.only not in "imgshard":
        return
    line = subprocess.run(
        [BIN / "imgshard", "ls", data, str(args.samples // 2)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    key = line.split("\t")[1]
    command("ls SET KEY", "ls", data, key)
    command("cat SET KEY", "cat", data, key)
    command("inspect SET", "inspect", data)
    command("view SET", "view", data, "-o", "-")
    command("stats SET", "stats", data)
    command("ls SET", "ls", data)
    command("verify SET", "verify", data)


if __name__ == "__main__":
    main()
