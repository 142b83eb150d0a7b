"""A notebook's cell that is run twenty times, in a real kernel of Jupyter: no server is left over, and no memory."""

import json
import os
import sys
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

CELL = """
from imgfeed import DataLoader
small = [{{"op": "Resize", "size": 40}}, {{"op": "CenterCrop", "size": 32}}]
loader = DataLoader({data!r}, 8, shuffle=True, num_workers=1, transform=small)
for images, labels in loader:
    break
"""
COUNT = """
import gc, json, os, pathlib
gc.collect()
def parent(status): return int(status.read_text().split("PPid:")[1].split()[0])
servers = 0
for status in pathlib.Path("/proc").glob("[0-9]*/status"):
    try:
        servers += parent(status) == os.getpid()
    except OSError:
        pass
rings = pathlib.Path("/proc/self/maps").read_text().count("memfd:")
pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
print(json.dumps([servers, rings, pages * os.sysconf("SC_PAGE_SIZE")]))
"""


def test_a_cell_that_is_run_twenty_times(shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    cells = [nbformat.v4.new_code_cell(CELL.format(data=str(shards))) for _ in range(20)]
    counts = [nbformat.v4.new_code_cell(COUNT) for _ in range(3)]
    end = nbformat.v4.new_code_cell("del loader, images, labels")
    notebook = nbformat.v4.new_notebook(cells=[*cells[:3], counts[0], *cells[3:], counts[1], end, counts[2]])
    kernel = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "P",
        "language": "python",
    }
    folder = tmp_path / "share" / "kernels" / "here"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(kernel))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    nbclient.NotebookClient(notebook, kernel_name="here", timeout=120).execute()
    early, late, last = (json.loads(cell.outputs[0].text) for cell in notebook.cells if cell.source == COUNT)
    print(f"servers, rings and bytes after 3 runs {early}, after 20 {late}, after del {last}")
    assert late[:2] == early[:2] == [1, 1] and last[:2] == [0, 0]
    assert late[2] < early[2] + (8 << 20)
    assert all(not cell.outputs for cell in notebook.cells if cell.source != COUNT)  # nothing is printed either
