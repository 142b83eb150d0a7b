"""``imgfeed-train --dry-run``: a minute of the training, thrown away, for what all of it would take. Nothing is written."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass

import torch

from .data.sets import choose
from .data.transforms import size_at
from .evaluate import answers, correct
from .launch.agree import most, settle
from .launch.notes import Notes
from .launch.place import Place
from .launch.surroundings import size_text
from .model import parallel
from .recipes import rate_note
from .settings import Settings
from .train import Training

SECONDS, EVAL_SECONDS = 60.0, 10.0
ASK_EVERY = 5  # batches after which the ranks agree on whether the time is over
WARM_UP = 5  # batches before the clock starts, of an epoch that has twice as many


@dataclass(frozen=True)
class Measured:
    """What a minute gave: images/s of all ranks, in training and evaluation, and the worst rank's part of time without data."""

    steps: int
    seconds: float
    images_per_second: float
    wait: float
    eval_per_second: float


def run(s: Settings, place: Place, device: torch.device, notes: Notes) -> int:
    """Show plan, memory, steps and time on rank 0; return 0."""
    training = Training(s, place, device, notes, splits=choose(s, place))
    measured = _measure(training)
    if place.rank == 0:
        print("\n".join([training.sets.line(s.data), *table(training, measured)]), flush=True)
        if note := rate_note(s.recipe, s.lr, training.feed.images_per_step):
            print(note, flush=True)
    return 0


def _measure(t: Training) -> Measured:
    t.step.model.train()
    batches = t.feed.epoch(0)
    left, accumulate = len(batches), t.s.accumulate
    cold = WARM_UP if left > 2 * WARM_UP else 0
    waited, images, done, over = 0.0, 0, 0, False
    begun = first = time.perf_counter()
    while done < left and not over:
        mark = time.perf_counter()
        pixels, labels = next(batches)
        waited += time.perf_counter() - mark
        t.step.batch(pixels, labels, 1 / accumulate, (done + 1) % accumulate == 0 or done + 1 == left)
        images, done = images + len(labels), done + 1
        if done == cold:
            settle(t.device)
            begun, waited, images = time.perf_counter(), 0.0, 0
        if done % ASK_EVERY == 0:
            over = most(time.perf_counter() - first, t.device) > SECONDS
    settle(t.device)
    seconds = time.perf_counter() - begun
    slowest, wait = most(seconds, t.device), most(waited / seconds, t.device)
    return Measured((done - cold) // accumulate, slowest, images * t.place.world / slowest, wait, _evaluation(t))


def _evaluation(t: Training) -> float:
    """Return images/s of evaluation of all ranks, by some seconds of it; 0 where there is none."""
    if t.val is None or parallel.is_fsdp(t.step.model):  # whose ranks would have to take as many batches
        return 0.0
    model = parallel.bare(t.step.model)
    model.eval()
    images, begun = 0, time.perf_counter()
    with torch.no_grad():
        for pixels, labels in t.val:
            correct(answers(t.s, model, pixels, t.device), labels.to(t.device))
            images += len(labels)
            if time.perf_counter() - begun > EVAL_SECONDS:
                break
    settle(t.device)
    return images * t.place.world / most(time.perf_counter() - begun, t.device)


def table(t: Training, m: Measured) -> list[str]:
    """Return the lines that say what the training would be."""
    s, feed = t.s, t.feed
    steps = feed.steps_per_epoch
    weights = sum(p.numel() for p in t.step.model.parameters())
    rest = "dropped" if feed.drop_last else "kept"
    average = ", and their average" if t.step.ema is not None else ""
    rows = {
        "model": f"{s.arch}, {weights:,} parameters ({size_text(4 * weights)}{average}), {len(t.classes):,} classes",
        "step": f"{feed.batch_size} images x {t.place.world} ranks x {s.accumulate} = {feed.images_per_step:,}; {s.optimizer}, "
        f"{s.schedule}, highest rate {s.lr:g}",
        "epoch": f"{len(feed.loader):,} batches, {steps:,} steps, {feed.samples_per_epoch:,} images; a rest is {rest}",
        "run": f"{s.epochs} epochs, {s.epochs * steps:,} steps",
        "memory": _memory(t.device),
        "measured": f"{m.steps:,} steps in {m.seconds:.1f} s: {m.images_per_second:,.0f} images/s, "
        f"{m.wait:.1%} of the time without data",
        "time": _time(t, m),
    }
    return [f"{name:<9}{text}" for name, text in rows.items()] + ["nothing was written; leave --dry-run out to train"]


def _memory(device: torch.device) -> str:
    host = size_text(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    if device.type != "cuda":
        return f"{host} of this process at most; there is no GPU"
    peak, whole = torch.cuda.max_memory_reserved(device), torch.cuda.get_device_properties(device).total_memory
    return f"{size_text(peak)} of the GPU's {size_text(whole)} at most; {host} of this process"


def _time(t: Training, m: Measured) -> str:
    """Return how long epochs and run take; images that grow cost by their pixels."""
    s, per_epoch = t.s, t.feed.samples_per_epoch / m.images_per_second
    pixels: list[float] = [(size_at(s, epoch) / size_at(s, 0)) ** 2 for epoch in range(s.epochs)]
    val = t.sets.samples[t.sets.val] if t.sets.val else 0
    scored = (2 if t.step.ema is not None else 1) * val / m.eval_per_second if m.eval_per_second else 0.0
    total = sum(per_epoch * p + scored for p in pixels)
    unknown = "" if scored or not val else " (not measured)"
    grown = f"; the last, with images of {s.size} pixels, about {_clock(per_epoch * pixels[-1])}" if pixels[-1] > 1 else ""
    return f"an epoch {_clock(per_epoch)}{grown}; its evaluation {_clock(scored)}{unknown}; the run {_clock(total)}"


def _clock(seconds: float) -> str:
    """Return a time for people: ``3.2 s``, ``12 min``, ``5.4 h``."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"
