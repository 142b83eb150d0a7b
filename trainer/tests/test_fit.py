"""The largest batch: which errors count, what is left as it was, and that all ranks take the smallest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from imgfeed_train.errors import TrainError
from imgfeed_train.model import largest_batch as fit
from imgfeed_train.settings import parse

CPU = torch.device("cpu")


@pytest.mark.parametrize("most", [8, 100, 1016, 5000])
def test_running_out_of_memory_bounds_the_search(most: int) -> None:
    tried: list[int] = []

    def run(size: int) -> None:
        tried.append(size)
        if size > most:
            raise (torch.cuda.OutOfMemoryError if len(tried) % 2 else RuntimeError)("CUDA out of memory. Tried to allocate")

    assert fit.search(run, CPU) == most // 8 * 8
    assert tried[:4] == [8, 16, 32, 64][: len(tried[:4])]  # doubles, and then halves the distance
    assert len(tried) <= 22


def test_other_errors_are_not_taken_for_memory() -> None:
    def run(size: int) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        fit.search(run, CPU)

    def never(size: int) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(TrainError, match="not even 8 images fit"):
        fit.search(never, CPU)


def test_a_try_leaves_no_trace() -> None:
    s = parse(["--data", "d", "--output", "o", "--size", "8"])
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.LazyLinear(3))
    model(torch.randn(2, 3, 8, 8))
    state, drawn = {name: tensor.clone() for name, tensor in model.state_dict().items()}, torch.get_rng_state()
    fit._try(model, s, CPU, 3, 16)
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(p.grad is None for p in model.parameters())


RANK = """
import sys, torch, torch.distributed as dist
from imgfeed_train.model import largest_batch as fit
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
def run(size):
    if size > (300, 120)[rank]:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")
print(fit.search(run, torch.device("cpu")))
dist.destroy_process_group()
"""


@pytest.mark.long
def test_all_ranks_take_the_smallest(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RANK]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "meet")], stdout=subprocess.PIPE, text=True) for rank in range(2)
    ]
    assert [rank.communicate(timeout=300)[0].strip() for rank in ranks] == ["120", "120"]
