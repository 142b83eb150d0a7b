"""Ignite on two processes, and going on in the middle of an epoch from its own checkpoint."""

from pathlib import Path

import pytest

from programs.conftest import plain, run

pytest.importorskip("ignite")
EPOCHS = 3
SAVED_AT = 3  # iterations, and each multiple of it: as in the program


def test_an_engine_gives_the_samples_of_a_plain_loop(shards: Path, tmp_path: Path) -> None:
    ranks = run("ignite_run.py", shards, tmp_path / "whole", 2)
    samples = sorted(i for epoch in plain(shards, 0, 1, 1) for batch in epoch for i in batch)
    steps = 0
    for rank, noted in enumerate(ranks):
        want = plain(shards, rank, 2, EPOCHS, shuffle=True, seed=3)
        steps = len(want[0])
        assert noted["trained"] == [[e, batch] for e, epoch in enumerate(want) for batch in epoch]
        once = plain(shards, rank, 2, EPOCHS, even_batches=False)
        assert noted["validated"] == [[e, batch] for e, epoch in enumerate(once) for batch in epoch]
        assert noted["counted"] == [len(samples)] * EPOCHS
    assert sorted(i for noted in ranks for e, batch in noted["validated"] if e == 0 for i in batch) == samples

    step = steps + SAVED_AT - steps % SAVED_AT  # of the second epoch, in its middle
    assert steps < step < 2 * steps
    checkpoint = str(tmp_path / "whole" / f"checkpoint_{step}.pt")
    for noted, rest in zip(ranks, run("ignite_run.py", shards, tmp_path / "resumed", 2, "--resume", checkpoint), strict=True):
        assert rest["trained"] == noted["trained"][step:]
        assert rest["validated"] == [[e, batch] for e, batch in noted["validated"] if e > 0]
        assert rest["weights"] == noted["weights"]
