"""A loader of torch that a program has, as the feed's: its images are packed once, and the batches are the same."""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any

from . import arguments, outputs
from .arguments import ARGUMENTS
from .loader import DataLoader
from .packing import cache_folder, pack
from .ranks import rank_batches
from .torchsets import source_of
from .vision import ends_in_tensors

_DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(DataLoader).parameters.items()}


def from_torch(
    loader: Any, *, transform: Any = None, label: str | None = None, cache: str | os.PathLike[str] | None = None, **changes: Any
) -> DataLoader:
    """Return a loader of the same batches as a torch.utils.data.DataLoader, with its images packed once into a cache.

    The dataset is an ImageFolder, ImageNet, CIFAR10 or CIFAR100 of torchvision, a Dataset of Hugging Face, or a Subset of
    these. The first call packs it, which is logged; later ones find it in the cache, by what the data hold. docs/python.md
    says what of torch's loader is honoured, and what is refused.

    Args:
        loader: The loader. It is not iterated, and stays as it is.
        transform: What is done to each image, in place of the dataset's own transform; a Dataset of Hugging Face needs it, as
            its own is a function that can't be looked into.
        label: The column of a Dataset of Hugging Face that has the labels, where there are several.
        cache: The folder of what is packed, ``$XDG_CACHE_HOME/imgfeed`` or ``~/.cache/imgfeed`` if not given.
        changes: Arguments of imgfeed.DataLoader, in place of those that the loader would give.

    Raises:
        ValueError: For what can't be honoured, with what to do. TypeError: for what is no loader of torch. ImgfeedError: if
        packing fails.
    """
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(loader, data.DataLoader):
        raise TypeError(f"imgfeed: from_torch: want a torch.utils.data.DataLoader, and this is a {type(loader).__name__}")
    unknown = next((name for name in changes if name not in ARGUMENTS or name == "dataset"), None)
    if unknown is not None:
        raise TypeError(f"imgfeed: from_torch: neither it nor DataLoader has an argument {unknown!r}")
    if isinstance(loader.dataset, data.IterableDataset):
        raise ValueError(
            "imgfeed: from_torch: the dataset is an iterable one, whose samples can't be told apart: load it whole "
            "(streaming=False), or pack the files that it reads with imgshard build"
        )
    given = _arguments(data, loader)
    if "seed" in changes:
        del given["generator"]  # which stands for a seed
    if changes.get("device") is not None:
        del given["pin_memory"]  # the feed's own is page-locked
    given.update(changes)
    source, own = source_of(loader.dataset, label)
    given["transform"] = _transform(own if transform is None else transform, given)
    arguments.check({**_DEFAULTS, "dataset": "packed", **given}, {})  # before packing, which takes its time
    packed = pack(source, cache_folder(cache))
    return DataLoader(packed.set, **given)


def _arguments(data: Any, loader: Any) -> dict[str, Any]:
    """Return what a loader of torch was given, as arguments of the feed's."""
    batches, samples = _samplers(data, loader)
    given = {
        "batch_size": batches.batch_size,
        "num_workers": loader.num_workers,
        "pin_memory": bool(loader.pin_memory),
        "timeout": loader.timeout,
        "worker_init_fn": loader.worker_init_fn,
        "generator": loader.generator,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
        "pin_memory_device": getattr(loader, "pin_memory_device", ""),
        **_order(data, samples, batches.batch_size, bool(batches.drop_last)),
    }
    if not outputs.is_default_collate(loader.collate_fn):
        given["collate_fn"] = loader.collate_fn
    return {name: value for name, value in given.items() if name in ARGUMENTS or value}


def _samplers(data: Any, loader: Any) -> tuple[Any, Any]:
    """Return the sampler of batches, and that of samples."""
    batches = loader.batch_sampler
    if batches is None:
        raise ValueError(
            "imgfeed: from_torch: batch_size is None, and the feed gives batches: make the loader with batch_size="
        )
    if type(batches) is not data.BatchSampler:
        raise ValueError(
            f"imgfeed: from_torch: batch_sampler is a {type(batches).__qualname__}, whose batches the feed can't know: make "
            "the loader with batch_size=, and with shuffle= or a sampler"
        )
    return batches, batches.sampler


def _order(data: Any, sampler: Any, batch_size: int, drop_last: bool) -> dict[str, Any]:
    """Return the arguments for the order of a sampler of torch."""
    kind = type(sampler)
    if kind is data.SequentialSampler:
        return {"shuffle": False, "drop_last": drop_last}
    if kind is data.RandomSampler:
        if sampler.replacement or sampler.num_samples != len(sampler.data_source):
            raise ValueError(
                f"imgfeed: from_torch: sampler draws {sampler.num_samples:,} of {len(sampler.data_source):,} samples"
                f"{' with replacement' if sampler.replacement else ''}: the feed gives each once: make the loader with "
                "shuffle=True"
            )
        return {"shuffle": True, "drop_last": drop_last, "generator": sampler.generator}
    distributed = sys.modules.get("torch.utils.data.distributed")
    if distributed is not None and kind is distributed.DistributedSampler:
        return _distributed(sampler, batch_size, drop_last)
    raise ValueError(
        f"imgfeed: from_torch: sampler is a {kind.__qualname__}, whose order the feed can't know: make the loader with "
        "shuffle=, or with a DistributedSampler"
    )


def _distributed(sampler: Any, batch_size: int, drop_last: bool) -> dict[str, Any]:
    """Return the arguments for a DistributedSampler, whose drop_last leaves out samples, and the loader's a batch."""
    samples, rank, world = len(sampler.dataset), int(sampler.rank), int(sampler.num_replicas)
    share = -(-samples // world) if not sampler.drop_last else samples // world
    batches = share // batch_size if drop_last else -(-share // batch_size)
    if batches != rank_batches(samples, rank, world, "drop_last" if drop_last else "pad", batch_size) or (
        sampler.drop_last and not drop_last and samples % world
    ):
        raise ValueError(
            f"imgfeed: from_torch: DistributedSampler has drop_last={sampler.drop_last}, and the loader drop_last={drop_last}: "
            f"with {samples:,} samples on {world:,} ranks the feed would give others. Give both the same"
        )
    order = {"shuffle": sampler.shuffle, "seed": sampler.seed, "drop_last": drop_last}
    return {**order, "rank": rank, "world": world, "generator": None}  # which would be of workers


def _transform(transform: Any, given: dict[str, Any]) -> Any:
    """Return the transform, unless it leaves images of Pillow, which torch's loader could have put into no batch."""
    if transform is None:
        raise ValueError(
            "imgfeed: from_torch: the dataset has no transform that can be looked into: say with transform= what is done to "
            "each image"
        )
    if "collate_fn" in given and given["collate_fn"] is not None and not ends_in_tensors(transform):
        raise ValueError(
            "imgfeed: from_torch: collate_fn gets tensors of the feed, and here the transform leaves images of Pillow: end it "
            "in PILToTensor or ToTensor"
        )
    return transform
