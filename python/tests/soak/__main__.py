"""Run a soak: ``python -m soak --minutes 60 --seed 1``. The exit status is 0 where nothing differs, grows or is left."""

import argparse
import os
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from . import proof
from .director import Director
from .events import KINDS


def table(title: str, counts: Mapping[str, int]) -> None:
    print(f"{title}: " + (", ".join(f"{name} {n:,}" for name, n in sorted(counts.items())) or "none"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, help="of the events; one is drawn, and printed, if not given")
    parser.add_argument("--keep", type=Path, help="a folder for everything that is written, which stays")
    options = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    print(f"soak: {options.minutes:g} minutes; SEED={seed} repeats the events", flush=True)

    root = options.keep or Path(tempfile.mkdtemp(prefix="soak-"))
    files = len(os.listdir("/proc/self/fd"))
    director = Director(root, seed)
    meter = proof.Meter(min(60.0, options.minutes * 60 / 12))
    try:
        seconds = director.run(options.minutes * 60, meter)
        proof.check_leftovers(director)
        counts = proof.check_books(director)
        counts.update(proof.check_notes(director))
        lines = meter.check(director) if options.minutes >= 10 else []
        if len(os.listdir("/proc/self/fd")) > files:
            director.failures.append("the soak itself has more descriptors than before")
    finally:
        director.close()
    print(f"ran {seconds:.0f} s with {sum(director.done.values())} events of {len(KINDS)} kinds")
    table("events", director.done)
    table("events with nothing to do them to", director.void)
    table("seen", counts)
    print(*lines, sep="\n")
    if not director.mounted:
        print("fill disk: skipped: needs root, and may mount a tmpfs")
    if director.failures:
        print(f"{len(director.failures)} failures; what was written is in {root}")
        table("failures", Counter(director.failures))
        return 1
    print("every sample that a survivor saw is the plan's; nothing is left")
    if options.keep is None:
        shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
