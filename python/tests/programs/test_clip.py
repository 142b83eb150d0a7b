"""examples/clip/train.py: learns which caption belongs to which image."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_captions import pairs

pytest.importorskip("torch", minversion="2.0")
PROGRAM = Path(__file__).resolve().parents[3] / "examples" / "clip" / "train.py"


def test_it_learns(images: Path, tmp_path: Path) -> None:
    out = pairs(images, tmp_path)
    command = [sys.executable, str(PROGRAM), str(out), "--batch-size", "16", "--steps", "40"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", printed)]
    assert len(losses) == 40 and sum(losses[-5:]) < sum(losses[:5])
