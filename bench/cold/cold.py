#!/usr/bin/env python3
"""Measure epochs of a set that is on the disk beside epochs of one that is in memory, and what fio reads, and print a table.

    python3 bench/cold/cold.py IMAGES > table.md

IMAGES is a folder of JPEG files, in class folders or not. Each is packed --repeat times, as original and as pixels (bitpack, resized to
256); --sets names a folder to keep the sets in, or to take them from. A row is a set, a number of threads and a case:

  disk       the set is put out of the page cache (posix_fadvise), which has room for it.
  limited    the same in a control group whose memory is limited to a quarter of the set.
  delayed    through a file system that answers a read after 2 ms (slowfs).
  throttled  in a control group whose reads are limited to --throttle bytes a second.

Its columns are images per second of a DataLoader that takes every batch and does nothing with it:

  cold       the first epoch of a server, or its first --seconds, after the set was put out of memory.
  next       the epoch after it, where the first came to its end.
  warm       an epoch of the set in memory, straight from the disk's files, whatever the case.
  fio        random reads of the records' mean size, directly, 32 at a time, from the same files in the same case: reads per second; the
             server has up to 64 under way.
  of lesser  cold over the lesser of warm and fio of the same round.
  verdict    what the server says that it waits for, in the middle of the cold epoch.

Each row is measured round after round, each of fio, a cold epoch, the next one and a warm one; figures are medians of the rounds. The last
three cases need root, for control groups (version 1 or 2) and a mount. What cannot be had here is left out, and said. Needs fio, Go, and a Python with numpy.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "bench" / "peers"))

from imgfeed import DataLoader
from run import build_go, processor

BATCH, SLOTS = 128, 4  # the rings are to fit a small limit
TRANSFORMS = {"jpeg": "train", "pixels": "train-resize"}
DELAY = "2ms"


class Group:
    """A control group of a program and its children, with limits; of version 1, or of 2 where there is no other."""

    MOUNT = Path("/sys/fs/cgroup")

    def __init__(self, controller: str, name: str, limits: dict[str, str]) -> None:
        old = (self.MOUNT / controller).is_dir()
        above = self.MOUNT / controller if old else self.MOUNT
        self.folder = above / name
        self.folder.mkdir(exist_ok=True)
        if not old:
            (above / "cgroup.subtree_control").write_text("+memory +io")
        for file, value in limits.items():
            if file.startswith(("memory.max", "io.")) != old:
                (self.folder / file).write_text(value)

    def command(self, command: list[str]) -> list[str]:
        """The command, for a process that enters the group first."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def close(self) -> None:
        for _ in range(100):  # the last program of it may still be ending
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.1)


def limited(data: Path) -> Group:
    quarter = str(sum(p.stat().st_size for p in shards(data)) // 4)
    return Group("memory", "imgfeed-cold", {"memory.limit_in_bytes": quarter, "memory.max": quarter})


def throttled(data: Path, rate: int) -> Group:
    disk = Path(f"/sys/dev/block/{os.major(data.stat().st_dev)}:{os.minor(data.stat().st_dev)}").resolve()
    number = ((disk.parent if (disk / "partition").exists() else disk) / "dev").read_text().strip()
    return Group("blkio", "imgfeed-cold", {"blkio.throttle.read_bps_device": f"{number} {rate}", "io.max": f"{number} rbps={rate}"})


@contextlib.contextmanager
def delayed(slowfs: Path, data: Path, work: Path) -> Iterator[tuple[Path, int]]:
    """Show the set through a file system with a delay; give the folder and the process."""
    mountpoint = work / "delayed"
    mountpoint.mkdir(exist_ok=True)
    process = subprocess.Popen([str(slowfs), "-delay", DELAY, str(data), str(mountpoint)])
    while not os.path.ismount(mountpoint):
        if process.poll() is not None:
            raise OSError("the file system with a delay did not start")
        time.sleep(0.01)
    try:
        yield mountpoint, process.pid
    finally:
        unmount(mountpoint, process)


def unmount(mountpoint: Path, process: subprocess.Popen[bytes]) -> None:
    """End a file system and its program; raise SystemExit if something uses it that does not end."""
    used = True
    for _ in range(100):  # the last program of it may still be ending
        if subprocess.run(["umount", str(mountpoint)], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            used = False
            break
        time.sleep(0.1)
    if used:
        subprocess.run(["umount", "--lazy", str(mountpoint)], check=False)
    process.kill()  # a container that began meanwhile may have a copy of the mount, with which it would go on
    process.wait()
    if used:
        raise SystemExit(f"cold.py: {mountpoint} was still in use after 10 s and was detached: what used it gets errors from now on")


def processor_seconds(pid: int) -> float:
    """What a process has computed."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def shards(data: Path) -> list[Path]:
    return sorted(data.rglob("*.imgshard"))


def into_memory(data: Path) -> None:
    for path in shards(data):
        with path.open("rb") as f:
            while f.read(1 << 24):
                pass


def out_of_memory(data: Path) -> None:
    for path in shards(data):
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


class Server:
    """`imgfeed serve` of a set, perhaps in a control group, and a loader of it."""

    def __init__(self, imgfeed: Path, data: Path, transform: str, threads: int, work: Path, group: Group | None) -> None:
        path = work / "imgfeed.sock"
        command = [str(imgfeed), "serve", str(data), "--socket", str(path), "--threads", str(threads), "--log-level", "error"]
        self._process = subprocess.Popen(group.command(command) if group else command, stdout=subprocess.DEVNULL)
        while not path.exists():
            if self._process.poll() is not None:
                raise SystemExit("cold.py: imgfeed serve did not start")
            time.sleep(0.01)
        self.loader = DataLoader(
            f"unix:{path}", batch_size=BATCH, transform=transform, shuffle=True, seed=0, slots=SLOTS, framework="numpy"
        )

    def epoch(self, number: int, seconds: float) -> tuple[float, str, bool]:
        """Take batches for an epoch, or for so long; return images per second, what the server waited for, and whether it ended."""
        self.loader.set_epoch(number)
        verdict, images, started = "", 0, time.perf_counter()
        elapsed = 0.0
        for _, labels in self.loader:
            images += len(labels)
            elapsed = time.perf_counter() - started
            if not verdict and (elapsed > seconds / 2 or images >= len(self.loader.dataset) * 3 // 4):
                verdict = self.loader.stats()["waiting_for"]
            if elapsed > seconds:
                break
        return images / elapsed, verdict, images == len(self.loader.dataset)

    def close(self) -> None:
        self.loader.close()
        self._process.terminate()
        self._process.wait()


def fio(data: Path, size: int, group: Group | None) -> float:
    """Reads of size bytes per second."""
    command = ["fio", "--name=cold", f"--filename={':'.join(map(str, shards(data)))}", "--rw=randread", f"--bs={size}", "--direct=1"]
    command += ["--ioengine=libaio", "--iodepth=32", "--time_based", "--runtime=2", "--readonly", "--output-format=json"]
    out = subprocess.run(group.command(command) if group else command, stdout=subprocess.PIPE, check=True).stdout
    return float(json.loads(out[out.index(b"{") :])["jobs"][0]["read"]["iops"])


class Measure:
    def __init__(self, args: argparse.Namespace, programs: dict[str, Path], work: Path) -> None:
        self.args, self.programs, self.work = args, programs, work
        self.slowfs = 0  # the process, while it runs
        self.taken: list[str] = []  # by it

    def rows(self, data: Path, case: str) -> None:
        """Measure a set in a case, on one thread and two, and print the rows."""
        group = None
        with contextlib.ExitStack() as stack:
            try:
                seen, self.slowfs = data, 0
                if case == "delayed":
                    seen, self.slowfs = stack.enter_context(delayed(self.programs["slowfs"], data, self.work))
                if case in ("limited", "throttled"):
                    group = limited(data) if case == "limited" else throttled(data, self.args.throttle)
                    stack.callback(group.close)
            except OSError as e:
                print(f"- {data.name}, {case}: left out: {e}", file=sys.stderr)
                return
            for threads in (1, 2):
                self.row(data, seen, case, threads, group)

    def row(self, data: Path, seen: Path, case: str, threads: int, group: Group | None) -> None:
        samples = json.loads((data / "manifest.json").read_text())["samples"]
        mean = sum(p.stat().st_size for p in shards(data)) // samples
        cold, following, warm, reads, verdicts, shares = [], [], [], [], [], []
        for _ in range(self.args.rounds):
            reads.append(fio(seen, -(-mean // 4096) * 4096, group))
            server = Server(self.programs["imgfeed"], seen, TRANSFORMS[data.name], threads, self.work, group)
            out_of_memory(seen)
            out_of_memory(data)
            started, computed = time.perf_counter(), processor_seconds(self.slowfs) if self.slowfs else 0
            rate, verdict, ended = server.epoch(0, self.args.seconds)
            if self.slowfs:
                shares.append((processor_seconds(self.slowfs) - computed) / (time.perf_counter() - started))
            cold.append(rate)
            verdicts.append(verdict)
            if ended:
                following.append(server.epoch(1, self.args.seconds)[0])
            server.close()
            warm.append(self.in_memory(data, threads))
        if shares:
            self.taken.append(f"{data.name} on {threads}: {statistics.median(shares):.2f}")
        then = f"{statistics.median(following):,.0f}" if following else "–"
        share = statistics.median(c / min(w, r) for c, w, r in zip(cold, warm, reads, strict=True))
        print(
            f"| {data.name} | {threads} | {case} | {statistics.median(cold):,.0f} | {then} | {statistics.median(warm):,.0f}"
            f" | {statistics.median(reads):,.0f} | {share:.2f} | {statistics.mode(verdicts)} |",
            flush=True,
        )

    def in_memory(self, data: Path, threads: int) -> float:
        """Images per second of an epoch of a set that is in memory, after one in which the server finds that out."""
        into_memory(data)
        server = Server(self.programs["imgfeed"], data, TRANSFORMS[data.name], threads, self.work, None)
        server.epoch(0, self.args.seconds)
        rate = server.epoch(1, self.args.seconds)[0]
        server.close()
        return rate


def pack(args: argparse.Namespace, folder: Path, imgshard: Path) -> None:
    """Make the sets that are not there."""
    if not (folder / "jpeg").exists():
        files = sorted(p.resolve() for p in args.images.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg") and p.is_file())
        if not files:
            raise SystemExit(f"cold.py: no .jpg or .jpeg files in {args.images}")
        with tempfile.TemporaryDirectory(dir=folder) as images:
            for i in range(args.repeat):
                below = Path(images) / f"class{i:03d}"
                below.mkdir()
                for number, path in enumerate(files):
                    (below / f"{number:07d}.jpg").symlink_to(path)
            subprocess.run([str(imgshard), "build", images, "-o", str(folder / "jpeg")], stdout=sys.stderr, check=True)
    if not (folder / "pixels").exists():
        subprocess.run([str(imgshard), "repack", str(folder / "jpeg"), "-o", str(folder / "pixels"), "--codec", "bitpack"], stdout=sys.stderr, check=True)
    os.sync()


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("images", type=Path)
    p.add_argument("--sets", type=Path, help="folder of the sets, on the disk that is measured (default one that is removed)")
    p.add_argument("--repeat", type=int, default=20, help="how often each image is packed (default 20)")
    p.add_argument("--rounds", type=int, default=3, help="of each row (default 3)")
    p.add_argument("--seconds", type=float, default=10, help="that an epoch is looked at, at most (default 10)")
    p.add_argument("--throttle", type=int, default=60_000_000, help="bytes a second of the throttled disk (default 60000000)")
    p.add_argument("--cases", nargs="+", default=["disk", "limited", "delayed", "throttled"], help="in this order")
    args = p.parse_args()
    with tempfile.TemporaryDirectory(dir=args.sets, prefix="cold-") as temporary:
        work = Path(temporary)
        programs = {}
        for name in ("imgfeed", "imgshard"):
            programs[name] = build_go(f"./cmd/{name}", work / name)
        programs["slowfs"] = build_go(".", work / "slowfs", Path(__file__).parent / "slowfs")
        folder = args.sets or work
        pack(args, folder, programs["imgshard"])
        print("| set | threads | case | cold | next | warm | fio | of lesser | verdict |")
        print("|---|--:|---|--:|--:|--:|--:|--:|---|")
        measure = Measure(args, programs, work)
        for case in args.cases:
            for name in ("jpeg", "pixels"):
                measure.rows(folder / name, case)
        print(f"\n- processor: {processor()}\n- system: Linux {os.uname().release}; load average at the end {os.getloadavg()[0]:.1f}")
        if measure.taken:
            print(f"- processors that the file system with a delay took itself: {', '.join(measure.taken)}")


if __name__ == "__main__":
    main()
