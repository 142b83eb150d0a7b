"""The arguments of ``imgfeed-train bench``, apart from it: they need no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import flags, settings
from .flags import COUNT, COUNT_OR_0, Range, option
from .settings import Settings


@dataclass(kw_only=True)
class BenchSettings(Settings):
    """A training's settings, and how to measure."""

    images: str | None = option(
        None, "the training images as a folder of class folders, for torchvision's DataLoader", group="measuring"
    )
    torch_workers: int = option(0, "its worker processes a rank; 0: as --workers, or the CPUs", within=Range(0, 4096))
    rounds: int = option(5, "how often each source has its turn", within=COUNT)
    steps: int = option(50, "timed steps of each source in a round", within=COUNT)
    warmup: int = option(20, "steps before them", within=COUNT_OR_0)
    json: str | None = option(None, "file for the readings of all rounds")


def parse(arguments: Sequence[str]) -> BenchSettings:
    """Return the settings: bench's own, and any of a training."""
    p = flags.Parser(
        prog="imgfeed-train bench",
        usage="imgfeed-train bench --data DATA [--images FOLDER] [--recipe NAME] [FLAG ...]",
        description="Images/s of a model with this feed, with batches that are there already, and with torchvision's loader.",
    )
    flags.add(p, BenchSettings)
    s = settings.gather(p, BenchSettings, vars(p.parse_args(arguments)))
    if s.images and not Path(s.images).is_dir():
        p.error(f"--images {s.images}: there is no such folder")
    s.val_split = "none"
    s.size_start = 0  # all sources have images of --size
    return s
