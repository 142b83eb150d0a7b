"""What a run says about its surroundings, and how it fails where they are not as they must be."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PLAIN, TINY, TRAIN, VAL, Train, command
from imgfeed.launcher import find_binary

from imgfeed_train.command import main
from imgfeed_train.data import sets as found_sets
from imgfeed_train.errors import TrainError
from imgfeed_train.launch import surroundings
from imgfeed_train.launch.place import Place

MOUNTINFO = """\
22 1 0:20 / / rw,relatime - overlay overlay rw,lowerdir=/a
23 22 0:21 / /proc rw,nosuid - proc proc rw
24 22 0:22 / /dev rw - tmpfs tmpfs rw
25 24 0:23 / /dev/shm rw - tmpfs shm rw,size=65536k
26 22 254:0 /x {data} ro,relatime - ext4 /dev/vda rw
27 22 254:0 /y {file} rw,relatime - ext4 /dev/vda rw
28 22 0:24 / {socket} rw - tmpfs tmpfs rw,size=1024k
29 22 0:25 / /sys/fs/cgroup ro - cgroup2 cgroup rw
30 22 0:26 / {data}/gone rw - nfs4 server:/x rw
31 22 0:27 / {broken} rw - fuse.sshfs host:/x rw
broken line
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, as sockets need, that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="imgfeed-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_mounts(folder: Path) -> None:
    data, sock, file = folder / "my data", folder / "run", folder / "hosts"
    data.mkdir(), sock.mkdir(), file.touch()
    table = folder / "mountinfo"
    broken = folder / ("z" * 300)  # fails at stat, as a mount does whose server is gone
    table.write_text(MOUNTINFO.format(data=str(data).replace(" ", "\\040"), socket=sock, file=file, broken=broken))
    seen = surroundings.mounts(table)
    # The root and /dev/shm, then folders: no kernel file systems, no single files, nothing that is not there.
    assert [m.path for m in seen] == sorted(["/", "/dev/shm", str(data), str(sock), str(broken)])
    by_path = {m.path: m for m in seen}
    assert by_path[str(data)].read_only and not by_path[str(sock)].read_only
    assert (by_path[str(sock)].kind, by_path[str(data)].kind) == ("tmpfs", "ext4")
    assert by_path[str(data)].free == pytest.approx(shutil.disk_usage(data).free, rel=0.2)
    assert f"{data} (ext4, read-only, " in str(by_path[str(data)])
    assert str(by_path[str(broken)]) == f"{broken} (fuse.sshfs, File name too long)"
    assert surroundings.mounts(folder / "none") == []
    assert surroundings.mounts(), "this machine has mounts"


def test_a_mount_that_gives_no_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, come = folder / "mountinfo", threading.Event()
    table.write_text(f"22 1 0:20 / / rw - overlay overlay rw\n30 22 0:26 / {folder} rw - nfs4 server:/x rw\n")
    ask = surroundings._free
    monkeypatch.setattr(surroundings, "_free", lambda path: ask(path) if path == "/" else come.wait(60))
    monkeypatch.setattr(surroundings, "ANSWER_SECONDS", 0.5)
    root, gone = surroundings.mounts(table)
    come.set()
    assert root.free is not None and not root.error
    assert str(gone) == f"{folder} (nfs4, gives no answer)"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (64 << 20, "64 MiB"), (1536, "1.5 KiB"), (3 << 40, "3.0 TiB")]
)
def test_sizes(size: int, text: str) -> None:
    assert surroundings.size_text(size) == text


def test_sets_are_what_imgshard_finds(sets: Path, folder: Path) -> None:
    found = found_sets.sets_in(str(sets), "pack it")
    assert {split: one.samples for split, one in found.items()} == {"train": TRAIN, "val": VAL}
    one = found["train"].folder
    assert {s: f.folder for s, f in found_sets.sets_in(str(one), "pack it").items()} == {"train": one}, "a set itself"
    for name in ("a", "b"):
        shutil.copytree(one, folder / name)
    with pytest.raises(TrainError, match='are both sets of split "train"'):
        found_sets.sets_in(str(folder), "pack it")
    (folder / "a" / "manifest.json").write_text('{"format": "imgshard"}')
    with pytest.raises(TrainError, match=r"--data .*a/manifest.json"):
        found_sets.sets_in(str(folder), "pack it")


def test_folder_without_sets(folder: Path) -> None:
    with pytest.raises(TrainError, match=r"no shard set there: .*file name too long"):  # or whatever it is
        found_sets.sets_in(str(folder / ("z" * 300)), "pack it")
    with pytest.raises(TrainError, match=r"--data .*none: no such file or directory; this process is user .*\nmounts seen: /"):
        found_sets.sets_in(str(folder / "none"), "pack it")
    with pytest.raises(TrainError, match=r"no shard set there: .*nor is any folder in it; it holds nothing; and no dataset"):
        found_sets.sets_in(str(folder), "pack it")
    (folder / "notes.txt").touch()
    with pytest.raises(TrainError, match=r"it holds notes\.txt; and no dataset to pack: .*without a class folder"):
        found_sets.sets_in(str(folder), "pack it")
    (folder / "cats").mkdir()
    (folder / "cats" / "1.JPEG").touch()
    with pytest.raises(TrainError, match=r"looks like .*class folders\)\. Put each split into a folder of its name") as e:
        found_sets.sets_in(str(folder), "pack it")
    assert not isinstance(e.value, found_sets.NotPackedError), "its set would stand beside it"
    (folder / "val").mkdir()
    (folder / "cats").rename(folder / "val" / "cats")
    with pytest.raises(found_sets.NotPackedError, match=r"it holds .*/val \(.*\), not packed yet\. Pack it, once: pack it"):
        found_sets.sets_in(str(folder), "pack it")


def test_socket_texts(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(found_sets, "PATIENCE", 0.0)
    assert "there is no folder" in surroundings.socket_text(str(folder / "run" / "s"))
    path = folder / "s"
    assert f"there is no {path}, it is empty" in surroundings.socket_text(str(path))
    path.touch()
    assert "is no socket" in surroundings.socket_text(str(path))
    path.unlink()
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
    assert "nobody listens" in surroundings.socket_text(str(path))
    with pytest.raises(SystemExit, match=r"--data unix:.*can't connect.*nobody listens"):
        main(["--data", f"unix:{path}", "--output", str(folder / "run"), "--device", "cpu", "--no-tensorboard"])


def test_no_gpu(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert surroundings.no_gpu(None) == "torch is built without CUDA"
    monkeypatch.setattr(surroundings, "NO_DRIVER", str(folder / "nvidiactl"))
    assert "--gpus all" in surroundings.no_gpu("12.9")
    (folder / "nvidiactl").touch()
    assert "CUDA 12.9" in surroundings.no_gpu("12.9")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES is ''" in surroundings.no_gpu("12.9")


def test_surroundings_name_ranks_and_master() -> None:
    lines = surroundings.surroundings(Place(2, 4, host="10.0.0.1", port=29500, how="torchrun"), "a GPU", "runs/a")
    assert lines[0].startswith("mount: / (")
    assert lines[-3:-1] == [
        f"output: {Path('runs/a').resolve()}; {surroundings.who()}",
        "ranks: 4 (torchrun); master 10.0.0.1:29500",
    ]
    assert lines[-1] == "device of rank 2: a GPU"


def test_run_prints_them(train: Train, sets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train("run", "--max-steps", "1")
    said = capsys.readouterr().out.splitlines()
    assert any(line.startswith("mount: / (") for line in said)
    assert f"data: {sets}: train ({TRAIN}), val ({VAL})" in said
    assert any(line.startswith("ranks: 1 (one node") and line.endswith("no master needed") for line in said)
    assert any(line.startswith("device of rank 0: CPU, 1 thread") for line in said)


def test_failing_run_prints_them_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="no shard set"):
        main(["--data", str(folder), "--output", str(folder / "run"), *TINY, *PLAIN])
    said = capsys.readouterr().out
    assert "mount: / (" in said and "device of rank 0: CPU" in said


@pytest.fixture
def raw(folder: Path) -> Path:
    """A folder with train/ and val/ of images."""
    tool = [
        find_binary("imgshard"),
        "synth",
        str(folder / "raw"),
        "--classes",
        "2",
        "--train",
        "4",
        "--val",
        "2",
        "--size",
        "32",
    ]
    subprocess.run(tool, check=True, capture_output=True)
    return folder / "raw"


def test_prepare_packs_only_when_told(
    raw: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["prepare", "--data", str(raw), "--output", str(folder / "out" / "run")]
    for name in ("PACK", "DATA", "OUTPUT", "PUID", "PGID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit, match=rf"holds {raw}/train .*, not packed yet\. Pack it, once: imgshard build {raw}\n"):
        main(arguments)
    for name, value in {"DATA": "/my data", "OUTPUT": "", "PUID": "7"}.items():  # as compose.yaml passes them on
        monkeypatch.setenv(name, value)
    want = "once: DATA='/my data' PUID=7 PACK=1 docker compose run --rm prepare\n"
    with pytest.raises(SystemExit, match=want):
        main(arguments)
    assert not (raw / "train-shards").exists()
    monkeypatch.setenv("PACK", "1")
    main(arguments)
    said = capsys.readouterr().out
    assert "packing, once: " in said and f"set: train: 8 samples in {raw / 'train-shards'}" in said
    assert (folder / "out" / "run").is_dir()
    monkeypatch.delenv("PACK")
    main(arguments)
    assert "packing" not in capsys.readouterr().out, "a packed set is not packed again"


def test_prepare_looks_for_both_splits(raw: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(raw / "val")
    main(["prepare", "--data", str(raw), "--output", str(folder / "out"), "--pack"])
    said = "note: no split to evaluate on (val/valid/validation/test); it has train; to train without: TRAIN_ARGS="
    assert said in capsys.readouterr().out
    (raw / "train-shards").rename(raw / "kept")
    shutil.rmtree(raw / "train")
    (raw / "val").mkdir()
    shutil.move(raw / "kept", folder / "train-set")
    with pytest.raises(SystemExit, match="no shard set there"):
        main(["prepare", "--data", str(raw), "--output", str(folder / "out")])


def test_prepare_says_when_packing_fails(raw: Path, folder: Path) -> None:
    (raw / "train-shards").write_text("in the way")
    with pytest.raises(SystemExit, match=r"packing .* failed with exit status 1"):
        main(["prepare", "--data", str(raw), "--output", str(folder / "out"), "--pack"])


@pytest.mark.long
def test_interrupted_packing_leaves_nothing(folder: Path) -> None:
    data = folder / "data"
    sizes = ["--classes", "4", "--train", "1", "--val", "2", "--size", "300"]
    subprocess.run([find_binary("imgshard"), "synth", str(data), *sizes], check=True, capture_output=True)
    for image in list((data / "train").glob("*/*")):
        for i in range(5000):  # names enough for seconds of packing, as the signal has to come in the middle of it
            image.with_name(f"{i}.jpg").hardlink_to(image)
    ask = command("prepare", "--data", str(data), "--output", str(folder / "out"), "--pack")
    run = subprocess.Popen(ask, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 60
    while len(list(data.iterdir())) == 2:
        assert time.monotonic() < deadline and run.poll() is None, "the packing did not begin, or was too quick"
        time.sleep(0.01)
    run.terminate()
    said = run.communicate(timeout=60)[0]
    assert run.returncode == 1 and "interrupted; the unfinished set is removed" in said
    assert sorted(p.name for p in data.iterdir()) == ["train", "val"]


def test_prepare_wants_numbers(folder: Path) -> None:
    with pytest.raises(SystemExit, match="--user me: want numbers"):
        main(["prepare", "--data", str(folder), "--output", str(folder), "--user", "me"])


def test_held_feed_stays(sets: Path, folder: Path) -> None:
    with surroundings.held_feed(f"unix:{folder / 'none'}"), surroundings.held_feed(str(sets)):
        pass  # nothing to hold is no error here
    path = folder / "s"
    command = [find_binary("imgfeed"), "serve", str(sets), "--socket", str(path), "--exit-idle", "2s"]
    feed = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert feed.stdout is not None
        while not feed.stdout.readline().startswith("on unix:"):  # a socket's file is there before anybody listens
            assert feed.poll() is None
        with surroundings.held_feed(f"unix:{path}"):
            time.sleep(4)
            assert feed.poll() is None, "it has a client"
        assert feed.wait(30) == 0
    finally:
        feed.kill()
        feed.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_prepare_wants_a_writable_output(sets: Path, folder: Path) -> None:
    out = folder / "out"
    out.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(out)], check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(SystemExit, match=rf"--output {out} is on a read-only file system: OUTPUT"):
            main(["prepare", "--data", str(sets), "--output", str(out)])
    finally:
        subprocess.run(["umount", str(out)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask what another user may read")
def test_prepare_looks_with_the_eyes_of_the_user(raw: Path, folder: Path) -> None:
    arguments = ["prepare", "--data", str(raw), "--output", str(folder / "out"), "--user", "54321:54321"]
    main([*arguments, "--pack"])
    assert (folder / "out").stat().st_uid == 54321, "an empty folder of root's is given to the user"
    shard = next((raw / "train-shards").rglob("*.imgshard"))
    shard.chmod(0o600)
    with pytest.raises(SystemExit, match=rf"user 54321, group 54321 can't read {shard} \(user 0's.*PUID=0 PGID=0"):
        main(arguments)
    shard.chmod(0o644)
    raw.chmod(0o700)
    with pytest.raises(SystemExit, match=rf"user 54321, group 54321 can't read {raw} .*chmod -R a\+rX {raw}$"):
        main(arguments)
    raw.chmod(0o755)
    (folder / "out" / "log.jsonl").touch(mode=0o600)
    with pytest.raises(SystemExit, match=r"can't write .*log\.jsonl \(user 0's.*PUID=0 PGID=0"):
        main(arguments)
