"""A loader of torch that a program has, as imgfeed's: its images are packed once, and the batches are the same."""

import importlib
import inspect
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arguments import arguments
from ._arguments.arguments import ARGUMENTS
from ._arguments.numbers import kind_of
from ._arguments.packing import Source, cache_folder, pack
from ._arguments.torchsets import HOW, arrays, files, refused, table, with_targets, without_wrapper
from ._arguments.vision import boxes_format, by_python, ends_in_tensors, is_torchvisions, split
from ._epoch import outputs
from ._server import launcher
from ._server.ranks import rank_batches
from .loader import DataLoader

log = logging.getLogger("imgfeed")

_DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(DataLoader).parameters.items()}
#: Arguments of DataLoader that torch's loader says itself.
_THEIRS = ("dataset", "shuffle", "subset", "weights", "num_samples", "order", "sampler")


def from_torch(
    loader: Any,
    *,
    transform: Any = None,
    label: str | None = None,
    same_order: bool = False,
    cache: str | os.PathLike[str] | None = None,
    **changes: Any,
) -> DataLoader:
    """Return a loader of the same batches as a torch.utils.data.DataLoader, with its images packed once into a cache.

    The dataset is an ImageFolder, ImageNet, CIFAR10, CIFAR100, CocoDetection, VOCDetection, VOCSegmentation, Cityscapes or
    OxfordIIITPet of torchvision, a Dataset of Hugging Face, or a Subset of these. docs/python.md lists which arguments of
    torch's loader are honoured, and which are refused.

    Args:
        loader: The loader. It is not iterated, and stays as it is.
        transform: The work on each image, instead of the dataset's own. A Dataset of Hugging Face needs it.
        label: The column of a Dataset of Hugging Face that has the labels, if there are several.
        same_order: Take the order of every epoch from torch's own sampler.
        cache: The folder for packed sets; by default ``$XDG_CACHE_HOME/imgfeed`` or ``~/.cache/imgfeed``.
        changes: Arguments of imgfeed.DataLoader that override the loader's.

    Raises:
        ValueError: For an argument that can't be honoured, with a remedy. TypeError: for anything but a loader of torch.
        ImgfeedError: if packing fails.
    """
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(loader, data.DataLoader):
        raise TypeError(f"imgfeed: from_torch: want a torch.utils.data.DataLoader, and this is {kind_of(loader)}")
    for name in changes:
        if name in _THEIRS:
            raise refused(f"torch's loader says {name}= itself: make it with the samples and the order wanted")
        if name not in ARGUMENTS:
            raise TypeError(f"imgfeed: from_torch: neither it nor DataLoader has an argument {name!r}")
    if isinstance(loader.dataset, data.IterableDataset):
        raise refused(
            "the dataset is an iterable one, whose samples can't be told apart: load it whole "
            "(streaming=False), or pack the files that it reads with imgshard build"
        )
    given = _arguments(data, loader, same_order)
    if "seed" in changes:
        given["generator"] = None  # which stands for a seed
    if changes.get("device") is not None:
        given["pin_memory"] = False  # the loader's own ring is page-locked
    given.update(changes)
    source, transform = _source_of(loader.dataset, label, transform)
    if source.targets == "objects" and given.get("boxes") is None:
        given["boxes"] = boxes_format(transform)
    given = _with_transform(transform, given, loader, source.targets)
    options = arguments.check({**_DEFAULTS, "dataset": "packed", **given}, {})  # before packing, which takes its time
    for each in options.transforms.values():
        options.operations(each, launcher.operations())
    packed = pack(source, cache_folder(cache))
    return DataLoader(packed.set, **_in_set(given, loader, packed.indices()))


def _source_of(dataset: Any, label: str | None, transform: Any) -> tuple[Source, Any]:
    """Return a dataset's images, and transform, or the dataset's own; label is Hugging Face's column.

    Raises ValueError if it can't be packed.
    """
    outer, rows = _without_subsets(dataset)
    inner = without_wrapper(outer)
    source = next(filter(None, (of(inner, rows, label) for of in (files, arrays, table, with_targets))), None)
    if source is None:
        kind = type(inner)
        raise refused(
            f"the dataset is a {kind.__module__}.{kind.__qualname__}, whose code imgfeed can't run. It "
            "takes ImageFolder, ImageNet, CIFAR10, CIFAR100, CocoDetection, VOCDetection, VOCSegmentation, Cityscapes and "
            f"OxfordIIITPet of torchvision, datasets.Dataset of Hugging Face, and Subsets of these. {HOW}"
        )
    if getattr(outer, "target_transform", None) is not None:
        raise refused(
            f"the {type(inner).__qualname__} has target_transform, which imgfeed can't run: leave it out "
            "and change the labels in the loop, or pack a list of path and label in each line"
        )
    if transform is not None:
        return source, transform
    own = getattr(outer, "transform", None)
    if source.targets and own is not None:
        raise refused(
            f"the {type(inner).__qualname__} has transform=, which leaves boxes and masks as they "
            "are, and imgfeed moves them with the image: wrap it with wrap_dataset_for_transforms_v2, and give it transforms="
        )
    if own is None and (outer is not inner or not source.targets):
        own = getattr(outer, "transforms", None)  # of images and targets, whose types v2 knows
    return source, own


def _without_subsets(dataset: Any) -> tuple[Any, Sequence[int] | None]:
    """Return the dataset in torch's Subsets, and which of its samples they select, in order; None: all."""
    data = sys.modules.get("torch.utils.data")
    rows: list[int] | None = None
    while data is not None and type(dataset) is data.Subset:
        of = [int(i) for i in dataset.indices]
        rows = of if rows is None else [of[i] for i in rows]
        dataset = dataset.dataset
    if rows is not None and len(set(rows)) < len(rows):
        raise refused("the Subset has an index twice, and a set holds each sample once: leave the second out")
    return dataset, rows


def _arguments(data: Any, loader: Any, same_order: bool) -> dict[str, Any]:
    """Return the arguments of a loader of torch as imgfeed's; indices are still those of torch's dataset."""
    batches = loader.batch_sampler
    if batches is None:
        raise refused("batch_size is None, and imgfeed gives batches: make the loader with batch_size=")
    if type(batches) is not data.BatchSampler:
        raise refused(
            f"batch_sampler is {kind_of(batches)}, whose batches imgfeed can't know: make "
            "the loader with batch_size=, and with shuffle= or a sampler"
        )
    if getattr(loader, "pin_memory_device", ""):
        raise refused(f"pin_memory_device: {arguments.REFUSED['pin_memory_device']}")
    own = ("num_workers", "timeout", "worker_init_fn", "prefetch_factor", "persistent_workers")
    given = {name: getattr(loader, name) for name in own} | _order(data, batches, len(loader.dataset), same_order)
    given |= {"batch_size": batches.batch_size, "drop_last": bool(batches.drop_last), "pin_memory": bool(loader.pin_memory)}
    if not outputs.is_default_collate(loader.collate_fn):
        given["collate_fn"] = loader.collate_fn
    return given


def _order(data: Any, batches: Any, samples: int, same_order: bool) -> dict[str, Any]:
    """Return the arguments for the order of a sampler of torch: its own, or imgfeed's equivalent."""
    sampler, kind = batches.sampler, type(batches.sampler)
    distributed = sys.modules.get("torch.utils.data.distributed")
    if distributed is not None and isinstance(sampler, distributed.DistributedSampler):
        ranks = {"rank": int(sampler.rank), "world": int(sampler.num_replicas)}
        exact = kind is distributed.DistributedSampler and not same_order and _as_many(sampler, batches, samples)
        if not exact:
            return {**ranks, "sampler": sampler}
        own = {"shuffle": True, "seed": sampler.seed} if sampler.shuffle else {"order": np.arange(len(sampler.dataset))}
        return {**ranks, **own}
    if same_order:
        return {"sampler": sampler}
    if kind is data.SequentialSampler:
        return {"order": np.arange(len(sampler))}
    generator = getattr(sampler, "generator", None)
    if kind is data.RandomSampler and len(sampler.data_source) == samples:
        number = {"num_samples": sampler.num_samples, "generator": generator}
        if sampler.replacement:
            return {"weights": np.ones(samples), **number}
        if sampler.num_samples == samples:
            return {"shuffle": True, "generator": generator}
        if sampler.num_samples < samples:
            return {"shuffle": True, **number}
    if kind is data.SubsetRandomSampler:
        return {"shuffle": True, "subset": np.array([int(i) for i in sampler.indices]), "generator": generator}
    if kind is data.WeightedRandomSampler and sampler.replacement and len(sampler.weights) == samples:
        return {"weights": sampler.weights.numpy(), "num_samples": sampler.num_samples, "generator": generator}
    return {"sampler": sampler}


def _as_many(sampler: Any, batches: Any, samples: int) -> bool:
    """Return whether a rank gets as many samples as from torch with a DistributedSampler and its own drop_last."""
    size, world = batches.batch_size, int(sampler.num_replicas)
    if len(sampler.dataset) != samples:
        return False
    if sampler.drop_last and not batches.drop_last:
        return samples % world == 0
    share = samples // world if sampler.drop_last else -(-samples // world)
    return not batches.drop_last or share // size == rank_batches(samples, 0, world, "drop_last", size)


def _with_transform(transform: Any, given: dict[str, Any], loader: Any, targets: str) -> dict[str, Any]:
    """Return arguments with a transform; steps that the server lacks become map=. Raises ValueError if it leaves PIL images."""
    if transform is None:
        raise refused("the dataset has no transform that can be looked into: say with transform= what is done to each image")
    if given.get("collate_fn") is not None and not ends_in_tensors(transform):
        raise refused(
            "collate_fn gets tensors of imgfeed, and here the transform leaves images of Pillow: end it "
            "in PILToTensor or ToTensor"
        )
    done: list[Any] = []
    left = [transform]
    if is_torchvisions(transform):
        done, left = split(transform, launcher.operations())
    elif not callable(transform):
        left = []
    if not left:
        return {**given, "transform": transform}
    if targets:
        raise refused(
            f"the transform has {left[0]!r:.80}, which imgfeed lacks, and {targets} follow imgfeed's own "
            "operations only: docs/targets.md lists them"
        )
    for name in ("map", "map_batch"):
        if given.get(name) is not None:
            raise refused(f"{name} is given, and the transform has a step of its own: {left[0]!r:.80}")
    workers = {"map_workers": loader.num_workers} if loader.num_workers else {}
    if not done:
        log.warning(
            "imgfeed: from_torch: %.80r is not a step of imgfeed, and comes before a crop: Python does all to each image",
            left[0],
        )
        return {**workers, **given, "decode": "full", "map": by_python(left)}
    compose = importlib.import_module("torchvision.transforms").Compose
    return {**workers, **given, "transform": compose(done), "map": by_python(left)}


def _in_set(given: dict[str, Any], loader: Any, indices: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Return arguments with the set's indices instead of those of torch's dataset."""
    moved: dict[str, Any] = {name: indices[given[name]] for name in ("order", "subset") if name in given}
    if "weights" in given:
        weights = np.zeros(len(indices))
        weights[indices] = given["weights"]
        moved["weights"] = weights
    if "sampler" in given:
        moved["sampler"] = _Moved(given["sampler"], loader, indices)
    return {**given, **moved}


class _Moved:
    """A sampler of torch's dataset, with the set's indices."""

    def __init__(self, sampler: Any, loader: Any, indices: npt.NDArray[np.int64]) -> None:
        self._sampler = sampler
        self._generator = loader.generator
        self._lasting = bool(loader.persistent_workers)  # one iterator of torch's for all epochs
        self._indices = indices
        self._begun = False

    def __iter__(self) -> Iterator[int]:
        if not (self._begun and self._lasting):  # as an iterator of torch's loader does, for its workers
            outputs.torch().empty((), dtype=outputs.torch().int64).random_(generator=self._generator)
        self._begun = True
        return iter(self._indices[[int(i) for i in self._sampler]].tolist())

    def __len__(self) -> int:
        return len(self._sampler)

    @property
    def epoch(self) -> Any:
        """The epoch set in a DistributedSampler; None for another."""
        return getattr(self._sampler, "epoch", None)

    def set_epoch(self, epoch: int) -> None:
        """Tell the sampler the epoch, if it wants to know."""
        if callable(getattr(self._sampler, "set_epoch", None)):
            self._sampler.set_epoch(epoch)
