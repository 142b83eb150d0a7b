"""``imgfeed-train bench``: how much of what a model can train the feed delivers, beside torchvision's DataLoader.

One run, one model: batches that are there already (the ceiling), this feed, and torchvision over the same images as files,
by turns in every round, and the medians of the rounds.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .bench_settings import BenchSettings
from .data.loaders import Stats
from .data.sets import choose
from .data.transforms import operations
from .launch.agree import most, settle
from .launch.notes import Notes
from .launch.place import Place
from .settings import Settings
from .step import Step
from .train import Training
from .watch import feed as feeds
from .watch.log import machine

AIM_CEILING, AIM_WAIT = 0.98, 0.01
ROUNDS_MIN, STEPS_MIN = 3, 20  # fewer measure nothing that holds


@dataclass(frozen=True)
class Reading:
    """One source's turn in one round: images/s of all ranks, the largest part of its time that a rank waited, and the
    feed's own word on what it waits for (empty for others).
    """

    images_per_second: float
    wait: float
    limit: str = ""


def run(s: BenchSettings, place: Place, device: torch.device, notes: Notes) -> int:
    """Measure on this rank; rank 0 prints the table. Returns 0."""
    training = Training(s, place, device, notes, splits=choose(s, place))
    feed, step = training.feed, training.step
    step.model.train()
    sources: dict[str, Iterable[Any]] = {
        "synthetic": _Synthetic(s, feed.batch_size, device, len(training.classes)),
        "imgfeed": feed.loader,
    }
    if s.images:
        sources["torchvision"] = _torchvision(s, place, device, feed.batch_size, training.stats)
    readings: dict[str, list[Reading]] = {name: [] for name in sources}
    for number in range(s.rounds):
        for name in _turns(list(sources), number):
            readings[name].append(measure(step, sources[name], s, place))
    if place.rank == 0:
        ranks = f"batch {feed.batch_size} x {place.world}"
        print("\n".join(table(s, ranks, readings, machine(device))), flush=True)
        if s.json:
            Path(s.json).write_text(json.dumps({n: [asdict(r) for r in rows] for n, rows in readings.items()}, indent=1))
    feed.loader.close()
    return 0


def _turns(names: list[str], number: int) -> list[str]:
    """Return the sources in the order of a round: each begins one in turn, so that none always follows the same."""
    first = number % len(names)
    return names[first:] + names[:first]


def measure(step: Step, source: Iterable[Any], s: BenchSettings, place: Place) -> Reading:
    """Return one turn of a source. It starts anew, so that nothing was loaded while others had their turn."""
    batches = _endless(source)
    for _ in range(s.warmup):
        step.batch(*next(batches))
    settle(step.device)
    if place.world > 1:
        dist.barrier()
    waited, images = 0.0, 0
    begun = mark = time.perf_counter()
    for _ in range(s.steps):
        pixels, labels = next(batches)
        waited += time.perf_counter() - mark
        step.batch(pixels, labels)
        images += len(labels)
        mark = time.perf_counter()
    settle(step.device)
    seconds = time.perf_counter() - begun
    limit = str(source.stats()["waiting_for"]) if hasattr(source, "stats") else ""
    batches.close()
    slowest, wait = most(seconds, step.device), most(waited / seconds, step.device)
    return Reading(images * place.world / slowest, wait, limit)


def _endless(source: Iterable[Any]) -> Any:
    """Yield a source's batches, epoch after epoch, each in an order of its own."""
    epoch = 0
    while True:
        sampler: Any = getattr(source, "sampler", None)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
        yield from source
        epoch += 1


class _Synthetic:
    """One batch over and over, normalised and on its device: nothing to load, decode, copy."""

    def __init__(self, s: Settings, batch: int, device: torch.device, classes: int) -> None:
        form = torch.channels_last if s.channels_last else torch.contiguous_format
        self._images = torch.randn(batch, 3, s.size, s.size, device=device).to(memory_format=form)
        self._labels = torch.randint(classes, (batch,), device=device)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield self._images, self._labels


def _torchvision(s: BenchSettings, place: Place, device: torch.device, batch: int, stats: Stats) -> Any:
    """Return the usual loader: PIL, the run's own operations and repeats, normalised in its worker processes."""
    import torchvision  # noqa: PLC0415 - slow to import
    from torchvision import transforms  # noqa: PLC0415

    steps = [_of_pil(op, s.size) for op in operations(s, s.size)]
    whole = transforms.Compose([*steps, transforms.ToTensor(), transforms.Normalize(*stats)])
    images = torchvision.datasets.ImageFolder(s.images, whole)
    sampler: Any = torch.utils.data.RandomSampler(images)
    if s.repeats > 1:
        from timm.data.distributed_sampler import RepeatAugSampler  # noqa: PLC0415

        sampler = RepeatAugSampler(images, place.world, place.rank, num_repeats=s.repeats, selected_round=0)
    elif place.world > 1:
        sampler = torch.utils.data.DistributedSampler(images, place.world, place.rank, seed=s.seed)
    workers = s.torch_workers or s.workers or max(1, (os.cpu_count() or 1) // place.local_world)
    return torch.utils.data.DataLoader(
        images, batch, sampler=sampler, num_workers=workers, pin_memory=device.type == "cuda", prefetch_factor=4
    )


def _of_pil(op: dict[str, Any], size: int) -> Any:
    """Return an operation of the feed as an object for images of Pillow: torchvision's, or timm's, made as timm makes it."""
    from timm.data import auto_augment  # noqa: PLC0415
    from timm.data import transforms as of_timm  # noqa: PLC0415
    from torchvision import transforms  # noqa: PLC0415

    given = {key: value for key, value in op.items() if key != "op"}
    if op["op"] == "TimmAugment":
        policy = {"translate_const": int(size * 0.45), "img_mean": tuple(given["fill"])}
        if given["interpolation"] != "random":
            policy["interpolation"] = of_timm.str_to_pil_interp(given["interpolation"])
        if given["config"].startswith("augmix"):
            return auto_augment.augment_and_mix_transform(given["config"], {**policy, "translate_pct": 0.3})
        if given["config"].startswith("rand"):
            return auto_augment.rand_augment_transform(given["config"], policy)
        return auto_augment.auto_augment_transform(given["config"], policy)
    if "interpolation" in given:
        given["interpolation"] = transforms.InterpolationMode(given["interpolation"])
    return getattr(transforms, op["op"])(**given)


def table(s: BenchSettings, ranks: str, readings: dict[str, list[Reading]], there: dict[str, str]) -> list[str]:
    """Return the lines of the result: medians, their ratio to the ceiling, the range over the rounds, and the verdict.

    ranks says how many images a step has, there is the machine.
    """
    rates = {name: statistics.median(r.images_per_second for r in rows) for name, rows in readings.items()}
    waits = {name: statistics.median(r.wait for r in rows) for name, rows in readings.items()}
    ceiling = rates["synthetic"]
    lines = [
        f"{s.arch}, {s.size} pixels, {ranks}, amp {s.amp}"
        f"{', channels-last' if s.channels_last else ''}{', compiled' if s.compile else ''}, transform {s.transform}"
        f"{f', augment {s.augment}' if s.augment != 'none' else ''}{f', repeats {s.repeats}' if s.repeats > 1 else ''}",
        f"on {there['cpu']}, GPU {there['gpu']}, torch {there['torch']}; medians of {s.rounds} rounds of {s.steps} steps",
        "",
        "| batches from | images/s | lowest to highest | of the ceiling | data wait |",
        "|---|---|---|---|---|",
    ]
    for name, rows in readings.items():
        each = sorted(r.images_per_second for r in rows)
        shown = f"{each[0]:,.0f} to {each[-1]:,.0f}"
        lines.append(f"| {name} | {rates[name]:,.0f} | {shown} | {rates[name] / ceiling:.3f} | {waits[name]:.1%} |")
    lines += ["", f"aim {AIM_CEILING} of the ceiling, data wait under {AIM_WAIT:.0%}: {_verdict(s, readings, rates, waits)}"]
    return lines


def _verdict(s: BenchSettings, readings: dict[str, list[Reading]], rates: dict[str, float], waits: dict[str, float]) -> str:
    """Return whether the aim is reached, and how sure that is: by each round's ratio, in which a machine's moods cancel."""
    reached = rates["imgfeed"] >= AIM_CEILING * rates["synthetic"] and waits["imgfeed"] < AIM_WAIT
    limit = statistics.mode(r.limit for r in readings["imgfeed"])
    said = "reached" if reached else f"not reached; the feed waited for {feeds.of(limit).what}"
    if s.rounds < ROUNDS_MIN or s.steps < STEPS_MIN:
        few = f"{s.rounds} {'rounds' if s.rounds > 1 else 'round'} of {s.steps} steps"
        return f"uncertain, {few} are too few to tell (at least {ROUNDS_MIN} of {STEPS_MIN}); by them {said}"
    pairs = zip(readings["imgfeed"], readings["synthetic"], strict=True)
    each = sorted(ours.images_per_second / ceiling.images_per_second for ours, ceiling in pairs)
    if each[0] < AIM_CEILING <= each[-1]:
        return f"uncertain, the rounds lie on both sides of it ({each[0]:.3f} to {each[-1]:.3f}); by their medians {said}"
    return said
