"""Hugging Face's Trainer on one process and two: the samples of a plain loop, in training and evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from programs.conftest import plain, run

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
EPOCHS = 3


@pytest.mark.parametrize("processes", [1, 2])
def test_the_trainer_gives_the_samples_of_a_plain_loop(shards: Path, tmp_path: Path, processes: int) -> None:
    for rank, noted in enumerate(run("trainer_fit.py", shards, tmp_path / "out", processes)):
        want = plain(shards, rank, processes, EPOCHS, shuffle=True, seed=3)
        assert noted["trained"] == [batch for epoch in want for batch in epoch]
        assert noted["steps"] == sum(map(len, want))
        assert noted["evaluated"] == [batch for epoch in plain(shards, rank, processes, EPOCHS) for batch in epoch]
