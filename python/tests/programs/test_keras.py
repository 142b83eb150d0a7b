"""Keras 3 on JAX and on torch: fit and evaluate in every epoch."""

import importlib.util
from pathlib import Path

import pytest

from programs.conftest import plain, run

EPOCHS = 3


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_fit_gives_the_samples_of_a_plain_loop(
    shards: Path, tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("keras", backend):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"could not import {package!r}")
    monkeypatch.setenv("KERAS_BACKEND", backend)
    (noted,) = run("keras_fit.py", shards, tmp_path / "out", 1)
    assert noted["backend"] == backend
    assert noted["trained"] == plain(shards, 0, 1, EPOCHS, shuffle=True, seed=3)
    assert noted["validated"] == plain(shards, 0, 1, EPOCHS)
    samples = len({i for batch in noted["validated"][0] for i in batch})
    assert noted["counts"] == [[samples, samples]] * EPOCHS
