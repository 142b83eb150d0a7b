"""Hugging Face's Trainer on one process and two: the samples of a plain loop, after a checkpoint too."""

from pathlib import Path

import pytest

from programs.conftest import optimizer_steps, plain, run

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
EPOCHS = 3


@pytest.mark.parametrize("processes", [1, 2])
def test_the_trainer_gives_the_samples_of_a_plain_loop(shards: Path, tmp_path: Path, processes: int) -> None:
    ranks = run("trainer_fit.py", shards, tmp_path / "whole", processes)
    samples = len({i for epoch in plain(shards, 0, 1, 1) for batch in epoch for i in batch})
    steps = 0
    for rank, noted in enumerate(ranks):
        want = plain(shards, rank, processes, EPOCHS, shuffle=True, seed=3)
        steps = len(want[0])
        assert noted["trained"] == [batch for epoch in want for batch in epoch]
        assert noted["steps"] == EPOCHS * steps
        assert noted["evaluated"] == [batch for epoch in plain(shards, rank, processes, EPOCHS) for batch in epoch]
        assert noted["counted"] == [samples] * EPOCHS

    step = steps + 3 - steps % 3  # of the second epoch, in its middle
    assert steps < step < 2 * steps
    checkpoint = str(tmp_path / "whole" / f"checkpoint-{step}")
    resumed = run("trainer_fit.py", shards, tmp_path / "resumed", processes, "--resume", checkpoint)
    for noted, rest in zip(ranks, resumed, strict=True):
        assert rest["trained"] == noted["trained"][step:]
        assert (rest["steps"], rest["weights"]) == (noted["steps"], noted["weights"])  # and so the training is the same
        assert rest["counted"][-2:] == [samples] * 2


@pytest.mark.parametrize(("processes", "steps"), [(1, (3, 9)), (2, (2,))])
def test_a_resumed_trainer_makes_the_same_optimizer_steps(
    shards: Path, tmp_path: Path, processes: int, steps: tuple[int, ...]
) -> None:
    """Of batches that a sum of three does not divide. What was summed at an epoch's end must not go into the next step."""
    accumulate = ("--accumulate", "3")
    ranks = run("trainer_fit.py", shards, tmp_path / "whole", processes, *accumulate)
    want = optimizer_steps(len(plain(shards, 0, processes, 1)[0]), EPOCHS, 3)
    for step in steps:
        checkpoint = str(tmp_path / "whole" / f"checkpoint-{step}")
        resumed = run("trainer_fit.py", shards, tmp_path / f"{step}", processes, *accumulate, "--resume", checkpoint)
        for noted, rest in zip(ranks, resumed, strict=True):
            assert noted["optimized"] == want
            assert rest["optimized"] == [batches - want[step - 1] for batches in want[step:]]
            assert rest["trained"] == noted["trained"][want[step - 1] :]
            assert (rest["steps"], rest["weights"]) == (noted["steps"], noted["weights"]) and noted["steps"] == len(want)
