"""Hugging Face's Trainer: the samples of a plain loop, and an evaluation that counts each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from programs.conftest import plain, run

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
EPOCHS = 3


def test_the_trainer_gives_the_samples_of_a_plain_loop(shards: Path, tmp_path: Path) -> None:
    (noted,) = run("trainer_fit.py", shards, tmp_path / "out", 1)
    want = plain(shards, 0, 1, EPOCHS, shuffle=True, seed=3)
    assert noted["trained"] == [batch for epoch in want for batch in epoch]
    assert noted["steps"] == sum(map(len, want))
    assert noted["evaluated"] == [batch for epoch in plain(shards, 0, 1, EPOCHS) for batch in epoch]
