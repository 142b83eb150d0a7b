"""Disks that fail under a running server: a row of docs/reliability.md for each way."""

import errno
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
from conftest import RANDOM, SMALL, STANDSTILL, Server, halt, imgshard, seen
from faultfs import Disk, Fault
from reliability import outcome

import imgfeed
from imgfeed import DataLoader
from imgfeed.programs import find_binary

OPTIONS: dict[str, Any] = {
    "framework": "numpy", "with_index": True, "transform": RANDOM, "shuffle": True, "seed": 3, "num_workers": 1, "slots": 2
}  # fmt: skip
FIRST = "rank-0000/00000.imgshard"
Seen = list[tuple[int, str]]

fuse = pytest.mark.skipif(
    not needs.can_mount() or not os.access("/dev/fuse", os.W_OK), reason="may not mount, or has no /dev/fuse"
)
mounts = pytest.mark.skipif(not needs.can_mount(), reason="may not mount")


def files(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def pixels(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images as pixels, whose records are mapped."""
    out = tmp_path_factory.mktemp("pixels") / "train-shards"
    imgshard("build", images, "-o", out, "--encoding", "pixels", "--resize", "64")
    return out


@pytest.fixture
def copy(shards: Path, tmp_path: Path) -> Path:
    """A set that a test may damage."""
    return Path(shutil.copytree(shards, tmp_path / "train-shards"))


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Disk]]:
    """Mounts folders on disks that fail."""
    disks: list[Disk] = []

    def mount(source: Path, **options: Any) -> Disk:
        disks.append(Disk(source, tmp_path / "mounted-shards", **options))
        return disks[-1]

    yield mount
    for disk in disks:
        disk.end()


def plan(data: Path, **options: Any) -> Seen:
    """What an epoch gives when nothing happens."""
    with DataLoader(data, 4, **{**OPTIONS, **options}) as loader:
        return seen(loader)


def middle(path: Path) -> int:
    """A byte of a record in the middle of a shard."""
    return path.stat().st_size // 2


def until_it_fails(loader: DataLoader, kind: type[Exception], then: Callable[[], None]) -> tuple[Seen, Exception]:
    """Iterate to an error, mend what is broken, and go on from the loader's own state; return all of it."""
    got: Seen = []
    with pytest.raises(kind) as caught:
        for batch in loader:
            got += seen([batch])
    then()
    loader.load_state_dict(loader.state_dict())
    return got + seen(loader), caught.value


@fuse
def test_a_read_that_ends_in_an_error(shards: Path, mounted: Callable[..., Disk]) -> None:
    disk, at = mounted(shards), middle(shards / FIRST)
    with DataLoader(disk.path, 4, **OPTIONS) as loader:
        disk.fail(Fault("00000.imgshard", errno=errno.EIO, first=at, end=at + 1))
        got, error = until_it_fails(loader, imgfeed.ServerError, disk.heal)
    assert got == plan(shards)
    outcome(
        "a read of a sample ends in EIO", "an error instead of the batch; once the disk works again, the epoch continues", error
    )


@fuse
def test_a_mapped_page_that_cannot_be_read(pixels: Path, mounted: Callable[..., Disk]) -> None:
    disk, at = mounted(pixels, direct=False), middle(pixels / FIRST)
    with DataLoader(disk.path, 4, **OPTIONS) as loader:
        disk.fail(Fault("00000.imgshard", errno=errno.EIO, first=at, end=at + 1))
        got, error = until_it_fails(loader, imgfeed.ImgfeedError, disk.heal)
    assert got == plan(pixels)
    assert FIRST in str(error) and "at byte" in str(error)
    outcome("a read of a sample of a `pixels` set ends in EIO", "the same", error)


@fuse
def test_a_disk_that_fails_all_over(shards: Path, mounted: Callable[..., Disk]) -> None:
    disk = mounted(shards)
    disk.fail(Fault("00000.imgshard", errno=errno.EIO))
    with pytest.raises(imgfeed.ServerError) as caught:
        DataLoader(disk.path, 4, **OPTIONS)
    outcome("every read ends in EIO when a server starts", "it does not start", caught.value)


@fuse
def test_reads_that_give_less(shards: Path, mounted: Callable[..., Disk]) -> None:
    disk = mounted(shards)
    with DataLoader(disk.path, 4, **OPTIONS) as loader:
        disk.fail(Fault("00000.imgshard", short=1000))
        assert seen(loader) == plan(shards)
    outcome("reads return fewer bytes than requested", "the same batches: the rest is read too")


@fuse
@pytest.mark.parametrize("direct", [True, False])
def test_a_disk_that_stops(shards: Path, pixels: Path, mounted: Callable[..., Disk], *, direct: bool) -> None:
    data = shards if direct else pixels
    disk = mounted(data, direct=direct)
    with DataLoader(disk.path, 4, **OPTIONS) as loader:
        halt(disk.process.pid)
        begin = time.monotonic()
        threading.Timer(STANDSTILL, os.kill, (disk.process.pid, signal.SIGCONT)).start()
        assert seen(loader) == plan(data)
        assert time.monotonic() - begin > 0.9 * STANDSTILL
        assert loader.stats()["reconnects"] == 0
    outcome("the disk hangs for a while", "batches wait for it, and stay the same")


@fuse
def test_a_disk_that_is_torn_out(shards: Path, mounted: Callable[..., Disk], tmp_path: Path) -> None:
    disk = mounted(shards)
    disk.fail(Fault("00000.imgshard", seconds=0.05))  # or all of the set could be in memory before it goes
    server = Server(disk.path, tmp_path / "sock")
    server.start()
    with DataLoader(f"unix:{server.socket}", 4, **{**OPTIONS, "num_workers": 0}) as loader:

        def mount_again() -> None:
            disk.end()
            mounted(shards)
            subprocess.run([find_binary(), "reload", "--socket", str(server.socket)], check=True)

        iteration = iter(loader)
        first = seen([next(iteration)])
        disk.process.kill()
        with pytest.raises(imgfeed.ServerError) as caught:
            for batch in iteration:
                first += seen([batch])
        mount_again()
        loader.load_state_dict(loader.state_dict())
        assert first + seen(loader) == plan(shards)
    server.end(signal.SIGTERM)
    said = "an error; after a new mount and a reload the epoch continues"
    # Which read is the first to fail is chance, and those under way are told something else than those that come later.
    read = re.sub(r"(?<=rank-)\d+|software caused connection abort|transport endpoint is not connected", "…", str(caught.value))
    outcome("the file system disappears, as network mounts do", said, type(caught.value)(read))


@mounts
def test_a_disk_that_is_unmounted(shards: Path, tmp_path: Path) -> None:
    (tmp_path / "train-shards").mkdir()
    subprocess.run(["mount", "--bind", shards, tmp_path / "train-shards"], check=True)
    with DataLoader(tmp_path / "train-shards", 4, **OPTIONS) as loader:
        busy = subprocess.run(["umount", tmp_path / "train-shards"], capture_output=True, text=True, check=False)
        subprocess.run(["umount", "--lazy", tmp_path / "train-shards"], check=True)
        assert seen(loader) == plan(shards)
    assert "busy" in busy.stderr
    outcome("the set is unmounted", "the same batches: `umount` says that it is busy, and `umount --lazy` waits for the server")


def test_a_shard_that_is_cut_short(copy: Path, shards: Path) -> None:
    with DataLoader(copy, 4, **OPTIONS) as loader:
        os.truncate(copy / FIRST, middle(copy / FIRST))
        got, error = until_it_fails(loader, imgfeed.CorruptError, lambda: _put_back(shards, copy))
    assert got == plan(shards)
    outcome("a shard is truncated", "an error; once the bytes are restored, the epoch continues", error)


def test_a_mapped_shard_that_is_cut_short(pixels: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(pixels, tmp_path / "train-shards"))
    with DataLoader(copy, 4, **OPTIONS) as loader:
        os.truncate(copy / FIRST, middle(copy / FIRST))
        got, error = until_it_fails(loader, imgfeed.CorruptError, lambda: _put_back(pixels, copy))
    assert got == plan(pixels)
    assert FIRST in str(error) and "at byte" in str(error)
    outcome("a shard of a `pixels` set is truncated", "the same", error)


def _put_back(good: Path, copy: Path) -> None:
    """Write a shard's bytes into the very file that a server has open."""
    with (copy / FIRST).open("r+b") as f:
        f.write((good / FIRST).read_bytes())


def test_a_shard_that_is_written_over(copy: Path, shards: Path) -> None:
    with DataLoader(copy, 4, **OPTIONS) as loader:
        with (copy / FIRST).open("r+b") as f:
            f.seek(middle(copy / FIRST))
            f.write(b"\0" * 64)
        got, error = until_it_fails(loader, imgfeed.CorruptError, lambda: _put_back(shards, copy))
    assert got == plan(shards)
    outcome("bytes of a shard change", "an error; once the bytes are restored, the epoch continues", error)


def test_a_set_that_is_repaired_under_its_server(copy: Path, shards: Path, tmp_path: Path) -> None:
    server = Server(copy, tmp_path / "sock")
    server.start()
    with (copy / FIRST).open("r+b") as f:
        f.seek(middle(copy / FIRST))
        f.write(bytes(64))

    def repair() -> None:
        imgshard("copy", shards, copy)
        subprocess.run([find_binary(), "reload", "--socket", str(server.socket)], check=True)

    with DataLoader(f"unix:{server.socket}", 4, **{**OPTIONS, "num_workers": 0}) as loader:
        got, _ = until_it_fails(loader, imgfeed.CorruptError, repair)
    server.end(signal.SIGTERM)
    assert got == plan(shards)
    assert files(copy) == files(shards)
    said = "after `imgshard copy` of a good set and `imgfeed reload` the epoch continues"
    outcome("a damaged sample is restored while the server runs", said)


@pytest.mark.parametrize("how", ["replaced", "deleted", "chmod"])
def test_a_shard_that_is_taken_away(copy: Path, shards: Path, images: Path, tmp_path: Path, how: str) -> None:
    with DataLoader(copy, 4, **OPTIONS) as loader:
        if how == "replaced":
            imgshard("build", images, "-o", tmp_path / "other-shards", "--seed", "9")
            (tmp_path / "other-shards" / FIRST).rename(copy / FIRST)
        elif how == "deleted":
            shutil.rmtree(copy)
        else:
            (copy / FIRST).chmod(0)
        assert seen(loader) == plan(shards)
    outcome("a shard is replaced, deleted, or made unreadable (`chmod 0`)", "the same batches: a server keeps its shards open")


@fuse
def test_a_shard_that_may_not_be_read(shards: Path, mounted: Callable[..., Disk]) -> None:
    disk = mounted(shards)
    disk.fail(Fault("00000.imgshard", on="open", errno=errno.EACCES))
    with pytest.raises(imgfeed.ServerError) as caught:
        DataLoader(disk.path, 4, **OPTIONS)
    outcome("a server may not read the shards", "it does not start", caught.value)


@mounts
def test_a_disk_that_is_full(images: Path, shards: Path, tmp_path: Path) -> None:
    """Packing needs room, serving does not."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk], check=True)
    try:
        command = [find_binary("imgshard"), "build", str(images), "-o", str(disk / "train-shards"), "--partitions", "2"]
        failed = subprocess.run(command, capture_output=True, text=True, check=False)
        assert failed.returncode == 1 and list(disk.iterdir()) == []
        subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
        imgshard(*command[1:])
        assert (disk / "train-shards" / FIRST).read_bytes() == (shards / FIRST).read_bytes()
        with pytest.raises(OSError, match="No space left"):
            (disk / "filler").write_bytes(bytes(30 << 20))
        assert len(plan(disk / "train-shards", transform=SMALL)) > 0
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
    said = "`imgshard build` fails and leaves nothing; with space it writes the same bytes; serving from a full disk works"
    outcome("the disk is full (ENOSPC)", said, failed.stderr.strip().splitlines()[-1])
