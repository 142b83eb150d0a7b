"""``--data unix:SOCKET``: training on a feed that runs, with the sets that it has."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from conftest import PLAIN, TINY, VAL, Train, command, events, weights
from imgfeed.launcher import find_binary

from imgfeed_train.command import main
from imgfeed_train.settings import parse


@contextmanager
def served(data: Path, socket: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a feed."""
    with subprocess.Popen([find_binary(), "serve", str(data), "--socket", str(socket), "--threads", "1"]) as feed:
        deadline = time.monotonic() + 20
        while not socket.exists():
            assert feed.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        try:
            yield feed
        finally:
            feed.terminate()


@pytest.fixture
def fed(tmp_path: Path) -> list[str]:
    """The tests' settings without a number of threads, which a running feed has of its own."""
    words = list(TINY)
    at = words.index("--workers")
    del words[at : at + 2]
    return [*words, *PLAIN, "--output", str(tmp_path / "fed")]


def test_feed_gives_what_a_folder_gives(train: Train, sets: Path, tmp_path: Path, fed: list[str]) -> None:
    folder = train("folder")
    with served(sets, tmp_path / "sock"):
        main(["--data", f"unix:{tmp_path / 'sock'}", *fed])
    one, two = weights(folder)["model"], weights(tmp_path / "fed")["model"]
    for name, tensor in one.items():
        assert torch.equal(tensor, two[name]), name
    assert [e["samples"] for e in events(tmp_path / "fed", "epoch")] == [VAL, VAL]
    assert all(e["feed"] in ("disk", "cpu", "client", "idle") for e in events(tmp_path / "fed", "step"))


@pytest.mark.long
def test_two_ranks_share_a_feed_and_the_run_resumes_after_its_end(
    sets: Path, tmp_path: Path, fed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = command("--data", f"unix:{tmp_path / 'sock'}", *fed, "--batch-size", "8", "--checkpoint-every", "1", "-g", "2")
    with served(sets, tmp_path / "sock") as feed:
        long = [*arguments, "--epochs", "200", "--schedule", "constant"]
        with subprocess.Popen(long, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            while not process.stdout.readline().startswith("Epoch: [1]"):
                assert process.poll() is None
            feed.send_signal(signal.SIGKILL)
            process.stdout.read()
            said = process.stderr.read()
    assert process.returncode == 1
    assert "imgfeed-train: rank " in said
    assert "imgfeed: " in said
    (tmp_path / "sock").unlink()
    reached = weights(tmp_path / "fed")["progress"]
    with served(sets, tmp_path / "sock"):
        more = ["--resume", "auto", "--max-steps", str(reached["steps"] + 3), "--epochs", "200", "--schedule", "constant"]
        main(["--data", f"unix:{tmp_path / 'sock'}", *fed, *more])  # one rank with the batch of both
    assert f"epoch {reached['epoch']}, batch {reached['batches']}" in capsys.readouterr().out
    assert weights(tmp_path / "fed")["progress"]["steps"] >= reached["steps"] + 3


def test_feed_that_is_not_there_or_lacks_a_set(sets: Path, tmp_path: Path, fed: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"can't connect to .*/none: No such file or directory; is a server running there\?"):
        main(["--data", f"unix:{tmp_path / 'none'}", *fed])
    with served(sets / "train", tmp_path / "sock"):
        with pytest.raises(
            SystemExit, match=r"has no split 'val/valid/validation/test' \(--val-split\); it has train; serve a folder"
        ):
            main(["--data", f"unix:{tmp_path / 'sock'}", *fed])
        with pytest.raises(SystemExit, match="say --data unix:/"):
            main(["--data", str(tmp_path / "sock"), *fed])


def test_feed_has_its_own_threads(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--data", "unix:/x", "--output", "o", "--workers", "3"])
    assert "imgfeed serve --threads" in capsys.readouterr().err
