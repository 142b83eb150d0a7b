"""The tutorials, run from their text on small data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import imgshard

pytest.importorskip("torch", minversion="2.0")
pytest.importorskip("torchvision")
DOCS = Path(__file__).resolve().parents[3] / "docs" / "tutorials"


def blocks(page: str, kind: str) -> list[str]:
    """Return a page's blocks of code of a kind."""
    return re.findall(rf"^```{kind}[^\n]*\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def run(folder: Path, *args: str) -> list[tuple[str, str, str]]:
    """Run the script; return what it prints of each epoch: its number, the loss, how many samples were counted."""
    done = subprocess.run([sys.executable, "train.py", *args], check=False, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return re.findall(r"epoch (\d+): loss (\S+), \d+ of (\d+) right", done.stdout)


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch: apt install patch")
def test_replace_your_dataloader(tmp_path: Path) -> None:
    imgshard("synth", tmp_path / "data", "--classes", "4", "--train", "12", "--val", "5", "--size", "100")
    (script,), (loaders, resuming) = blocks("replace.md", "python"), blocks("replace.md", "diff")
    (tmp_path / "train.py").write_text(script)
    before = run(tmp_path, "data")
    shell = (blocks("replace.md", "sh"))[0]
    programs = str(Path(os.environ["IMGFEED_BIN"]).parent)
    subprocess.run(shell, shell=True, check=True, cwd=tmp_path, env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
    for diff in (loaders, resuming):
        subprocess.run(["patch", "--fuzz=0", "train.py"], input=diff, text=True, check=True, cwd=tmp_path)
    after = run(tmp_path, "data")
    for printed in (before, after):
        assert [(epoch, seen) for epoch, _, seen in printed] == [("0", "20"), ("1", "20")]
    again = run(tmp_path, "data", "checkpoint.pt")  # which was saved after the last step
    assert again == [("1", "0.000", "20")]
    script = (tmp_path / "train.py").read_text()
    saving = next(line for line in script.splitlines() if "torch.save" in line)
    (tmp_path / "train.py").write_text(script.replace(saving, f"{saving}\n        if epoch and len(sys.argv) == 2: sys.exit()"))
    assert [epoch for epoch, _, _ in run(tmp_path, "data")] == ["0"]
    ((epoch, loss, seen),) = run(tmp_path, "data", "checkpoint.pt")
    assert (epoch, seen) == ("1", "20") and float(loss) > 0
