"""Starts servers and trainers, does to them what the events say, and undoes it."""

import contextlib
import dataclasses
import heapq
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from imgfeed.programs import find_binary

from .events import Event, events
from .trainer import Book, Task

MARK = "IMGFEED_SOAK"  # in the environment of every process of a soak
DISK_BYTES = 8 << 20
ENDING = 30.0  # seconds that a process may take to end when it is asked to

#: A client that takes what it can get and gives nothing back.
GUEST = """
import itertools, sys, threading
from imgfeed import DataLoader
loader = DataLoader(sys.argv[1], 16, split="val", transform="eval", framework="numpy", slots=16)
def flood():
    while True: loader.stats()
for _ in range(2): threading.Thread(target=flood, daemon=True).start()
held = [batch for batch in iter(loader)]
threading.Event().wait()
"""


def tool(name: str, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one of the programs to its end."""
    return subprocess.run([find_binary(name), *map(str, arguments)], capture_output=True, text=True, check=check)


@dataclasses.dataclass
class Folders:
    """The folders of a soak."""

    root: Path

    def __post_init__(self) -> None:
        self.disk = self.root / "disk"  # a small one, which events fill
        self.temporary = self.disk / "tmp"
        self.sets = self.root / "sets"  # served, and damaged
        self.whole = self.root / "whole"  # the same, left alone
        self.books = self.root / "books"
        self.logs = self.root / "logs"
        for folder in (self.disk, self.books, self.logs):
            folder.mkdir(parents=True)

    def socket(self, server: str) -> Path:
        return self.disk / f"{server}.sock"

    def pack(self) -> None:
        raw = self.root / "raw"
        tool("imgshard", "synth", raw, "--classes", "5", "--train", "121", "--val", "23", "--size", "96", "--seed", "7")
        tool("imgshard", "build", raw / "train", "-o", self.whole / "train", "--split", "train", "--partitions", "2")
        tool("imgshard", "build", raw / "val", "-o", self.whole / "val", "--split", "val", "--encoding", "pixels")
        shutil.rmtree(raw)
        shutil.copytree(self.whole, self.sets)


class Director:
    """Runs a soak. What went wrong is in failures, what was done in done, and what could not be done in void."""

    def __init__(self, root: Path, seed: int) -> None:
        self.folders = Folders(root)
        self.seed = seed
        self.failures: list[str] = []
        self.done: Counter[str] = Counter()
        self.void: Counter[str] = Counter()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.down: set[str] = set()  # those that an event has ended, and will start again
        self.damaged: dict[str, Callable[[], None]] = {}  # sets, with what repairs them
        self.tasks = self._tasks()
        self._upgrades = 0
        self._begin = 0.0  # of the run, in time.monotonic()
        self._undo: list[tuple[float, int, Callable[[], None]]] = []  # a heap: when, in seconds from there, a number, and what
        self.mounted = self._mount()
        self.folders.temporary.mkdir()
        self.folders.pack()
        self.mark = {MARK: str(root)}
        path = os.pathsep.join(p for p in sys.path if p)
        self._env = {
            **os.environ,
            **self.mark,
            "XDG_RUNTIME_DIR": "",
            "TMPDIR": str(self.folders.temporary),
            "PYTHONPATH": path,
        }

    def _tasks(self) -> list[Task]:
        p = self.folders
        more = [("rank0", 0, 2, 11), ("rank1", 1, 2, 11), ("witness", 0, 1, 12)]
        sources = {"train": f"unix:{p.socket('feed')}", "val": f"unix:{p.socket('steady')}", "own": str(p.sets / "val")}
        return [
            Task(name, rank, world, seed, **sources, state=str(p.disk / f"{name}.json"), book=str(p.books / name))
            for name, rank, world, seed in more
        ]

    def _mount(self) -> bool:
        """Put a small file system of its own where the disk is; False where that is not allowed."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(self.folders.disk)]
        with contextlib.suppress(OSError):
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        return False

    def book(self, name: str) -> Book:
        return Book(self.folders.books / name)

    # Processes.

    def _start(self, name: str, command: list[str], log: Path | None = None) -> None:
        with (log or self.folders.logs / name).open("ab") as out:
            self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self._env)
        self.down.discard(name)

    def start_server(self, name: str) -> None:
        program = Path(find_binary())
        if self._upgrades % 2 and name == "feed":  # "another release", elsewhere and with other flags
            program = self.folders.root / "imgfeed-next"
            if not program.exists():
                shutil.copy2(find_binary(), program)
        threads = str(1 + self._upgrades % 2)
        flags = ["--socket", str(self.folders.socket(name)), "--threads", threads, "--memory", "256MiB", "--log-level", "warn"]
        self._start(name, [str(program), "serve", str(self.folders.sets), *flags])

    def start_trainer(self, name: str) -> None:
        task = next(task for task in self.tasks if task.name == name)
        self._start(name, [sys.executable, "-m", "soak.trainer", json.dumps(dataclasses.asdict(task))])

    def start(self, name: str) -> None:
        (self.start_server if name in ("feed", "steady") else self.start_trainer)(name)

    def _end(self, name: str, number: int = signal.SIGTERM) -> None:
        """End a process that may be gone, and say it if that takes too long or its status is another than is due."""
        process = self.processes[name]
        if process.poll() is None:
            process.send_signal(number)
        elif name in ("feed", "steady") and self.damaged:
            return  # it had nothing to serve
        # What it asks a server that is held is answered once that goes on.
        undone = max((self._begin + due for due, _, _ in self._undo), default=0.0)
        deadline = max(time.monotonic(), undone) + ENDING
        while process.poll() is None and time.monotonic() < deadline:
            self._undo_due()  # it may wait for what this undoes
            time.sleep(0.02)
        if process.poll() is None:
            self.failures.append(f"{name} did not end within {ENDING:g} s of signal {number}")
            if name not in ("feed", "steady"):
                process.send_signal(signal.SIGUSR1)  # where it is
                time.sleep(1)
            process.kill()
        status = process.wait()
        if status not in (0, -number):
            self.failures.append(f"{name} ended with status {status} on signal {number}")

    def supervise(self) -> None:
        """Start again what has ended by itself, as systemd would: only a server that had nothing whole to serve may."""
        for name, process in self.processes.items():
            status = process.poll()
            if name in self.down or status is None or name.endswith("guest"):
                continue
            if name in ("feed", "steady") and self.damaged:
                self.done[f"{name} had nothing to serve"] += 1
            else:
                self.failures.append(f"{name} ended with status {status}")
            self.start(name)

    # Events. Each method returns what undoes it, or None where there was nothing to do it to.

    def kill(self, event: Event) -> Callable[[], None] | None:
        return self._stop(event, signal.SIGKILL)

    def end(self, event: Event) -> Callable[[], None] | None:
        return self._stop(event, signal.SIGTERM)

    def _stop(self, event: Event, number: int) -> Callable[[], None] | None:
        if event.whom == "own":
            if (pid := self._own(event)) is None:
                return None
            os.kill(pid, number)
            return lambda: None
        self.down.add(event.whom)
        self._end(event.whom, number)
        return lambda: self.start(event.whom)

    def upgrade(self, event: Event) -> Callable[[], None] | None:
        self._upgrades += 1
        return self.end(event)

    def unlink(self, event: Event) -> Callable[[], None] | None:
        """Remove the socket under its server; then another server makes it anew."""
        socket = self.folders.socket(event.whom)
        self._until_there(socket)  # it may have been started a moment ago
        socket.unlink(missing_ok=True)

        def remake() -> None:
            self._end(event.whom)
            self.start(event.whom)

        return remake

    def _until_there(self, socket: Path) -> None:
        begin = time.monotonic()
        while not socket.exists() and time.monotonic() < begin + ENDING:
            time.sleep(0.05)

    def hold(self, event: Event) -> Callable[[], None] | None:
        pid = self._own(event) if event.whom == "own" else self.processes[event.whom].pid
        if pid is None or (event.whom != "own" and self.processes[event.whom].poll() is not None):
            return None
        os.kill(pid, signal.SIGSTOP)

        def go_on() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

        return go_on

    hang = hold

    def reload(self, event: Event) -> Callable[[], None] | None:
        self._reload(self.folders.socket(event.whom))
        return lambda: None

    def _reload(self, socket: Path) -> None:
        """Make a server reload its data; it may be down, held, or without a socket."""
        tool("imgfeed", "reload", "--socket", socket, "--timeout", "5s", check=False)

    def damage(self, event: Event) -> Callable[[], None] | None:
        """Damage a file of a set, in one of the ways in which files are damaged."""
        dice = random.Random(event.dice)
        files = sorted(p for p in (self.folders.sets / event.whom).rglob("*") if p.is_file())
        path = dice.choice(files)
        whole = path.read_bytes()
        how = dice.choice(("bytes", "cut", "away", "emptied"))
        if how == "bytes":
            at = dice.randrange(len(whole))
            with path.open("r+b") as f:
                f.seek(at)
                f.write(dice.randbytes(min(64, len(whole) - at)))
        elif how == "cut":
            os.truncate(path, dice.randrange(len(whole)))
        elif how == "away":
            path.unlink()
        else:
            os.truncate(path, 0)
        overwrite = dice.random() < 0.5

        def repair() -> None:
            new = path if overwrite else path.with_name("repaired")
            new.touch()
            with new.open("r+b") as f:
                f.write(whole)
            new.replace(path)
            del self.damaged[event.whom]
            for server in ("feed", "steady"):
                self._reload(self.folders.socket(server))
            for socket in self.folders.temporary.glob("imgfeed-*/imgfeed.sock.d/*"):  # of trainers, too
                self._reload(socket)

        self.damaged[event.whom] = repair
        return repair

    def fill(self, event: Event) -> Callable[[], None] | None:
        if not self.mounted:
            return None
        filler = self.folders.disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as f:
            while f.write(bytes(1 << 16)):
                pass
        return filler.unlink

    def guest(self, event: Event) -> Callable[[], None] | None:
        socket = self.folders.socket(event.whom.split()[0])
        self._start(event.whom, [sys.executable, "-c", GUEST, f"unix:{socket}"])

        def leave() -> None:
            guest = self.processes.pop(event.whom)
            if guest.poll() is not None:
                self.void[f"{event}, which ended by itself"] += 1
            guest.kill()
            guest.wait()

        return leave

    def _owned(self) -> list[int]:
        """Return the servers that trainers run for themselves."""
        owned = []
        for task in self.tasks:
            pid = self.processes[task.name].pid
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                owned += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return owned

    def _own(self, event: Event) -> int | None:
        """Return one of these."""
        owned = self._owned()
        return owned[int(event.dice * len(owned))] if owned else None

    # The run.

    def run(self, seconds: float, measure: Callable[["Director"], None]) -> float:
        """Start all; once every trainer has a batch let things happen for so long; undo what is left, and end all in order.

        Return the seconds in which things happened.
        """
        for name in ("feed", "steady", "rank0", "rank1", "witness"):
            self.start(name)
        while not all((self.folders.books / task.name / "train-000000").exists() for task in self.tasks):
            self.supervise()
            time.sleep(0.05)
        self._begin = time.monotonic()
        count = itertools.count()
        for event in events(self.seed):
            self._wait(min(event.at, seconds), measure)
            if event.at >= seconds:
                break
            undone = getattr(self, event.what)(event)
            self._log(event, undone)
            (self.done if undone else self.void)[str(event)] += 1
            if undone:
                heapq.heappush(self._undo, (event.at + event.lasts, next(count), undone))
        while self._undo:
            heapq.heappop(self._undo)[2]()
        measure(self)
        spent = time.monotonic() - self._begin
        for name in ("rank0", "rank1", "witness", "feed", "steady"):
            self._end(name)
        return spent

    def _log(self, event: Event, undone: object) -> None:
        with (self.folders.logs / "events").open("a") as f:
            f.write(f"{time.time():.2f} {event.at:.2f} {event}{'' if undone else ', to nothing'}, for {event.lasts:.2f} s\n")

    def _undo_due(self) -> None:
        while self._undo and self._begin + self._undo[0][0] <= time.monotonic():
            heapq.heappop(self._undo)[2]()

    def _wait(self, until: float, measure: Callable[["Director"], None]) -> None:
        """Look after all until so many seconds from the beginning."""
        while True:
            self._undo_due()
            measure(self)
            self.supervise()
            if (left := self._begin + until - time.monotonic()) <= 0:
                return
            time.sleep(min(left, 0.1))

    def close(self) -> None:
        """Leave nothing, whatever has happened."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        if self.mounted:
            subprocess.run(["umount", str(self.folders.disk)], check=False)
