"""Packing once, into a cache: under a name made of what is packed, by one process of many, whole or not at all."""

import logging
import os
import random
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE, SAMPLES, script, wait_for

from imgfeed import DataLoader, ImgfeedError
from imgfeed._arguments.packing import Packed, Source, cache_folder, pack
from imgfeed._arguments.torchsets import listed
from imgfeed.programs import find_binary


def files(root: Path) -> Source:
    """What is packed: the files in class folders."""
    classes = sorted(os.listdir(root))
    return listed(
        str(root), [(str(path), classes.index(path.parent.name)) for path in sorted(root.rglob("*.*"))], classes, "folder"
    )


@pytest.fixture
def copy(images: Path, tmp_path: Path) -> Path:
    """Images that a test may change."""
    return Path(shutil.copytree(images, tmp_path / "train"))


def test_the_set_has_the_samples_and_their_indices(images: Path, tmp_path: Path) -> None:
    source = files(images)
    packed = pack(source, tmp_path)
    assert packed.is_whole and packed.folder.parent == tmp_path and packed.folder.name.startswith("train-")
    indices = packed.indices()
    assert sorted(indices) == list(range(SAMPLES))
    with DataLoader(packed.set, 8, num_workers=1) as loader:
        assert [loader.dataset.key(int(i)) for i in indices[:5]] == source.keys[:5]
        assert np.array_equal(loader.dataset.targets[indices], source.labels)


def test_what_is_in_the_cache_is_found_unless_it_changed(copy: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = tmp_path / "cache"

    def packs() -> int:
        caplog.clear()
        with caplog.at_level(logging.INFO, "imgfeed"):
            assert pack(files(copy), cache).is_whole
        return caplog.text.count("once, into")

    assert packs() == 1 and str(cache / "train-") in caplog.text
    assert packs() == 0 and "is packed already" in caplog.text
    image = next(copy.rglob("*.JPEG"))
    os.utime(image, (1, 1))
    assert packs() == 1
    image.rename(image.with_name('a, "b".JPEG'))
    assert packs() == 1
    assert len(list(cache.iterdir())) == 3  # neither locks nor what is unfinished
    assert all((one / "source.json").is_file() for one in cache.iterdir())


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder(None) == tmp_path / "imgfeed"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder(None) == Path("/home/somebody/.cache/imgfeed")
    assert cache_folder("~/here") == Path("/home/somebody/here")


def test_a_file_that_is_no_image_is_named(copy: Path, tmp_path: Path) -> None:
    broken = next(copy.rglob("*.JPEG"))
    broken.write_bytes(b"no image")
    with pytest.raises(ImgfeedError, match=f"(?s)imgshard could not pack this.*{broken.name}"):
        pack(files(copy), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_files_that_change_while_they_are_packed(copy: Path, tmp_path: Path) -> None:
    source = files(copy)

    def stage(folder: Path) -> list[str]:
        os.utime(next(copy.rglob("*.JPEG")), (1, 1))
        return source.stage(folder)

    with pytest.raises(ImgfeedError, match="has changed while it was packed"):
        pack(replace(source, stage=stage), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


PACK = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background of a shell ignores it
sys.path.insert(0, sys.argv[3])
from imgfeed._arguments.packing import pack
from test_packing import files
print(len(pack(files(Path(sys.argv[1])), Path(sys.argv[2])).indices()))
"""


def start(images: Path, cache: Path) -> object:
    """Start a process that packs."""
    return script(PACK, str(images), str(cache), str(Path(__file__).parent))


def test_processes_that_start_together_pack_once(images: Path, tmp_path: Path) -> None:
    together = [start(images, tmp_path) for _ in range(4)]
    outputs = [process.communicate(timeout=PATIENCE) for process in together]
    assert [out.strip() for out, _ in outputs] == [str(SAMPLES)] * 4, outputs
    assert sum(errors.count("once, into") for _, errors in outputs) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_interrupted_leaves_nothing(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends imgshard too. A process that is killed leaves imgshard, which has the lock."""
    programs, cache, begun = tmp_path / "bin", tmp_path / "cache", tmp_path / "begun"
    programs.mkdir()
    slow = programs / "imgshard"
    slow.write_text(f"#!/bin/sh\necho $$ >{begun}.part && mv {begun}.part {begun}\nexec sleep 600\n")
    slow.chmod(0o755)
    shutil.copy(find_binary(), programs / "imgfeed")
    monkeypatch.setenv("IMGFEED_BIN", str(programs / "imgfeed"))
    with start(images, cache) as process:
        wait_for(begun.exists)
        assert sorted(one.suffix for one in cache.iterdir()) == [".lock", ".partial"]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode and "KeyboardInterrupt" in errors
    assert list(cache.iterdir()) == []

    begun.unlink()
    with start(images, cache) as process:
        wait_for(begun.exists)
        process.kill()
    monkeypatch.undo()
    with start(images, cache) as process:
        assert "another process packs; waiting" in process.stderr.readline()
        os.kill(int(begun.read_text()), signal.SIGKILL)
        out, _ = process.communicate(timeout=PATIENCE)
    assert out.strip() == str(SAMPLES)
    assert [Packed(one, SAMPLES).is_whole for one in cache.iterdir()] == [True]


def test_damaged_indices_are_named(copy: Path, tmp_path: Path) -> None:
    """Whatever becomes of the file, the indices are those that were packed, or an error says what to remove."""
    packed = pack(files(copy), tmp_path / "cache")
    path, before = packed.folder / "places.npy", packed.indices()
    count, seed = (int(n) for n in os.environ.get("IMGFEED_HOSTILE_FILES", "300,1").split(","))
    whole, rng = path.read_bytes(), random.Random(seed)
    long, objects = whole.replace(b"(%d,)" % SAMPLES, b"(10000000000,)"), whole.replace(b"<i8", b"|O8")
    hostile = [b"", b"PK\3\4", whole[:-1], whole + whole, long, objects]
    for data in [*hostile, *(garbled(whole, rng) for _ in range(count))]:
        path.write_bytes(data)
        try:
            assert np.array_equal(packed.indices(), before)
        except ImgfeedError as e:
            assert str(path) in str(e) and f"remove {packed.folder}" in str(e)


def garbled(data: bytes, rng: random.Random) -> bytes:
    """Return a file with some bytes changed, lost or added."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out) + 1)
        out[at : at + rng.choice([0, 1, 1, 1, 8])] = rng.randbytes(rng.choice([0, 1, 1, 1, 8]))
    return bytes(out)
