"""Checkpoints in a real S3 server on this machine: atomic, resumable, and refused at the start where they can't be kept."""

from __future__ import annotations

import errno
import io
import os
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import PLAIN, TINY, Train, command, events, same, weights

from imgfeed_train.checkpoint import files as checkpoint
from imgfeed_train.checkpoint import saver, storage
from imgfeed_train.errors import StorageError


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of an S3 server with the bucket ``runs``, named to all by the environment."""
    pytest.importorskip("s3fs")
    server_module = pytest.importorskip("moto.server")
    server = server_module.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        client().create_bucket(Bucket="runs")
        yield f"http://{host}:{port}"
    server.stop()


def client() -> Any:
    import boto3  # noqa: PLC0415 - comes with s3fs and moto

    return boto3.client("s3")


def objects() -> list[str]:
    """Return the names of all objects in the bucket."""
    return [item["Key"] for item in client().list_objects_v2(Bucket="runs").get("Contents", [])]


def test_data_in_a_bucket(train: Train, sets: Path, s3: str, tmp_path: Path) -> None:
    """A run from a bucket ends with the bits of one from a folder, and again from the node's cache."""
    for path in sets.rglob("*"):
        if path.is_file():
            client().upload_file(str(path), "runs", f"sets/{path.relative_to(sets)}")
    here = train("here", "--arch", "timm/test_resnet")
    for name in ("there", "again"):
        there = train(name, "--arch", "timm/test_resnet", "--data", "s3://runs/sets", "--cache", str(tmp_path / "cache"))
        same(here, there)
    for name in objects():
        client().delete_object(Bucket="runs", Key=name)


def test_run_resumes_from_s3_with_the_same_bits(train: Train, s3: str) -> None:
    whole = train("whole", "--arch", "timm/test_resnet")
    arguments = ["--arch", "timm/test_resnet", "--checkpoints", "s3://runs/a", "--resume", "auto"]
    part = train("part", *arguments, "--max-steps", "8")
    assert not (part / "checkpoints").exists()
    assert objects() == ["a/best.pt", "a/last.pt"]
    elsewhere = train("elsewhere", *arguments)  # as on another machine: nothing but the bucket is left
    assert [e["batch"] for e in events(elsewhere, "step") if e["epoch"] == 1] == [4, 6]
    one, two = weights(whole), checkpoint.load("s3://runs/a/last.pt")
    assert two is not None
    for name, tensor in one["model"].items():
        assert torch.equal(tensor, two["model"][name]), name
    assert objects() == ["a/best.pt", "a/last.pt"]
    best = checkpoint.load("s3://runs/a/best.pt")
    assert best is not None
    assert best["progress"]["best"] == max(e["acc1"] for e in events(whole, "epoch"))


class Cutter:
    """Stands between client and server, and cuts every connection that has sent ``limit`` bytes.

    One that has sent ``large`` bytes since the gate was closed is held until ``open`` is set; ``most`` were held at once.
    """

    def __init__(self, to: str) -> None:
        host, port = to.removeprefix("http://").split(":")
        self.to, self.limit, self.sent = (host, int(port)), 1 << 40, 0
        self.large, self.open, self.inside, self.most = 1 << 40, threading.Event(), 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                ours, _ = self.listener.accept()
            except OSError:
                return
            theirs = socket.create_connection(self.to)
            threading.Thread(target=self.carry, args=(ours, theirs, True), daemon=True).start()
            threading.Thread(target=self.carry, args=(theirs, ours, False), daemon=True).start()

    def carry(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        left, carried = self.limit, 0
        try:
            while data := source.recv(65536):
                if counted:
                    left -= len(data)
                    carried += len(data)
                    self.sent += len(data)
                    if carried > self.large and not self.open.is_set():
                        self.hold()
                    if left < 0:
                        break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            end.close()

    def hold(self) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.open.wait(60)
        self.inside -= 1


def test_cut_upload_leaves_the_old_checkpoint(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cutter = Cutter(s3)
    monkeypatch.setenv("AWS_ENDPOINT_URL", cutter.url)
    old, new = ({"version": checkpoint.VERSION, "x": torch.full((1 << 20,), value)} for value in (1.0, 2.0))
    checkpoint.save(old, "s3://runs/cut", "last.pt")
    cutter.limit, cutter.sent = 1 << 20, 0
    with pytest.raises(StorageError, match=r"s3://runs/cut/last\.pt can't be written, what was there before is still there"):
        checkpoint.save(new, "s3://runs/cut", "last.pt")
    assert cutter.sent > 1 << 20
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    found = checkpoint.load("s3://runs/cut/last.pt")
    assert found is not None
    assert torch.equal(found["x"], old["x"])
    checkpoint.save(new, "s3://runs/cut", "last.pt")
    found = checkpoint.load("s3://runs/cut/last.pt")
    assert found is not None
    assert torch.equal(found["x"], new["x"])


def test_training_goes_on_while_checkpoints_travel(
    train: Train, tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first upload is held until the last batch is done: so every other checkpoint is due while it is under way."""
    cutter = Cutter(s3)
    cutter.large = 100_000
    monkeypatch.setenv("AWS_ENDPOINT_URL", cutter.url)
    log, finished = tmp_path / "run" / "log.jsonl", []

    def open_late() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until and not cutter.open.is_set():
            if log.exists() and [e for e in events(tmp_path / "run", "epoch") if e["epoch"] == 1]:
                finished.append(cutter.inside)
                break
            time.sleep(0.02)
        cutter.open.set()

    opener = threading.Thread(target=open_late)
    opener.start()
    run = train("run", "--checkpoints", "s3://runs/beside", "--checkpoint-every", "1", "--tensorboard", "--log-every", "1")
    opener.join()
    assert finished == [1]  # the training ended with an upload held, by which it would have waited without end before
    assert cutter.most == 1
    assert "waiting for the last checkpoints to reach s3://runs/beside" in capsys.readouterr().out
    last, best = (checkpoint.load(f"s3://runs/beside/{name}.pt") for name in ("last", "best"))
    assert last is not None
    assert best is not None
    epochs = events(run, "epoch")
    reached = {"epoch": 2, "batches": 0, "steps": 12, "best": max(e["acc1"] for e in epochs)}
    assert {name: last["progress"][name] for name in reached} == reached
    assert best["progress"]["epoch"] == 1 + max(range(2), key=lambda i: (epochs[i]["acc1"], -i))
    plain = weights(train("plain"))["model"]
    assert all(torch.equal(tensor, last["model"][name]) for name, tensor in plain.items())


def test_the_newest_checkpoints_leave_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is due during an upload waits, each name's newest alone; the files on this machine go as soon as they may."""
    begun, gate = threading.Event(), threading.Event()
    sent: list[tuple[str, int]] = []

    def send(folder: str, name: str, here: Path) -> None:
        begun.set()
        assert gate.wait(60)
        sent.append((name, torch.load(here)["x"]))

    monkeypatch.setattr(storage, "send", send)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    keeper = saver.Saver("s3://runs/order", tmp_path / "kept")
    keeper.save({"x": 1}, "last.pt", "best.pt")
    assert begun.wait(60)
    for x, names in ((2, ["last.pt"]), (3, ["last.pt", "best.pt"]), (4, ["last.pt"]), (5, ["last.pt"])):
        keeper.save({"x": x}, *names)
    assert sorted(path.name for path in tmp_path.glob("*/*")) == ["1.pt", "3.pt", "5.pt"]
    assert keeper.busy
    gate.set()
    keeper.wait()
    assert sent == [("last.pt", 1), ("best.pt", 3), ("last.pt", 5)]
    assert not keeper.busy
    assert list(tmp_path.iterdir()) == []


def test_an_upload_that_fails_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fails, sent = [True], []

    def put_file(here: str, there: str) -> None:
        if fails[0]:
            raise OSError("the line is cut")
        sent.append((there, torch.load(here)["x"]))

    monkeypatch.setattr(storage, "_store", lambda url: (SimpleNamespace(put_file=put_file), "runs/a"))
    keeper = saver.Saver("s3://runs/a", tmp_path / "kept")

    def save(x: int, *names: str) -> None:
        keeper.save({"x": x}, *names)
        while keeper._thread is not None:
            time.sleep(0.01)

    said = "s3://runs/a/last.pt can't be written, what was there before is still there: OSError: the line is cut"
    save(1, "last.pt", "best.pt")
    assert capsys.readouterr().err == f"imgfeed-train: {said}; it is tried again with the next checkpoint, or at the end\n"
    fails[0] = False
    save(2, "last.pt")
    assert sent == [("runs/a/best.pt", 1), ("runs/a/last.pt", 2)]
    fails[0] = True
    save(3, "last.pt", "best.pt")
    save(4, "last.pt")
    monkeypatch.setattr(saver, "PAUSE", 0.05)
    threading.Timer(0.2, lambda: fails.__setitem__(0, False)).start()
    keeper.wait()  # the store is there again before the end's patience is over
    assert sent[2:] == [("runs/a/best.pt", 3), ("runs/a/last.pt", 4)]
    fails[0] = True
    save(5, "last.pt", "best.pt")
    save(6, "last.pt")
    monkeypatch.setattr(saver, "PATIENCE", 0.2)
    kept = tmp_path / "kept"
    with pytest.raises(StorageError, match=rf"the line is cut; the newest checkpoints stay on this machine: .*{kept}/last.pt"):
        keeper.wait()
    assert {path.name: torch.load(path)["x"] for path in kept.iterdir()} == {"last.pt": 6, "best.pt": 5}
    assert "--resume auto goes on from there" in capsys.readouterr().err
    fails[0] = False
    keeper.wait()  # given up, and no longer waited for
    save(7, "last.pt", "best.pt")
    assert not kept.exists()


def test_a_slow_upload_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    gate = threading.Event()
    monkeypatch.setattr(storage, "send", lambda *_: gate.wait(60))
    monkeypatch.setattr(saver, "SLOW", 0.05)
    keeper = saver.Saver("s3://runs/slow", tmp_path / "kept")
    keeper.save({"x": 1}, "last.pt")
    time.sleep(0.5)
    gate.set()
    keeper.wait()
    assert (
        capsys.readouterr().err
        == "imgfeed-train: last.pt has been on its way to s3://runs/slow for 0.05 s; the training goes on\n"
    )


def test_resume_goes_on_from_what_the_store_did_not_take(
    train: Train, tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bucket's server is gone at the end: the weights are on this machine, and the next run goes on with them."""
    monkeypatch.setattr(saver, "PATIENCE", 0.0)
    real = storage.send

    def refused(folder: str, name: str, here: Path) -> None:
        raise StorageError(f"{folder}/{name} can't be written: the token has expired")

    monkeypatch.setattr(storage, "send", refused)
    with pytest.raises(
        SystemExit, match=r"the token has expired; the newest checkpoints stay on this machine: .*unsent/last.pt"
    ):
        train("run", "--checkpoints", "s3://runs/lost")
    assert sorted(path.name for path in (tmp_path / "run" / "unsent").iterdir()) == ["best.pt", "last.pt"]
    monkeypatch.setattr(storage, "send", real)
    with pytest.raises(SystemExit, match=r"unsent holds the checkpoints of a run"):
        train("run", "--checkpoints", "s3://runs/lost")
    run = train("run", "--checkpoints", "s3://runs/lost", "--resume", "auto", "--epochs", "3")
    assert not (run / "unsent").exists()
    last, best = (checkpoint.load(f"s3://runs/lost/{name}.pt") for name in ("last", "best"))
    assert last is not None
    assert last["progress"]["epoch"] == 3
    assert best is not None


@pytest.mark.long
def test_a_run_whose_checkpoints_fail_ends_on_all_ranks(sets: Path, tmp_path: Path, s3: str) -> None:
    """The bucket's server refuses keys once the run has begun."""
    arguments = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, *PLAIN, "--epochs", "40"]
    arguments += ["--checkpoints", "s3://runs/late", "--batch-size", "8", "-g", "2"]
    with subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        threading.Thread(target=process.stdout.read, daemon=True).start()
        while "late/last.pt" not in objects():
            assert process.poll() is None
            time.sleep(0.1)
        refuse(s3, after=0)
        try:
            said = process.stderr.read()
            assert process.wait(300) == 1
        finally:
            refuse(s3, after=1 << 30)
    assert "can't be written, what was there before is still there" in said
    assert "; it is tried again with the next checkpoint, or at the end" in said
    assert "Traceback" not in said
    assert events(tmp_path / "run", "end")[0]["state"] == "failed"
    kept = checkpoint.load("s3://runs/late/last.pt")
    assert kept is not None
    assert kept["progress"]["steps"] >= 6, "an epoch, which is kept before it is evaluated"


def test_wrong_bucket_is_told_before_the_first_epoch(train: Train, s3: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"can't be kept at s3://none-such/a: .*bucket does not exist - make the bucket"):
        train("run", "--checkpoints", "s3://none-such/a")
    assert "Epoch:" not in capsys.readouterr().out
    assert [b["Name"] for b in client().list_buckets()["Buckets"]] == ["runs"]


@pytest.mark.long
def test_wrong_credentials_are_told_to_all_ranks(sets: Path, tmp_path: Path, s3: str) -> None:
    """A key that the server does not know, with two ranks: both end, neither waits for the other."""
    arguments = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, *PLAIN, "--checkpoints", "s3://runs/x"]
    refuse(s3, after=0)
    try:
        done = subprocess.run(command(*arguments, "-g", "2"), capture_output=True, text=True, check=False, timeout=300)
    finally:
        refuse(s3, after=1 << 30)
    assert done.returncode == 1
    assert "Epoch:" not in done.stdout
    assert "Traceback" not in done.stderr
    assert "imgfeed-train: checkpoints can't be kept at s3://runs/x: " in done.stderr
    assert "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in done.stderr


def refuse(server: str, after: int) -> None:
    """Have the server check keys, which it has none of, after so many requests."""
    headers = {"Content-Type": "text/plain"}
    request = urllib.request.Request(f"{server}/moto-api/reset-auth", str(after).encode(), headers, method="POST")
    with urllib.request.urlopen(request):
        pass


def test_no_credentials(s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(StorageError, match="Unable to locate credentials - set AWS_ACCESS_KEY_ID"):
        storage.check("s3://runs/x")


def test_store_that_never_answers(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.enumerate()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        monkeypatch.setattr(storage, "ANSWER_SECONDS", 0.5)
        with pytest.raises(StorageError, match=r"gave no answer within 0\.5 s"):
            storage.check("s3://runs/x")
    # It goes on trying, and draws from Python's generator when to, which the next tests compare: it is waited for.
    for thread in threading.enumerate():
        if thread not in before and "attempt" in thread.name:
            thread.join(60)
            assert not thread.is_alive()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failed_write_is_told(tmp_path: Path, number: int) -> None:
    """A full disk is, and nothing else is told as one."""

    class Filling(io.BytesIO):
        def write(self, data: Any) -> int:
            if self.tell() + len(data) > 100_000:
                raise OSError(number, os.strerror(number))
            return super().write(data)

    state = {name: torch.zeros(100_000) for name in "ab"}
    with pytest.raises(StorageError, match=rf"last.pt can't be written, .*: OSError: \[Errno \d+\] {os.strerror(number)}$"):
        storage.write(str(tmp_path), ("last.pt",), lambda _: torch.save(state, Filling()))


def test_folders_that_take_no_checkpoints(train: Train, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match=r"can't be kept at .*/file/x: NotADirectoryError"):
        train("run", "--checkpoints", str(tmp_path / "file" / "x"))
    with pytest.raises(StorageError, match=r"xyz://b/run: .*Protocol not known"):
        storage.check("xyz://b/run")


def test_folder_stays_as_it_was_found(tmp_path: Path) -> None:
    storage.check(str(tmp_path))
    assert os.listdir(tmp_path) == []
    checkpoint.save({"version": checkpoint.VERSION, "x": 1}, str(tmp_path), "last.pt", "best.pt")
    assert sorted(os.listdir(tmp_path)) == ["best.pt", "last.pt"]
    assert checkpoint.load(str(tmp_path / "best.pt")) == {"version": checkpoint.VERSION, "x": 1}


def test_store_without_whole_objects_gets_its_files_renamed() -> None:
    fsspec = pytest.importorskip("fsspec")
    checkpoint.save({"version": checkpoint.VERSION, "x": 5}, "memory://bucket/run", "last.pt", "best.pt")
    assert checkpoint.load("memory://bucket/run/last.pt") == {"version": checkpoint.VERSION, "x": 5}
    assert sorted(fsspec.filesystem("memory").ls("/bucket/run", detail=False)) == ["/bucket/run/best.pt", "/bucket/run/last.pt"]
    assert checkpoint.load("memory://bucket/run/none.pt") is None
