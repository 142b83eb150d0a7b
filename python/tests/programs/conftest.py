"""Running a program of a framework on one process or two, and what a plain loop gives instead."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from imgfeed import DataLoader
from imgfeed.programs import find_binary

HERE = Path(__file__).resolve().parent
SMALL = [{"op": "Resize", "size": 40}, {"op": "CenterCrop", "size": 32}]
_OF_A_RANK = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all of this folder as long: a start of one of these programs takes many seconds, and most tests start several."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.long)


def run(program: str, shards: Path, out: Path, processes: int, *args: str, launch: bool = True) -> list[dict[str, Any]]:
    """Run a program of this folder, and return what each rank noted in rankN.json. launch has torchrun start the processes."""
    out.mkdir()
    command = [sys.executable]
    if launch and processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += [str(HERE / program), str(shards), str(out), *args]
    path = os.pathsep.join(p for p in sys.path if p)
    env = {k: v for k, v in os.environ.items() if k not in _OF_A_RANK}
    env |= {
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "IMGFEED_BIN": os.path.abspath(find_binary()),
    }
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Exception ignored" not in done.stderr
    return [json.loads((out / f"rank{rank}.json").read_text()) for rank in range(processes)]


def plain(shards: Path, rank: int, world: int, epochs: int, size: int = 8, **options: Any) -> list[list[list[int]]]:
    """Return the indices of every batch of a loop of one's own: one list for each epoch."""
    given: dict[str, Any] = {"framework": "numpy", "transform": SMALL, "with_index": True, "num_workers": 1, **options}
    with DataLoader(shards, size, rank=rank, world=world, **given) as loader:
        return [[batch[2].tolist() for batch in loader] for _ in range(epochs)]


def optimizer_steps(batches: int, epochs: int, accumulate: int) -> list[int]:
    """Return how many batches were seen at each optimizer step that sums so many; an epoch's last one may sum fewer."""
    ends = [*range(accumulate, batches, accumulate), batches]
    return [epoch * batches + end for epoch in range(epochs) for end in ends]
