"""Several ranks: they do what one does, evaluate each sample once, stop together, and name the one that fails."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
import torch
from conftest import CLASSES, PATIENCE, PLAIN, TINY, VAL, Train, command, events, free_port, pack, same, weights

from imgfeed_train import command as launcher

pytestmark = pytest.mark.long
TWO = ["-g", "2", "--batch-size", "8"]


@pytest.fixture
def ranks(sets: Path, tmp_path: Path) -> Train:
    """Train in processes of its own; return the run's folder."""

    def run(name: str, *arguments: str, status: int = 0) -> Path:
        base = ["--data", str(sets), "--output", str(tmp_path / name), *TINY, *PLAIN, *arguments]
        done = subprocess.run(command(*base), capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == status, done.stdout + done.stderr
        return tmp_path / name

    return run


def near(a: Path, b: Path) -> None:
    """Assert that two runs have the same weights but for the order of sums."""
    for name, tensor in weights(a)["model"].items():
        torch.testing.assert_close(weights(b)["model"][name], tensor, rtol=1e-3, atol=2e-5, msg=name)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_ranks_do_what_one_does_with_twice_the_batch(train: Train, ranks: Train, strategy: str) -> None:
    one = train("one", "--accumulate", "2", "--batch-size", "8", "--clip-grad", "1")
    two = ranks("two", *TWO, "--strategy", strategy, "--accumulate", "1", "--clip-grad", "1")
    near(one, two)
    assert [row["samples"] for row in events(two, "epoch")] == [VAL, VAL], "27 images, 14 and 13"
    for mine, theirs in zip(events(one, "epoch"), events(two, "epoch"), strict=True):
        assert theirs["loss"] == pytest.approx(mine["loss"], rel=1e-4) and theirs["acc1"] == pytest.approx(mine["acc1"])


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_ranks_stop_and_continue_with_the_same_bits(ranks: Train, strategy: str) -> None:
    options = [*TWO, "--strategy", strategy, "--mixup", "0.2", "--random-erasing", "0.5", "--drop-path", "0.2", "--amp", "bf16"]
    options += ["--optimizer", "adamw", "--lr", "1e-3", "--accumulate", "2", *(["--ema", "0.9"] if strategy == "ddp" else [])]
    whole = ranks("whole", *options)
    ranks("part", *options, "--max-steps", "2", "--stopped-status", "75", status=75)
    same(whole, ranks("part", *options, "--resume", "auto"))


def test_another_number_of_ranks_and_strategy_continue(train: Train, whole: Path, ranks: Train) -> None:
    """Two ranks to the middle of the first epoch, one to the middle of the second, two of fsdp to the end."""
    ranks("run", *TWO, "--max-steps", "4")
    train("run", "--max-steps", "8", "--resume", "auto")
    run = ranks("run", *TWO, "--strategy", "fsdp", "--resume", "auto")
    near(whole, run)
    assert [row["samples"] for row in events(run, "trained")] == [96, 96], "no sample is lost or repeated"
    assert [row["lr"] for row in events(whole, "step")] == [row["lr"] for row in events(run, "step")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_saves_and_ends(train: Train, sets: Path, tmp_path: Path, number: int) -> None:
    base = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, *PLAIN, "--epochs", "300", *TWO]
    base += ["--stopped-status", "75", "--schedule", "constant"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command(*base), stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True) as process:
        while not (line := process.stdout.readline()).startswith("Epoch: [1][2"):
            assert process.poll() is None, line
        os.killpg(process.pid, number)  # as a terminal does: torchrun and its ranks
        said = process.stdout.read()
    assert process.returncode == 75, said
    assert "stopping after this step" in said and "continue with --resume auto" in said and "Traceback" not in said
    assert 8 <= weights(tmp_path / "run")["progress"]["steps"] < 300 * 6


def test_a_rank_that_is_killed_is_named(sets: Path, tmp_path: Path) -> None:
    base = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, *PLAIN, "--epochs", "3000", *TWO]
    pipe = subprocess.PIPE
    with subprocess.Popen(command(*base), stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        while not process.stdout.readline().startswith("Epoch: [1][2"):
            assert process.poll() is None
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True)
        ranked = {(Path("/proc") / pid / "environ").read_text(): int(pid) for pid in children.stdout.split()}
        (second,) = [pid for env, pid in ranked.items() if "\0RANK=1\0" in env]
        os.kill(second, signal.SIGKILL)
        said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 1
    assert re.search(r"^imgfeed-train: rank 1 was killed by SIGKILL.*--resume auto continues$", said, re.MULTILINE), said


def test_ranks_end_with_their_launcher(sets: Path, tmp_path: Path) -> None:
    """A launcher that is killed can pass no signal on: the kernel tells its ranks, which save and end."""
    base = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, *PLAIN, "--epochs", "3000", *TWO]
    pipe = subprocess.PIPE
    with subprocess.Popen(command(*base), stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        while not process.stdout.readline().startswith("Epoch: [1][2"):
            assert process.poll() is None
        process.kill()
        said = process.communicate(timeout=PATIENCE)[0]  # up to the end of the last rank
    assert "stopping after this step" in said and "continue with --resume auto" in said, said
    assert 8 <= weights(tmp_path / "run")["progress"]["steps"] < 3000 * 6


def test_an_error_of_one_rank_is_said_once_by_name(sets: Path, tmp_path: Path) -> None:
    base = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, *PLAIN, *TWO, "--data", str(tmp_path / "none")]
    done = subprocess.run(command(*base), capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert re.search(r"^imgfeed-train: rank [01]: --data .*/none: no such file", done.stderr, re.MULTILINE)


@pytest.mark.parametrize("how", ["flags", "variables"])
def test_two_machines(train: Train, sets: Path, tmp_path: Path, how: str) -> None:
    """-n 2 -g 1 -nr 0 and -nr 1, each with a launcher of its own; the second keeps nothing."""
    port, processes = free_port(), []
    for node in range(2):
        base = ["--data", str(sets), "--output", str(tmp_path / f"run{node}"), *TINY, *PLAIN, "--batch-size", "8"]
        env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        if how == "flags":
            base += ["-n", "2", "-nr", str(node)]
        else:
            env |= {"WORLD_SIZE": "2", "NODE_RANK": str(node)}
        words = command(*base, "-g", "1")
        processes.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    said = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert f"ranks: 2 (2 x 1); master 127.0.0.1:{port}" in said[0] and "Training complete in:" in said[0]
    near(train("one"), tmp_path / "run0")
    assert not (tmp_path / "run1").exists()


def test_two_machines_with_other_data(sets: Path, tmp_path: Path) -> None:
    """Of a run and of a score, each machine says so."""
    other = pack(tmp_path / "other", CLASSES + 1)
    for more in (["--output", str(tmp_path / "run")], ["--evaluate", "--weights", "pretrained"]):
        processes, env = [], {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        for node, data in enumerate((sets, other)):
            words = command("--data", str(data), *TINY, *PLAIN, *more, "-g", "1", "-n", "2", "-nr", str(node))
            processes.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        said = [process.communicate(timeout=PATIENCE)[0] for process in processes]
        assert [process.returncode for process in processes] == [1, 1]
        assert all("rank 1 on " in text and "Give all ranks the same data" in text for text in said), said


def test_a_machine_that_the_others_do_not_reach(sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens, or nobody has the name."""
    monkeypatch.setattr(launcher, "MEET", 2)
    base = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, "-n", "2", "-g", "1", "-nr", "1"]
    for host, port in (("no-such-host.invalid", 29500), ("127.0.0.1", free_port())):
        monkeypatch.setenv("MASTER_ADDR", host)
        monkeypatch.setenv("MASTER_PORT", str(port))
        with pytest.raises(
            SystemExit, match=rf"imgfeed-train: machine 1 of 2 does not reach {host}:{port}: does machine 0 run"
        ):
            launcher.main(base)
