"""A run's checkpoints: what is there when it begins, what it keeps of itself, what it removes."""

from __future__ import annotations

import re
from typing import Any

from ..errors import TrainError
from ..launch.agree import every_rank
from ..launch.place import Place
from ..settings import Settings
from . import files, storage
from .saver import Saver

EPOCH = re.compile(r"epoch-(\d+)\.pt")


def _is_checkpoint(name: str) -> bool:
    return name in ("last.pt", "best.pt") or EPOCH.fullmatch(name) is not None


class Keeper:
    """Every rank has one and all call its methods, but for one; rank 0 reads and writes."""

    def __init__(self, s: Settings, place: Place) -> None:
        """Try the folder: what it refuses is to be told now, not at the end of the first epoch.

        Raises TrainError for that, and where another run's checkpoints would be replaced unasked.
        """
        self._s, self._first = s, place.rank == 0
        self._resume = s.resume or ("auto" if place.attempt else None)
        self.folder = files.folder(s)
        self._saver = Saver(self.folder, files.unsent(s))
        self._on_rank_0(self._begin)

    def _on_rank_0(self, work: Any) -> None:
        every_rank(None, failing=lambda: work() if self._first else None)

    def _begin(self) -> None:
        storage.check(self.folder)
        folders = (self.folder, str(files.unsent(self._s)))
        there = [(folder, name) for folder in folders for name in storage.names(folder) if _is_checkpoint(name)]
        if self._resume == "auto":
            self._saver.send_kept()
        if not there or self._resume:
            return
        if not self._s.overwrite:
            names = ", ".join(name for _, name in there)
            raise TrainError(
                f"{there[0][0]} holds the checkpoints of a run ({names}), which this one would replace: go on with "
                "it by --resume auto, take another --output (or --checkpoints), or remove them by --overwrite"
            )
        for folder, name in there:
            storage.remove(folder, name)

    def resumed(self) -> tuple[str, dict[str, Any] | None]:
        """Return the path and the state to go on from; None where the run begins anew."""
        return files.find(self._s, self._resume) if self._resume else ("", None)

    def save(self, state: dict[str, Any], *names: str) -> None:
        """Keep a state under these names."""
        self._on_rank_0(lambda: self._saver.save(state, *names))

    def save_alone(self, state: dict[str, Any], *names: str) -> None:
        """Keep a state under these names, where rank 0 calls this and the others do not."""
        self._saver.save(state, *names)

    def save_epoch(self, state: dict[str, Any], epoch: int, best: bool) -> None:
        """Keep the state after an epoch: the last, the best if it is that, and with --keep N its own for N epochs."""
        own = [f"epoch-{epoch:04d}.pt"] if self._s.keep else []
        self.save(state, "last.pt", *(["best.pt"] if best else []), *own)
        if self._s.keep:
            self._on_rank_0(lambda: self._remove_until(epoch - self._s.keep))

    def _remove_until(self, epoch: int) -> None:
        for name in storage.names(self.folder):
            found = EPOCH.fullmatch(name)
            if found and int(found[1]) <= epoch:
                storage.remove(self.folder, name)

    @property
    def busy(self) -> bool:
        """Whether anything is still on its way."""
        return self._saver.busy

    def wait(self) -> None:
        """Return when everything is where it belongs. Raises StorageError for what is not taken."""
        self._saver.wait()
