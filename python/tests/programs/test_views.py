"""examples/views/pretrain.py: every recipe starts, and goes on within an epoch with the same losses."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", minversion="2.0")
PROGRAM = Path(__file__).resolve().parents[3] / "examples" / "views" / "pretrain.py"


@pytest.fixture
def losses(shards: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Run the program, and return the losses that it prints."""
    spec = importlib.util.spec_from_file_location("pretrain", PROGRAM)
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)

    def run(recipe: str, *args: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["pretrain.py", str(shards), recipe, "--model", "tiny", "--batch-size", "8", *args])
        program.main()
        return re.findall(r"loss (\d+\.\d+)", capsys.readouterr().out)

    return run


@pytest.mark.parametrize("recipe", ["simclr", "byol", "moco-v3", "dinov2"])
def test_recipes_start(losses: Callable[..., list[str]], recipe: str) -> None:
    seen = losses(recipe, "--steps", "2")
    assert len(seen) == 2 and all(0 < float(loss) < 1000 for loss in seen)


def test_dino_goes_on_within_an_epoch(losses: Callable[..., list[str]], tmp_path: Path) -> None:
    whole = losses("dino", "--steps", "3")
    first = losses("dino", "--steps", "2", "--output", str(tmp_path / "run"))
    rest = losses("dino", "--steps", "1", "--output", str(tmp_path / "run"))
    assert first + rest == whole and len(whole) == 3
