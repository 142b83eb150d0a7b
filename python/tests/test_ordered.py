"""The lines that the system was ordered in, typed as they stand: both commands, and a DataLoader instead of torch's."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest
from conftest import imgshard

from imgfeed import DataLoader
from imgfeed.programs import find_binary

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ORDERED = ("imgshard build /data/train", "imgfeed serve --rank 1 --world 2")
#: Runs a command in a root of its own: that of the machine, where /data is another folder.
WITH_DATA = """
root=$1 data=$2; shift 2
mount -t tmpfs none "$root" || exit
for entry in /*; do
  if [ -L "$entry" ]; then cp -P "$entry" "$root/"
  elif [ -d "$entry" ] && [ "$entry" != /data ]; then mkdir "$root$entry" && mount --rbind "$entry" "$root$entry" || exit
  fi
done
mkdir "$root/data" && mount --bind "$data" "$root/data" && exec chroot "$root" "$@"
"""


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a line that somebody types in a folder of a machine whose /data/train has 16 images of 2 classes."""
    needs.programs("unshare")
    for name in ("IMGFEED_DATA", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "root").mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("imgshard", "imgfeed"):
        (tmp_path / "bin" / name).symlink_to(Path(find_binary(name)).resolve())
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": str(tmp_path)}
    inside = [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        WITH_DATA,
        "sh",
        str(tmp_path / "root"),
        str(tmp_path / "data"),
    ]
    imgshard("synth", tmp_path / "data", "--classes", "2", "--train", "8", "--val", "0", "--size", "40")
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a user namespace in which it may mount")
    started: list[subprocess.Popen[str]] = []

    def start(line: str, folder: str = "/") -> subprocess.Popen[str]:
        command = [*inside, "sh", "-c", f"cd {folder} && exec {line}"]
        started.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()


def batches(loader: DataLoader) -> list[Any]:
    with loader:
        return [(images.copy(), labels.copy()) for images, labels in loader]


def test_the_lines_as_ordered(typed: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    assert all(f"\n{line}\n" in README for line in ORDERED)
    build, serve = ORDERED
    packing = typed(build)
    said, _ = packing.communicate()
    assert packing.returncode == 0, said
    options: dict[str, Any] = {"split": "train", "batch_size": 256, "transform": "train", "world": 2, "framework": "numpy"}
    first, second = (batches(DataLoader(tmp_path / "data", rank=rank, **options)) for rank in (0, 1))
    for folder, where in (("/", "/data (the usual folder)"), ("/data/train", "/data/train-shards (beside the working folder)")):
        server, said = typed(serve, folder), ""
        for line in server.stdout:
            said += line
            if connect := re.match(r"connect with (DataLoader\(.*\))$", line):
                break
        assert connect, said
        assert f"serves {where}, by default to rank 1 of 2\n" in said
        loader = eval(connect[1], {"DataLoader": partial(DataLoader, framework="numpy")})
        assert (loader.rank, loader.world) == (1, 2)
        got = batches(loader)
        assert [len(labels) for _, labels in (*got, *first)] == [8, 8]
        assert all(np.array_equal(a, b) for a, b in zip(got[0], second[0], strict=True))
        assert not np.array_equal(got[0][0], first[0][0])
        server.terminate()
        server.wait()


def test_the_commands_of_make_that_readme_names() -> None:
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"^make ([a-z-]+)", README, re.MULTILINE)
    assert {"demo", "test"} <= set(named) <= set(targets)
