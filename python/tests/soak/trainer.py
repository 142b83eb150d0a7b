"""A loop like a training's: epochs from one server, evaluations from others, a state every few batches, and no model.

It notes the index of every sample with a hash of its pixels and label. What follows its last state it forgets when it is
started again, as a training forgets what its last checkpoint does not hold.
"""

import contextlib
import dataclasses
import errno
import faulthandler
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from imgfeed import DataLoader, errors

ROW = np.dtype([("index", "<u4"), ("hash", "<u8")])
SAVE_EVERY = 5  # batches
PATIENCE = 90.0  # seconds in which data are damaged, or a disk is full, until the trainer gives up

COMMON: dict[str, Any] = {"framework": "numpy", "with_index": True}
TRAINING: dict[str, Any] = {
    **COMMON,
    "split": "train",
    "transform": [{"op": "RandomResizedCrop", "size": 32}, {"op": "RandomHorizontalFlip"}],
    "shuffle": True,
    "batch_size": 8,
}
EVALUATION: dict[str, Any] = {
    **COMMON,
    "split": "val",
    "transform": [{"op": "Resize", "size": 256}, {"op": "CenterCrop", "size": 32}],
    "even_batches": False,
    "batch_size": 16,
}


@dataclasses.dataclass(frozen=True)
class Task:
    """What a trainer does, and where it keeps what."""

    name: str
    rank: int
    world: int
    seed: int
    train: str  # what a loader takes
    val: str
    own: str  # the folder of the set val, for a server of the trainer's own
    state: str  # a file
    book: str  # a folder
    timeout: float = 1.0  # seconds, after which it looks whether it was asked to end

    def training(self, data: str) -> DataLoader:
        return DataLoader(data, **TRAINING, seed=self.seed, rank=self.rank, world=self.world, slots=3, timeout=self.timeout)

    def evaluation(self, data: str) -> DataLoader:
        return DataLoader(
            data,
            **EVALUATION,
            rank=self.rank,
            world=self.world,
            slots=3,
            timeout=self.timeout,
            num_workers=int(data == self.own),
        )


def passes(error: Exception) -> bool:
    """Whether an error is of what the soak repairs: data that are damaged, a disk that is full."""
    if isinstance(error, errors.ServerError):  # an own server that has nothing whole to serve
        return "did not start" in str(error)
    return isinstance(error, (errors.CorruptError, errors.MissingError)) or getattr(error, "errno", None) == errno.ENOSPC


def rows(batch: Any) -> np.ndarray[Any, Any]:
    """Return the index of each sample of a batch with the hash of its pixels and label."""
    images, labels, indices = batch
    made = np.empty(len(indices), ROW)
    made["index"] = indices
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        digest = hashlib.blake2b(image.tobytes(), digest_size=8, salt=int(label).to_bytes(8, "little")).digest()
        made["hash"][i] = int.from_bytes(digest, "little")
    return made


class Book:
    """What was seen, a file for each epoch, and what else there is to tell, a JSON object in each line of ``notes``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def write(self, kind: str, epoch: int, seen: np.ndarray[Any, Any], begin: int) -> None:
        """Write rows of an epoch from row begin on, and cut off what was behind them."""
        fd = os.open(self._folder / f"{kind}-{epoch:06}", os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, seen.tobytes(), begin * ROW.itemsize)
        os.ftruncate(fd, (begin + len(seen)) * ROW.itemsize)
        os.close(fd)

    def read(self, kind: str, epoch: int) -> np.ndarray[Any, Any]:
        path = self._folder / f"{kind}-{epoch:06}"
        return np.fromfile(path, ROW) if path.exists() else np.empty(0, ROW)

    def forget(self, epoch: int, begin: int) -> int:
        """Put aside the rows seen from begin on, which no survivor knows of. Return how many they are."""
        lost = self.read("train", epoch)[begin:]
        paths = [path for path in self._folder.glob("train-*") if int(path.name[6:12]) >= epoch]
        number = len(list(self._folder.glob("lost-*")))
        for path in paths:
            shutil.copy(path, self._folder / f"lost-{path.name[6:12]}.{number}")
            if path.name != f"train-{epoch:06}":
                path.unlink()
        if len(lost):
            self.write("train", epoch, lost[:0], begin)
        return len(lost)

    def note(self, what: str, **more: Any) -> None:
        with (self._folder / "notes").open("a") as f:
            f.write(json.dumps({"what": what, "time": time.time(), **more}) + "\n")

    def notes(self) -> list[dict[str, Any]]:
        path = self._folder / "notes"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Trainer:
    def __init__(self, task: Task) -> None:
        self.task = task
        self.book = Book(Path(task.book))
        self.asked = False
        self.train = self.patiently(lambda: task.training(task.train))
        self.judges = [self.patiently(lambda data=data: task.evaluation(data)) for data in (task.val, task.own)]
        self.rows = 0  # seen of the epoch under way
        self.judged = 0  # epochs
        if (state := Path(task.state)).exists():
            saved = json.loads(state.read_text())
            self.train.load_state_dict(saved["loader"])
            self.rows, self.judged = saved["rows"], saved["judged"]
        forgotten = self.book.forget(self.at, self.rows)
        self.book.note("began", epoch=self.at, rows=self.rows, forgotten=forgotten)

    @property
    def at(self) -> int:
        """The epoch under way."""
        return int(self.train.state_dict()["epoch"])

    def ask(self, *_: Any) -> None:
        self.asked = True

    def patiently(self, make: Any) -> Any:
        """Return what make returns: while the data are damaged it is asked again, after a moment."""
        begin = time.monotonic()
        while True:
            try:
                return make()
            except (errors.ImgfeedError, OSError) as e:
                if not passes(e) or time.monotonic() > begin + PATIENCE:
                    raise
                self.book.note("error", kind=type(e).__name__, text=str(e))
                time.sleep(0.2)
                if self.asked:
                    raise SystemExit(0) from None

    def save(self) -> None:
        """Keep the state, in one step; where the disk is full it stays the one before."""
        path = Path(self.task.state)
        unfinished = path.with_suffix(".new")
        try:
            unfinished.write_text(json.dumps({"loader": self.train.state_dict(), "rows": self.rows, "judged": self.judged}))
            unfinished.replace(path)
        except OSError as e:
            self.book.note("error", kind="saving", text=str(e))
            with contextlib.suppress(OSError):
                unfinished.unlink()

    def batches(self, loader: DataLoader) -> Any:
        """Yield the batches of an epoch, whatever happens; the end comes early when the trainer was asked to end."""
        failed_at: float | None = None
        iteration = None
        while not self.asked:
            try:
                iteration = iter(loader) if iteration is None else iteration
                batch = next(iteration)
            except StopIteration:
                return
            except errors.TimeoutError:
                continue
            except (errors.ImgfeedError, OSError) as e:
                now = time.monotonic()
                failed_at = failed_at or now
                if not passes(e) or now > failed_at + PATIENCE:
                    raise
                self.book.note("error", kind=type(e).__name__, text=str(e))
                loader.load_state_dict(loader.state_dict())  # or the next iteration would begin the next epoch
                iteration = None
                time.sleep(0.2)
            else:
                failed_at = None
                yield batch
                del batch

    def epoch(self) -> None:
        epoch = self.at
        for n, batch in enumerate(self.batches(self.train)):
            seen = rows(batch)
            self.book.write("train", epoch, seen, self.rows)
            self.rows = self.rows + len(seen) if self.at == epoch else 0
            time.sleep(0.03)  # where a training computes
            if n % SAVE_EVERY == SAVE_EVERY - 1:
                self.save()

    def judge(self) -> None:
        judge = self.judges[self.judged % 2]
        judge.set_epoch(self.judged)
        seen = [rows(batch) for batch in self.batches(judge)]
        if not self.asked:
            self.book.write("val", self.judged, np.concatenate(seen), 0)
            self.judged += 1

    def run(self) -> None:
        while not self.asked:
            self.save()
            if self.judged < self.at:
                self.judge()
            else:
                self.epoch()
        self.save()
        reconnects = [loader._service.reconnects for loader in (self.train, *self.judges)]
        self.book.note("ended", reconnects=reconnects)
        for loader in (self.train, *self.judges):
            loader.close()


def main() -> None:
    trainer: Trainer | None = None
    asked = False

    def ask(*_: Any) -> None:
        nonlocal asked
        asked = True
        if trainer is None:
            raise SystemExit(0)  # it has seen nothing yet
        trainer.ask()

    signal.signal(signal.SIGTERM, ask)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    trainer = Trainer(Task(**json.loads(sys.argv[1])))
    if not asked:
        trainer.run()


if __name__ == "__main__":
    main()
