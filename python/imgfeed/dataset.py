"""What a loader says about its data: as much of torch's Dataset and DistributedSampler as training scripts ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .client import Session, SetInfo


class Dataset:
    """The split that a loader serves. Its samples come by iterating the loader; ``dataset[i]`` does not exist."""

    def __init__(self, info: SetInfo, session: Callable[[], Session], facts: dict[str, Any]) -> None:
        """Describe the served split; session returns an open session to ask, facts keeps what it has said."""
        self._session = session
        self._facts = facts
        self.split = info.split
        self.fingerprint = info.fingerprint
        self.encoding = info.encoding
        self._samples = info.samples

    def __len__(self) -> int:
        """Return the number of samples in the split, of all ranks together."""
        return self._samples

    @property
    def classes(self) -> list[str]:
        """The names of the classes; class i has label i."""
        if "classes" not in self._facts:
            self._facts["classes"] = self._session().classes()
        names: list[str] = self._facts["classes"]
        return names

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class."""
        return {name: i for i, name in enumerate(self.classes)}

    @property
    def targets(self) -> npt.NDArray[np.int64]:
        """The label of every sample, in index order: int64, -1 where a sample's partition is out of reach."""
        if "targets" not in self._facts:
            self._facts["targets"] = self._session().labels().astype(np.int64)
        labels: npt.NDArray[np.int64] = self._facts["targets"]
        return labels

    def key(self, index: int) -> str:
        """Return the path below the split's root of the sample with this index, as ``with_index=True`` gives it."""
        return self._session().key(index)


class Sampler:
    """The loader's order, under the name by which scripts for DistributedSampler reach it."""

    def __init__(self, set_epoch: Callable[[int], None], samples: int) -> None:
        """Take set_epoch, and how many samples a rank gets in an epoch."""
        self._set_epoch = set_epoch
        self._samples = samples

    def set_epoch(self, epoch: int) -> None:
        """As :meth:`imgfeed.DataLoader.set_epoch`."""
        self._set_epoch(epoch)

    def __len__(self) -> int:
        """Return how many samples this rank gets in an epoch."""
        return self._samples


def rank_samples(samples: int, rank: int, world: int, policy: str) -> int:
    """Return how many of samples a rank gets in a whole epoch."""
    if policy == "drop_last":
        return samples // world
    if policy == "uneven":
        return max(0, -(-(samples - rank) // world))
    return -(-samples // world)


def rank_batches(samples: int, rank: int, world: int, policy: str, batch_size: int) -> int:
    """Return how many batches a rank gets in a whole epoch. They are as many on every rank, but for ``uneven``."""
    mine = rank_samples(samples, rank, world, policy)
    return mine // batch_size if policy == "drop_last" else -(-mine // batch_size)
