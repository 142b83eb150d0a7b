"""mypy and pyright know what a loader gives, and which arguments it takes: tests/typed.py, whose ignores must all be needed."""

import os
import subprocess
import sys
from pathlib import Path

import needs
import pytest

TYPED = Path(__file__).with_name("typed.py")


@pytest.mark.long
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_program_that_uses_the_loader(checker: str, tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    needs.programs(checker, also=str(folder))
    command = [str(needs.find(checker, f"{folder}:{os.environ['PATH']}"))]
    if checker == "mypy":
        command += ["--strict", "--cache-dir", str(tmp_path)]
    root = str(TYPED.parents[1])
    env = {**os.environ, "MYPYPATH": root, "PYTHONPATH": root, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run([*command, str(TYPED)], capture_output=True, text=True, check=False, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
