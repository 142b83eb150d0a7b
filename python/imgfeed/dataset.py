"""What a loader says about its data: as much of torch's Dataset and DistributedSampler as training scripts ask for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .arguments import INT64_MAX, whole
from .service import Service

INDEX = whole(0, INT64_MAX, "a sample's index, 0 or more")


class Dataset:
    """The split that a loader serves. Its samples come by iterating the loader; ``dataset[i]`` does not exist."""

    def __init__(self, service: Service) -> None:
        """Describe the split that a service serves, and ask it for the rest when somebody wants to know."""
        self._service = service
        self.split = service.served.split
        self.fingerprint = service.served.fingerprint
        self.encoding = service.served.encoding
        self._samples = service.served.samples

    def __len__(self) -> int:
        """Return the number of samples in the split, of all ranks together."""
        return self._samples

    @cached_property
    def classes(self) -> list[str]:
        """The names of the classes; class i has label i."""
        return self._service.session().classes()

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class."""
        return {name: i for i, name in enumerate(self.classes)}

    @cached_property
    def targets(self) -> npt.NDArray[np.int64]:
        """The label of every sample, in index order: int64, -1 where a sample's partition is out of reach."""
        return self._service.session().labels().astype(np.int64)

    def key(self, index: int) -> str:
        """Return the path below the split's root of the sample with this index, as ``with_index=True`` gives it."""
        return self._service.session().key(INDEX.check("index", index))


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
