"""The demo, from images to a contact sheet, and no process left behind."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE

import imgfeed


@pytest.mark.long
def test_demo_ends_and_leaves_a_contact_sheet(images: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    command = [sys.executable, "-m", "imgfeed.demo", "--data", str(images), "--out", str(tmp_path), "--batch-size", "16"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()[-4:]] == [
        "rank 0",
        "rank 1",
        "together",
        "What a model sees",
    ]
    first, second, both = (float(rate.replace(",", "")) for rate in re.findall(r"([\d,]+) images/s", done.stdout)[-3:])
    assert both > min(first, second)  # twice that, as they begin at the same time
    with image.open(tmp_path / "contact-sheet.png") as sheet:
        assert sheet.size == (8 * 224, 4 * 224)


def test_the_package_lists_its_tools() -> None:
    listed = subprocess.run([sys.executable, "-m", "imgfeed"], capture_output=True, text=True, check=True).stdout
    modules = Path(imgfeed.__file__).parent.glob("*.py")
    tools = {path.stem for path in modules if '__name__ == "__main__"' in path.read_text()}
    assert tools == set(re.findall(r"python -m imgfeed\.(\w+)", listed))
