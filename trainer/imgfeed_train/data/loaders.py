"""Batches from imgfeed: those of the training, whose images may grow, and those of the evaluation."""

from __future__ import annotations

import re
from typing import Any

import torch
from imgfeed import DataLoader

from ..errors import TrainError
from ..launch.place import Place
from ..settings import Settings
from .transforms import eval_transform, operations, size_at

Stats = tuple[tuple[float, ...], tuple[float, ...]]  # mean and deviation that images are normalised by


def classes(s: Settings, split: str, place: Place) -> list[str]:
    """Return the names of what a split's labels tell apart; class i has label i. With --target they are numbers.

    Raises TrainError where --target is no vector of numbers there.
    """
    with DataLoader(
        s.data,
        split=split,
        rank=place.rank,
        world=place.world,
        num_workers=0 if s.data.startswith("unix:") else 1,
        cache=s.cache,
        cache_size=s.cache_size,
        framework="numpy",
    ) as probe:
        return names(s, probe.dataset)


def names(s: Settings, dataset: Any) -> list[str]:
    """Return the names of the outputs that a model for a loader's dataset needs, as :func:`classes`."""
    if s.target is None:
        return list(dataset.classes)
    kind = dataset.fields.get(s.target, "")
    vector = re.fullmatch(r"(?:float32|int64)\[(\d+)\]", kind)
    if vector is None:
        there = ", ".join(f"{name} ({of})" for name, of in dataset.fields.items()) or "no fields"
        raise TrainError(
            f"--target {s.target}: the set {dataset.split} has {there}; wanted is a vector, as imgshard build --field "
            f"{s.target}=json.{s.target}:multihot[1000] makes one"
        )
    return [str(i) for i in range(int(vector[1]))]


class Feed:
    """The training batches, in each epoch's image size."""

    def __init__(
        self, s: Settings, split: str, place: Place, device: torch.device, *, batch_size: int, stats: Stats, drop_last: bool
    ) -> None:
        """Open the data of a split for this rank. Raises TrainError where an epoch would have no batch."""
        self._s, self._split, self._place, self._device = s, split, place, device
        self.batch_size, self.drop_last, self.stats = batch_size, drop_last, stats
        self._size = max(s.size, s.size_start)  # so that memory for the largest images is there from the beginning
        self.loader = self._open()
        self.classes = names(s, self.loader.dataset)
        if not len(self.loader):
            ranks = "one rank" if place.world == 1 else f"{place.world} ranks"
            raise TrainError(
                f"--batch-size {batch_size} on {ranks} is more than the {len(self.loader.dataset):,} samples of "
                f"{split}, and --drop-last leaves out what fills no batch: take a smaller batch, or --no-drop-last"
            )

    def _open(self) -> Any:
        return make_loader(
            self._s,
            self._split,
            self._place,
            self._device,
            batch_size=self.batch_size,
            stats=self.stats,
            transform=operations(self._s, self._size),
            repeats=self._s.repeats,
            shuffle=True,
            seed=self._s.seed,
            drop_last=self.drop_last,
            on_error=self._s.on_error,
            max_bad=self._s.max_bad,
        )

    @property
    def steps_per_epoch(self) -> int:
        """How many steps of the optimiser an epoch has."""
        return int(-(-len(self.loader) // self._s.accumulate))

    @property
    def images_per_step(self) -> int:
        """How many images a whole step has, of all ranks together."""
        return self.batch_size * self._place.world * self._s.accumulate

    @property
    def samples_per_epoch(self) -> int:
        """How many samples an epoch trains on, of all ranks together, repeated ones included."""
        mine = len(self.loader) * self.batch_size if self.drop_last else len(self.loader.sampler)
        return int(mine) * self._place.world

    def left(self) -> int:
        """Return how many samples this rank has before it in the loader's epoch, repeated ones at its end included."""
        samples, consumed = len(self.loader.dataset), int(self.loader.state_dict()["consumed"])
        left = max(0, samples - consumed)
        if self.drop_last:
            return left // self._place.world // self.batch_size * self.batch_size
        return -(-left // self._place.world)

    def epoch(self, epoch: int) -> Any:
        """Return an iteration over the rest of an epoch, in its image size; a place in it that was loaded is kept."""
        if size_at(self._s, epoch) != self._size:
            self._size = size_at(self._s, epoch)
            self.loader.set_transform(operations(self._s, self._size))
        self.loader.set_epoch(epoch)
        return iter(self.loader)


def evaluation(s: Settings, split: str, place: Place, device: torch.device, *, batch_size: int, stats: Stats) -> Any:
    """Return the loader of an exact evaluation: every sample once over all ranks."""
    options = {"transform": eval_transform(s), "even_batches": False, "with_index": bool(s.real_labels)}
    return make_loader(s, split, place, device, batch_size=batch_size, stats=stats, **options)


def make_loader(
    s: Settings, split: str, place: Place, device: torch.device, *, batch_size: int, stats: Any, **options: Any
) -> Any:
    """Return an imgfeed loader of normalised float32 images (B, 3, H, W) and int64 labels, or --target, on device."""
    return DataLoader(
        s.data,
        batch_size,
        split=split,
        rank=place.rank,
        world=place.world,
        resampler=s.resampler,
        num_workers=0 if s.data.startswith("unix:") else s.workers,
        cache=s.cache,
        cache_size=s.cache_size,
        device=device if device.type == "cuda" else None,
        normalize=stats,
        target=s.target,
        layout="NHWC" if s.channels_last else "NCHW",
        framework="torch",
        **options,
    )
