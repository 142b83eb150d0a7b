"""Copies of the checkpoints in a real S3 server on this machine: sent beside the training, whole, and kept where it fails."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
from conftest import Train, equal, events, same, weights

from imgfeed_train import store
from imgfeed_train.errors import TrainError
from imgfeed_train.store import Store


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    """A client of an S3 server with the bucket ``runs``, which the environment names to all."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    import boto3  # noqa: PLC0415 - comes with moto

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port()))
        for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "DEFAULT_REGION": "us-east-1"}.items():
            patch.setenv(f"AWS_{name}", value)
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        made = boto3.client("s3")
        made.create_bucket(Bucket="runs")
        yield made
    server.stop()


def state(s3: Any, name: str, tmp_path: Path) -> Any:
    """Return the checkpoint at a key of the bucket."""
    s3.download_file("runs", name, str(tmp_path / "fetched.pt"))
    return torch.load(tmp_path / "fetched.pt", weights_only=True)


@pytest.mark.long
def test_the_best_checkpoint_is_in_the_bucket(train: Train, s3: Any, tmp_path: Path) -> None:
    """Another machine, which has the bucket alone, ends with the same bits; a damaged last one there is passed over."""
    whole = train("whole", "--ema", "0.9")
    arguments = ["--ema", "0.9", "--checkpoints", "s3://runs/a", "--resume", "auto"]
    part = train("part", *arguments, "--max-steps", "8", "--checkpoint-every", "3")
    assert not list((part / "unsent").iterdir())
    keys = [item["Key"] for item in s3.list_objects_v2(Bucket="runs")["Contents"]]
    assert keys == ["a/best.pt", "a/last.pt", "a/previous.pt"]
    same(whole, train("elsewhere", *arguments))
    assert equal(weights(whole, "last.pt")["model"], state(s3, "a/last.pt", tmp_path)["model"])
    best = max(events(whole, "epoch"), key=lambda row: row["acc1"])
    assert state(s3, "a/best.pt", tmp_path)["progress"]["best"] == best["acc1"]
    good = state(s3, "a/previous.pt", tmp_path)
    s3.put_object(Bucket="runs", Key="a/last.pt", Body=b"torn")
    same(whole, train("third", *arguments))
    assert equal(good["model"], state(s3, "a/previous.pt", tmp_path)["model"]), "the damaged one does not replace it"
    assert "checkpoints: s3://runs/a/best.pt" in (tmp_path / "elsewhere" / "report.md").read_text()
    with pytest.raises(SystemExit, match=r"there are checkpoints of a run \(s3://runs/a/last.pt"):
        train("fourth", "--checkpoints", "s3://runs/a")


@pytest.mark.long
def test_data_in_a_bucket(train: Train, sets: Path, s3: Any, tmp_path: Path) -> None:
    """A run from a bucket ends with the bits of one from a folder."""
    for path in sets.rglob("*"):
        if path.is_file():
            s3.upload_file(str(path), "runs", f"sets/{path.relative_to(sets)}")
    same(train("here"), train("there", "--data", "s3://runs/sets", "--cache", str(tmp_path / "cache")))


class Gate:
    """Stands for a store's upload, which waits, fails or passes."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.open, self.begun, self.fails, self.sent = threading.Event(), threading.Event(), False, list[tuple[str, int]]()

        def upload(mine: Store, here: Path, name: str) -> None:
            self.begun.set()
            assert self.open.wait(60)
            if self.fails:
                raise OSError("the line is cut")
            self.sent.append((name, int(here.read_text())))

        patch.setattr(Store, "_upload", upload)
        patch.setattr(store, "PAUSE", 0.02)


def leave(mine: Store, folder: Path, content: int, *names: str) -> None:
    """Have a file leave under each name, as the trainer does: renamed into place."""
    for name in names:
        (folder / "new").write_text(str(content))
        (folder / "new").replace(folder / name)
        mine.leave(folder / name)


def test_only_the_newest_of_a_name_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, mine = Gate(monkeypatch), Store("memory://runs/order", tmp_path / "unsent")
    leave(mine, tmp_path, 1, "last.pt")
    assert gate.begun.wait(60)
    for content, names in ((2, ["last.pt"]), (3, ["last.pt", "best.pt"]), (4, ["last.pt"])):
        leave(mine, tmp_path, content, *names)
    gate.open.set()
    mine.wait()
    assert gate.sent == [("last.pt", 1), ("best.pt", 3), ("last.pt", 4)], "each name's newest"
    assert not list((tmp_path / "unsent").iterdir())


def test_what_a_store_does_not_take_is_sent_by_the_next_checkpoint_or_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gate, unsent = Gate(monkeypatch), tmp_path / "unsent"
    gate.open.set()
    mine = Store("memory://runs/fails", unsent)

    def settled(content: int, *names: str) -> None:
        leave(mine, tmp_path, content, *names)
        assert mine._thread
        mine._thread.join()

    gate.fails = True
    settled(1, "last.pt", "best.pt")
    said = capsys.readouterr().out  # of either file: a thread that fails may end before or after the second one waits
    assert ".pt can't be written: OSError: the line is cut. It is tried again" in said
    gate.fails = False
    settled(2, "last.pt")
    assert sorted(gate.sent) == [("best.pt", 1), ("last.pt", 2)]
    gate.fails = True
    settled(3, "last.pt")
    threading.Timer(0.2, lambda: setattr(gate, "fails", False)).start()
    mine.wait()
    assert gate.sent[-1] == ("last.pt", 3)
    gate.fails = True
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    settled(4, "last.pt")
    with pytest.raises(
        TrainError, match=rf"the line is cut; the newest checkpoints stay in {unsent}: --resume auto sends them"
    ):
        mine.wait()
    assert (unsent / "last.pt").read_text() == "4"
    (unsent / "last.pt").rename(unsent / ".last.pt.sending")  # as of a process that was killed
    gate.fails = False
    again = Store("memory://runs/fails", unsent)
    again.recover()
    again.wait()
    assert gate.sent[-1] == ("last.pt", 4)


@pytest.mark.long
def test_training_continues_while_a_checkpoint_is_sent(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: Any
) -> None:
    """The first upload is held until the last epoch is evaluated; a training that waited for it would never end."""
    real, held = Store._upload, threading.Event()

    def upload(mine: Store, here: Path, name: str) -> None:
        if name == "last.pt" and not held.is_set():
            until = time.monotonic() + 60
            while time.monotonic() < until and len(events(tmp_path / "run", "epoch")) < 2:
                time.sleep(0.02)
            held.set()
        real(mine, here, name)

    monkeypatch.setattr(Store, "_upload", upload)
    train("run", "--checkpoints", "s3://runs/beside", "--checkpoint-every", "1")
    assert held.is_set()
    assert state(s3, "beside/last.pt", tmp_path)["progress"]["scored"] == 2


@pytest.mark.long
def test_a_store_that_fails_is_an_error_at_the_start(train: Train, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for url, said in (
        ("s3://none-such/a", r"--checkpoints s3://none-such/a can't be used: .*bucket does not exist - make the bucket"),
        ("xyz://b/run", r"--checkpoints xyz://b/run can't be used: .*Protocol not known"),
        ("/proc/1/none", r"--checkpoints /proc/1/none can't be used: "),
    ):
        with pytest.raises(SystemExit, match=said):
            train("run", "--checkpoints", url)


def test_one_start_has_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run sends nothing there. A later start of the same run takes it over, and the earlier one then sends nothing."""
    first, other, again = (Store("memory://held/run", tmp_path / name / "unsent") for name in ("first", "other", "again"))
    memory = fsspec.filesystem("memory")
    first.claim("a", [])
    other.claim("b", [])
    assert "--checkpoints memory://held/run is held by run a, start " in capsys.readouterr().out
    leave(other, tmp_path, 1, "best.pt")
    for told in (True, False):
        with pytest.raises(TrainError, match=r"is held by run a, .* remove memory://held/run/run.txt .*checkpoints stay in"):
            other.wait(told)
    other.close()
    leave(first, tmp_path, 2, "last.pt")
    first.wait()
    again.claim("a", [tmp_path / "last.pt"])
    again.wait()
    leave(first, tmp_path, 3, "last.pt")
    with pytest.raises(TrainError, match="another start of this run has taken --checkpoints memory://held/run"):
        first.wait()
    first.close()
    assert memory.cat_file("/held/run/last.pt") == b"2" and memory.cat_file("/held/run/previous.pt") == b"2"
    killed = Store("memory://held/run", tmp_path / "again" / "unsent")
    killed.claim("c", [])
    assert killed.holder().startswith("run c, "), "of an earlier start here, which had not kept a checkpoint"
    killed.close()
    assert sorted(memory.ls("/held/run", detail=False)) == ["/held/run/last.pt", "/held/run/previous.pt"]


def test_a_store_that_another_run_has(train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run goes on without it, and ends with an error. With --resume auto it is the other run, on another machine."""
    held = tmp_path / "store" / "run.txt"
    held.parent.mkdir()
    held.write_text("run 0123456789abcdef, start 1, on node7")
    options = ["--checkpoints", str(held.parent), "--epochs", "1"]
    with pytest.raises(SystemExit, match=r"store is held by run 0123456789abcdef, start 1, on node7, which has not ended"):
        train("run", *options)
    assert weights(tmp_path / "run", "best.pt")["progress"]["epoch"] == 1 and list(held.parent.iterdir()) == [held]
    run = train("elsewhere", *options, "--resume", "auto")
    assert events(run, "start")[0]["run"] == "0123456789abcdef"
    assert sorted(path.name for path in held.parent.iterdir()) == ["best.pt", "last.pt", "previous.pt"]
    for more in (["--resume", "auto"], ["--resume", str(tmp_path / "run" / "checkpoints" / "best.pt")]):
        with pytest.raises(SystemExit, match=r"belongs to another run than .*: use another --checkpoints or --output"):
            train("run", *options, *more)


def test_a_run_that_fails_leaves_its_store(train: Train, tmp_path: Path) -> None:
    options = ["--checkpoints", str(tmp_path / "store"), "--schedule", "constant"]
    with pytest.raises(SystemExit, match="the loss was not finite"):
        train("run", *options, "--lr", "1e8")
    assert list((tmp_path / "store").iterdir()) == []
    train("run", *options, "--max-steps", "1")


def test_a_store_without_whole_objects_gets_its_files_renamed(tmp_path: Path) -> None:
    mine = Store("memory://bucket/run", tmp_path / "unsent")
    mine.claim("run", [])
    for content in (5, 6):
        leave(mine, tmp_path, content, "last.pt")
        mine.wait()
    mine.close()
    memory = fsspec.filesystem("memory")
    assert sorted(memory.ls("/bucket/run", detail=False)) == ["/bucket/run/last.pt", "/bucket/run/previous.pt"]
    assert memory.cat_file("/bucket/run/last.pt") == b"6" and memory.cat_file("/bucket/run/previous.pt") == b"5"
