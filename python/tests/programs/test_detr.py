"""examples/detr/train.py: D-FINE of transformers trains on boxes, with the last epoch's plain transform."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import imgshard
from test_detection_data import coco  # noqa: F401 - it is a fixture.

pytest.importorskip("torch", minversion="2.0")
pytest.importorskip("transformers")
PROGRAM = Path(__file__).resolve().parents[3] / "examples" / "detr" / "train.py"


@pytest.mark.long
def test_it_learns(coco: Path, tmp_path: Path) -> None:  # noqa: F811
    imgshard("build", coco, "-o", tmp_path / "sets")
    sizes = ["--model", "tiny", "--batch-size", "3", "--epochs", "2", "--plain-epochs", "1"]
    command = [sys.executable, str(PROGRAM), str(tmp_path / "sets"), *sizes]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, env=env).stdout
    losses = [(epoch, float(loss)) for epoch, loss in re.findall(r"epoch (\d+): loss (\S+)", printed)]
    assert [epoch for epoch, _ in losses] == ["0", "0", "0", "1", "1", "1"]
    assert losses[-1][1] < losses[0][1]
