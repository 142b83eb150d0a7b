"""Measure how time and memory grow with a set's number of samples.

    make build && python3 bench/large/run.py WORK [--sizes 10000,100000,1280000] > table.md

This makes datasets of JPEGs of about 16 pixels, and every kind of set of them, and measures each kind at each size. The bucket is Versity's
gateway, which it installs, behind a proxy that delays each request by 10 ms. It takes 12 GB and 10 minutes on an idle machine, and needs
Go, tar and numpy. The memory of commands is the peak of their resident size, at least that of this program; servers have their own.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
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
    "the first batch": "first(load())",
    "`load_state_dict` in the middle": "first(resumed())",
    '`weights="balanced"`': 'first(load(weights="balanced"))',
    "`sampler=` a list": "first(load(shuffle=False, sampler=mixed().tolist()))",
}
PROLOGUE = """
import json, sys, time
import numpy as np
from imgfeed import DataLoader
SOCKET, SIZE = sys.argv[1], int(sys.argv[2])
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
def served(socket: Path, *data: str | Path) -> Iterator[tuple[int, float, int]]:
    """Serve a set; gives the server's pid once it answers, how long that took, and the most memory of its own meanwhile."""
    start = time.monotonic()
    with subprocess.Popen(
        [BIN / "imgfeed", "serve", *data, "--socket", socket, "--log-level", "error"],
        stdout=subprocess.DEVNULL,
    ) as server:
        with Watch(server.pid) as watch:
            while subprocess.run(
                [BIN / "imgfeed", "status", "--socket", socket],
                check=False,
                capture_output=True,
            ).returncode:
                if server.poll() is not None:
                    raise SystemExit("run.py: the server ended")
                time.sleep(0.02)
            took = time.monotonic() - start
        yield server.pid, took, watch.most
        server.terminate()


def client(code: str, folder: str, size: int) -> subprocess.CompletedProcess[str]:
    """Run the work of a row in a process of its own."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            PROLOGUE + code + EPILOGUE,
            f"unix:{folder}/socket",
            str(size),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        check=False,
        capture_output=True,
        text=True,
    )


def command(
    *args: str | Path, lines: int = -1, limit: float | None = None
) -> tuple[float, int]:
    """Run imgshard, up to that many lines of output or seconds; gives seconds and the most memory."""
    start = time.monotonic()
    process = subprocess.Popen(
        [BIN / "imgshard", *args],
        stdout=subprocess.PIPE if lines >= 0 else subprocess.DEVNULL,
    )
    if process.stdout:
        for _ in range(lines):
            process.stdout.readline()
        process.stdout.close()
    timer = threading.Timer(limit or 86400, process.send_signal, [signal.SIGINT])
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    timer.cancel()
    if status and lines < 0 and not limit:
        raise SystemExit(f"run.py: imgshard {args[0]} failed")
    return time.monotonic() - start, usage.ru_maxrss * 1024


GATEWAY = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
GATEWAY_PORT, PROXY_PORT = 7070, 7071


def dataset(work: Path, size: int) -> Path:
    """Make a folder with train/, of a thousand class folders, and train.tar."""
    raw = work / f"raw-{size}"
    if not raw.exists():
        command(
            "synth",
            raw,
            "--classes",
            "1000",
            "--train",
            str(size // 1000),
            "--val",
            "0",
            "--size",
            "16",
            "-q",
        )
        subprocess.run(["tar", "cf", raw / "train.tar", "-C", raw, "train"], check=True)
    return raw


def made(work: Path, size: int) -> Iterator[tuple[str, str]]:
    """Make the sets of a size; gives commands, and what each has taken."""
    raw, sets = dataset(work, size), work / f"buckets/samples-{size}"
    packed = ["build", raw / "train", "--shard-size", "4MiB", "-q", "--force", "-o"]
    parts = [*packed, sets / "merged", "--part"]
    for name, words in {
        "build": [*packed, sets / "packed"],
        "build --partitions 8": [*packed, sets / "dealt", "--partitions", "8"],
        "build --part 1/2": [*parts, "1/2"],
        "build --part 2/2": [*parts, "2/2"],
        "merge": ["merge", sets / "merged", "-q", "--force"],
        "index of files": [
            "index",
            raw / "train",
            "-q",
            "--force",
            "-o",
            sets / "files",
        ],
        "index of a tar": [
            "index",
            raw / "train.tar",
            "-q",
            "--force",
            "-o",
            sets / "tar",
        ],
    }.items():
        seconds, most = command(*words)
        yield name, f"{seconds:.2f} s, {most / 1e6:,.0f} MB"


def measured(data: list[str | Path], size: int) -> Iterator[tuple[str, str]]:
    """Measure one kind of set: what a server and its client do, and the commands that take one set."""
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder) / "socket", *data) as (pid, took, most),
    ):
        yield SERVING, f"{took:.2f} s, {most / 1e6:,.0f} MB"
        for name, code in CLIENT.items():
            with Watch(pid) as watch:
                done = client(code, folder, size * len(data))
            if done.returncode:
                raise SystemExit(f"run.py: {name}: {done.stderr}")
            seconds, own = json.loads(done.stdout)
            yield (
                name,
                f"{seconds:.2f} s, {own / 1e6:,.0f} + {watch.most / 1e6:,.0f} MB",
            )
    if len(data) > 1:
        return
    for name, how in {
        "imgshard ls, its first line": {"lines": 1},
        "imgshard inspect": {},
        "imgshard stats": {},
        "imgshard verify, up to 5 s": {"limit": 5},
    }.items():
        seconds, most = command(name.split()[1].rstrip(","), data[0], **how)
        yield name, f"{seconds:.2f} s, {most / 1e6:,.0f} MB"


async def proxy() -> None:
    """Hand requests on to the gateway, each piece 10 ms late, and answers back."""

    async def pump(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 18):
                await asyncio.sleep(delay)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", GATEWAY_PORT)
        await asyncio.gather(pump(reader, requests, 0.01), pump(answers, writer, 0))

    async with await asyncio.start_server(connected, "127.0.0.1", PROXY_PORT) as server:
        await server.serve_forever()


@contextlib.contextmanager
def gateway(work: Path) -> Iterator[None]:
    """Serve the folders in WORK/buckets as buckets, behind the proxy."""
    program = work.resolve() / "versitygw"
    if not program.exists():
        subprocess.run(
            [os.environ.get("GO", "go"), "install", GATEWAY],
            check=True,
            env={**os.environ, "GOBIN": program.parent, "GOEXPERIMENT": ""},
        )
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "large",
        "AWS_SECRET_ACCESS_KEY": "largesecret",
        "AWS_REGION": "us-east-1",
        "ROOT_ACCESS_KEY": "large",
    }
    os.environ |= {
        "ROOT_SECRET_KEY": "largesecret",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{PROXY_PORT}",
    }
    with subprocess.Popen(
        [program, "--port", f"127.0.0.1:{GATEWAY_PORT}", "posix", work / "buckets"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        threading.Thread(target=lambda: asyncio.run(proxy()), daemon=True).start()
        yield
        server.terminate()


def kinds(work: Path, sizes: list[int]) -> None:
    """Print the table of all kinds of sets."""
    table: dict[tuple[str, str], list[str]] = {}
    for size in sizes:
        sets = work / f"buckets/samples-{size}"
        sets.mkdir(parents=True, exist_ok=True)
        of: dict[str, list[str | Path]] = {
            "packed": [sets / "packed"],
            "8 partitions": [sets / "dealt"],
            "merged": [sets / "merged"],
            "index of files": [sets / "files"],
            "index of a tar": [sets / "tar"],
            "packed + merged": [sets / "packed", sets / "merged"],
            "packed, in a bucket": [f"s3://samples-{size}/packed"],
            "index of files, in a bucket": [f"s3://samples-{size}/files"],
        }
        rows = [("", *cells) for cells in made(work, size)]
        with gateway(work):
            rows += [
                (kind, *cells)
                for kind, data in of.items()
                for cells in measured(data, size)
            ]
        for kind, name, cell in rows:
            table.setdefault((kind, name), []).append(cell)
            print(f"{size}: {kind} {name}: {cell}", file=sys.stderr, flush=True)
    print(f"{processor()}; {', '.join(f'{size:,}' for size in sizes)} samples\n")
    print(
        f"| | | {' | '.join(f'{size:,}' for size in sizes)} |\n|---|---|{'--:|' * len(sizes)}"
    )
    for (kind, name), cells in table.items():
        print(f"| {kind} | {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--sizes", default="10000,100000,1280000")
    args = parser.parse_args()
    kinds(args.work, [int(size) for size in args.sizes.split(",")])


if __name__ == "__main__":
    main()
