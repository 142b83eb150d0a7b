"""What the programs of this folder share: their arguments, their loaders, and the file with a rank's notes."""

import argparse
import json
from pathlib import Path
from typing import Any

SMALL = [{"op": "Resize", "size": 40}, {"op": "CenterCrop", "size": 32}]
OPTIONS: dict[str, Any] = {"transform": SMALL, "normalize": "imagenet", "with_index": True, "num_workers": 1}


def arguments(*more: str, **numbers: int) -> argparse.Namespace:
    """Return data, out, and more arguments of the program; numbers are flags, with their defaults."""
    parser = argparse.ArgumentParser()
    for name in ("data", "out", *more):
        parser.add_argument(name)
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def write(out: str, rank: int, noted: dict[str, Any]) -> None:
    Path(out, f"rank{rank}.json").write_text(json.dumps(noted))


def sums(model: Any) -> list[float]:
    """Return the sum of each of a model's weights."""
    return [float(p.detach().double().sum()) for p in model.parameters()]
