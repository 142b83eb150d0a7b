"""Checkpoints in a real S3 server on this machine: atomic, resumable, and refused at the start where they can't be kept."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import PLAIN, TINY, Train, command, events, weights

from imgfeed_train import checkpoint, storage
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
    """Stands between client and server, and cuts every connection that has sent ``limit`` bytes."""

    def __init__(self, to: str) -> None:
        host, port = to.removeprefix("http://").split(":")
        self.to, self.limit, self.sent = (host, int(port)), 1 << 40, 0
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
        left = self.limit
        try:
            while data := source.recv(65536):
                if counted:
                    left -= len(data)
                    self.sent += len(data)
                    if left < 0:
                        break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            end.close()


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


def test_wrong_bucket_is_told_before_the_first_epoch(train: Train, s3: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"can't be kept at s3://none-such/a: .*bucket does not exist - make the bucket"):
        train("run", "--checkpoints", "s3://none-such/a")
    assert "Epoch:" not in capsys.readouterr().out
    assert [b["Name"] for b in client().list_buckets()["Buckets"]] == ["runs"]


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
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(storage, "ANSWER_SECONDS", 0.5)
        with pytest.raises(StorageError, match=r"gave no answer within 0\.5 s"):
            storage.check("s3://runs/x")


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
