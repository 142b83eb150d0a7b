"""examples/views/pretrain.py: every recipe starts, and goes on within an epoch with the same losses."""

import importlib.util
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch", minversion="2.0")
PROGRAM = Path(__file__).resolve().parents[3] / "examples" / "views" / "pretrain.py"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    """The program as a module."""
    spec = importlib.util.spec_from_file_location("pretrain", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def losses(
    program: ModuleType, shards: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """Run the program, and return the losses that it prints."""

    def run(recipe: str, *args: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["pretrain.py", str(shards), recipe, "--model", "tiny", "--batch-size", "8", *args])
        program.main()
        return re.findall(r"loss (\d+\.\d+)", capsys.readouterr().out)

    return run


@pytest.mark.parametrize("recipe", ["simclr", "byol", "moco-v3", "dinov2"])
def test_recipes_start(losses: Callable[..., list[str]], recipe: str) -> None:
    seen = losses(recipe, "--steps", "2")
    assert len(seen) == 2 and all(0 < float(loss) < 20 for loss in seen)


def test_dino_goes_on_within_an_epoch(losses: Callable[..., list[str]], tmp_path: Path) -> None:
    whole = losses("dino", "--steps", "3")
    first = losses("dino", "--steps", "2", "--output", str(tmp_path / "run"))
    rest = losses("dino", "--steps", "1", "--output", str(tmp_path / "run"))
    assert first + rest == whole and len(whole) == 3


def test_ctrl_c_keeps_the_step_under_way(
    losses: Callable[..., list[str]], program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = ["--output", str(tmp_path / "run")]
    whole = losses("simclr", "--steps", "2")
    before, step = signal.getsignal(signal.SIGINT), program.Run.step

    def interrupted(self: object, views: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return step(self, views)

    with monkeypatch.context() as patched:
        patched.setattr(program.Run, "step", interrupted)
        first = losses("simclr", *run)
    assert signal.getsignal(signal.SIGINT) is before
    assert first + losses("simclr", "--steps", "1", *run) == whole


def test_mistakes_are_one_line(losses: Callable[..., list[str]], tmp_path: Path) -> None:
    run = ["--output", str(tmp_path / "run"), "--steps", "1"]
    losses("simclr", *run)
    for args, said in (
        (["byol", *run], "is of simclr with --model tiny: take another --output"),
        (["simclr", "--batch-size", "200"], "do not fill a batch"),
        (["simclr", "--model", "vit_b_16"], "vit_b_16 has no last layer named fc"),
    ):
        with pytest.raises(SystemExit, match=said):
            losses(*args)


@pytest.mark.parametrize(
    ("flag", "value"), [("steps", "0"), ("epochs", "-3"), ("rate", "nan"), ("momentum", "7.0"), ("seed", str(-(2**63) - 1))]
)
def test_numbers_out_of_range_are_refused(
    losses: Callable[..., list[str]], flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        losses("simclr", f"--{flag}", value)
    assert f"--{flag} is {value}, want" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_told_at_once(losses: Callable[..., list[str]], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="Not a directory"):
        losses("simclr", "--output", str(tmp_path / "file" / "run"))
