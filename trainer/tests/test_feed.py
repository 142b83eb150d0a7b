"""``--data unix:SOCKET``: training on a feed that runs, with the sets that it has."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from conftest import PLAIN, TINY, TRAIN, VAL, Train, command, events, same, weights
from imgfeed.launcher import find_binary

from imgfeed_train.command import main
from imgfeed_train.data import sets as found_sets
from imgfeed_train.data.loaders import Feed
from imgfeed_train.launch.place import Place
from imgfeed_train.settings import parse


@contextlib.contextmanager
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
def test_two_ranks_share_a_feed_that_is_killed_under_them(
    sets: Path, tmp_path: Path, fed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """They wait for the next feed and go on: the weights have the same bits as those of a run that nothing happened to."""
    at = fed.index("--output")
    calm = [*fed[:at], *fed[at + 2 :], "--output", str(tmp_path / "calm")]
    socket, rest = tmp_path / "sock", ["--batch-size", "8", "--epochs", "5", "--schedule", "constant", "-g", "2"]
    with subprocess.Popen(command("--data", f"unix:{socket}", *fed, *rest), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for epoch in (1, 2, 4):
            with served(sets, socket) as feed:
                while not process.stdout.readline().startswith(f"Epoch: [{epoch}]"):
                    assert process.poll() is None
                feed.send_signal(signal.SIGKILL)
        with served(sets, socket):
            process.stdout.read()
            assert process.wait() == 0
            subprocess.run(command("--data", f"unix:{socket}", *calm, *rest), check=True)
            one, two = weights(tmp_path / "fed"), weights(tmp_path / "calm")
            assert one["progress"]["steps"] == two["progress"]["steps"] > 0
            for name, tensor in two["model"].items():
                assert torch.equal(tensor, one["model"][name]), name
            more = ["--resume", "auto", "--epochs", "6", "--schedule", "constant"]
            main(["--data", f"unix:{socket}", *fed, *more])  # one rank with the batch of both
    assert "epoch 5, batch 0" in capsys.readouterr().out
    assert weights(tmp_path / "fed")["progress"]["steps"] > one["progress"]["steps"]


def test_feed_that_comes_later(sets: Path, tmp_path: Path, fed: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """It is waited for, which is told once; Ctrl-C ends the wait at once."""
    words = ["--data", f"unix:{tmp_path / 'sock'}", *fed, "--epochs", "1"]
    told = ""

    def come() -> None:
        nonlocal told
        while "waited for" not in told:
            told += capfd.readouterr().err
            time.sleep(0.01)
        feeds.enter_context(served(sets, tmp_path / "sock"))

    with contextlib.ExitStack() as feeds:
        thread = threading.Thread(target=come)
        thread.start()
        main(words)
        thread.join()
        told += capfd.readouterr().err
        assert f"--data unix:{tmp_path / 'sock'}: imgfeed: can't connect" in told
        assert told.count("it is waited for, up to 120 s") == 1 and told.count(f"there is no {tmp_path / 'sock'}") == 1
    assert weights(tmp_path / "fed")["progress"]["steps"] == 6
    process = subprocess.Popen(command(*words, "--output", str(tmp_path / "none")), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "it is waited for" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130


def test_feed_that_is_not_there_or_lacks_a_set(
    sets: Path, tmp_path: Path, fed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found_sets, "PATIENCE", 0.2)
    missing = r"can't connect to .*/none: No such file or directory; is a server running there\? \(waited "
    with pytest.raises(SystemExit, match=missing):
        main(["--data", f"unix:{tmp_path / 'none'}", *fed])
    with served(sets / "train", tmp_path / "sock"):
        with pytest.raises(
            SystemExit, match=r"has no split 'val/valid/validation/test' \(--val-split\); it has train; serve a folder"
        ):
            main(["--data", f"unix:{tmp_path / 'sock'}", *fed])
        with pytest.raises(SystemExit, match="say --data unix:/"):
            main(["--data", str(tmp_path / "sock"), *fed])


@pytest.mark.parametrize("recipe", [[], ["--recipe", "resnet50-a2"]])
def test_repeats_with_and_without_a_recipe(sets: Path, recipe: list[str]) -> None:
    """Three of an image in a row, dealt to the ranks, so that each has it at most twice."""
    s = parse(["--data", str(sets), "--output", "o", *recipe, *([] if recipe else ["--repeats", "3"]), "--size", "32"])
    assert s.repeats == 3
    stats = ((0.5,) * 3, (0.5,) * 3)
    orders = []
    for rank in range(2):
        place = Place(rank=rank, world=2)
        feed = Feed(s, "train", place, torch.device("cpu"), batch_size=8, stats=stats, drop_last=True)
        orders.append(list(feed.loader.sampler))
        assert feed.samples_per_epoch == TRAIN
        feed.loader.close()
    dealt = [index for pair in zip(*orders, strict=True) for index in pair]
    assert len(dealt) == TRAIN and all(dealt[i] == dealt[i - i % 3] for i in range(TRAIN))
    assert len(set(dealt)) == TRAIN // 3


def test_feed_has_its_own_threads(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--data", "unix:/x", "--output", "o", "--workers", "3"])
    assert "imgfeed serve --threads" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse(["--data", "unix:/x", "--output", "o", "--cache", "/nvme"])
    assert "imgfeed serve --cache" in capsys.readouterr().err


def test_images_that_cannot_be_read(train: Train, sets: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(sets, tmp_path / "damaged"))
    for shard in (damaged / "train").rglob("*.imgshard"):
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 0x40
        shard.write_bytes(data)
    of = ("--data", str(damaged))
    with pytest.raises(SystemExit, match=r"rank 0: .*CRC-32C"):
        train("ends", *of)
    with pytest.raises(SystemExit, match=r"rank 0: .*samples? can't be read, and max_bad is 0:\nsample \d+ .*CRC-32C"):
        train("borne-none", *of, "--on-error", "substitute", "--max-bad", "0")
    one, two = (weights(train(name, *of, "--on-error", "substitute"))["model"] for name in ("one", "two"))
    assert all(torch.equal(tensor, two[name]) for name, tensor in one.items())
    with pytest.raises(SystemExit):
        parse(["--data", "d", "--output", "o", "--max-bad", "3"])


def wait_for(socket: Path) -> None:
    """Wait for a feed's socket."""
    deadline = time.monotonic() + 20
    while not socket.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


LOST = re.compile("(waited|looked) for")  # of the log of a run that waits for its feed


def steps(run: Path) -> int:
    """Return how many steps a run has logged so far."""
    log = run / "log.jsonl"
    return log.read_text().count('"event": "step"') if log.exists() else 0


class Killer(threading.Thread):
    """Kills a feed again and again under a run, at random moments, and starts the next; the last one stays."""

    def __init__(self, sets: Path, socket: Path, run: Path, kills: int) -> None:
        super().__init__()
        self.sets, self.socket, self.run_folder, self.left = sets, socket, run, kills
        self.over = threading.Event()
        self.start()
        wait_for(socket)

    def run(self) -> None:
        dice = random.Random(self.left)
        while self.left and not self.over.is_set():
            with served(self.sets, self.socket) as feed:
                after = steps(self.run_folder) + dice.randrange(1, 5)
                while steps(self.run_folder) < after and not self.over.wait(0.01):
                    pass
                self.over.wait(dice.uniform(0, 0.05))
                feed.kill()
                feed.wait()
            self.left -= not self.over.is_set()
        with served(self.sets, self.socket):
            self.over.wait()


@pytest.mark.long
def test_a_feed_that_is_killed_again_and_again(sets: Path, tmp_path: Path, fed: list[str]) -> None:
    """One run, which never starts again, ends with the same bits as without. IMGFEED_KILLS=50 kills more often."""
    kills = int(os.environ.get("IMGFEED_KILLS", "4"))
    words = ["--data", f"unix:{tmp_path / 'sock'}", *fed, "--schedule", "constant", "--log-every", "1"]
    words += ["--epochs", str(kills + 2)]
    killer = Killer(sets, tmp_path / "sock", tmp_path / "fed", kills)
    try:
        main(words)
        assert killer.left == 0, "the run was over before"
        main([*words, "--output", str(tmp_path / "calm")])
    finally:
        killer.over.set()
        killer.join()
    same(tmp_path / "fed", tmp_path / "calm")
    assert weights(tmp_path / "fed")["progress"]["steps"] == 6 * (kills + 2)


@pytest.mark.long
def test_a_feed_and_a_run_that_stand_still(sets: Path, tmp_path: Path, fed: list[str]) -> None:
    """First the feed (SIGSTOP), then a rank, then both: it ends with the same bits. IMGFEED_STANDSTILL=60: a minute each."""
    seconds = float(os.environ.get("IMGFEED_STANDSTILL", "1"))
    words = ["--data", f"unix:{tmp_path / 'sock'}", *fed, "--batch-size", "8", "--schedule", "constant", "--log-every", "1"]
    words += ["--epochs", "5", "-g", "2"]
    with served(sets, tmp_path / "sock") as feed:
        with subprocess.Popen(command(*words)) as run:
            for number in range(3):
                before = steps(tmp_path / "fed")
                while steps(tmp_path / "fed") < before + 4:
                    assert run.poll() is None
                    time.sleep(0.01)
                children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
                still = [[feed.pid], [int(children[1])], [int(child) for child in children]][number]
                for pid in still:
                    os.kill(pid, signal.SIGSTOP)
                time.sleep(seconds)
                for pid in still:
                    os.kill(pid, signal.SIGCONT)
            assert run.wait() == 0
        main([*words, "--output", str(tmp_path / "calm")])
    same(tmp_path / "fed", tmp_path / "calm")


@pytest.mark.long
def test_a_run_that_waits_for_its_feed_is_told_to_stop(
    sets: Path, tmp_path: Path, fed: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It saves its place and ends at once; gone on with, it ends with the bits of a run that nothing happened to."""
    words = ["--data", f"unix:{tmp_path / 'sock'}", *fed, "--epochs", "6", "--schedule", "constant", "--log-every", "1"]
    told: list[float] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def tell() -> None:
        with served(sets, tmp_path / "sock") as feed:
            while not LOST.search(caplog.text) and not told:
                if steps(tmp_path / "fed") > 8:
                    feed.kill()
                time.sleep(0.01)
        if not told:
            told.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGTERM)

    teller = threading.Thread(target=tell)
    teller.start()
    wait_for(tmp_path / "sock")
    try:
        with pytest.raises(SystemExit, match="75"):
            main([*words, "--stopped-status", "75"])
        assert time.monotonic() < told[0] + 20, "it waited for its feed"
    finally:
        told.append(0.0)  # else it would wait, too
        teller.join()
        for number, handler in before.items():
            signal.signal(number, handler)
    assert 8 < weights(tmp_path / "fed")["progress"]["steps"] < 36
    with served(sets, tmp_path / "sock"):
        main([*words, "--resume", "auto"])
        main([*words, "--output", str(tmp_path / "calm")])
    same(tmp_path / "fed", tmp_path / "calm")


@pytest.mark.long
def test_ranks_that_wait_for_their_feed_are_told_to_stop(sets: Path, tmp_path: Path, fed: list[str]) -> None:
    """They save the last whole step and end, wherever they wait: those of a launcher that tells all of them."""
    socket, rest = tmp_path / "sock", ["--batch-size", "8", "-g", "2", "--stopped-status", "75"]
    rest += ["--epochs", "30", "--schedule", "constant", "--log-every", "1"]
    base = command("--data", f"unix:{socket}", *fed, *rest)
    with served(sets, socket) as feed:
        process = subprocess.Popen(base, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        assert process.stdout is not None
        while not process.stdout.readline().startswith("Epoch: [2]"):
            assert process.poll() is None
        feed.send_signal(signal.SIGKILL)
    while not LOST.search(line := process.stdout.readline()):
        assert line, "the run has ended"
    os.killpg(process.pid, signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 75, said
    assert "go on with --resume auto" in said
    assert 12 <= weights(tmp_path / "fed")["progress"]["steps"] < 30 * 6
