"""Interruptions: whatever ends a run, and on however many ranks it goes on, no sample is repeated and none is left out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import spy
import torch
from conftest import PLAIN, TINY, TRAIN, Train, command, events, free_port, weights

from imgfeed_train import optim
from imgfeed_train.data import loaders as data
from imgfeed_train.launch import stop
from imgfeed_train.launch.place import Place
from imgfeed_train.report.book import read
from imgfeed_train.settings import parse

PATIENCE = 300  # seconds; only a run that hangs takes so long


def spied(ranks: int, *arguments: str) -> None:
    """Run the trainer on so many ranks, which note their samples."""
    env = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, spy.__file__, *arguments]
    processes = [subprocess.Popen(command, env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(ranks)]
    assert [process.wait(PATIENCE) for process in processes] == [0] * ranks


def samples(noted: Path) -> Counter[tuple[int, int]]:
    """Return how often each (epoch, sample) was trained on, over all ranks."""
    lines = [line.split() for file in noted.parent.glob(f"{noted.name}.*") for line in file.read_text().splitlines()]
    return Counter((int(epoch), int(index)) for epoch, *indices in lines for index in indices)


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_another_world_goes_on_at_the_exact_sample(
    train: Train, sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """Two ranks to the middle of the first epoch, one to the middle of the second, two to its end."""
    whole = train("whole", "--log-every", "1")
    options = ["--strategy", strategy, "--log-every", "1"]
    two = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, *PLAIN, *options, "--batch-size", "8"]
    noted = tmp_path / "noted"
    monkeypatch.setenv("SPY", str(noted))
    spied(2, *two, "--max-steps", "4")
    assert sum(samples(noted).values()) == 4 * 16
    with monkeypatch.context() as patched:
        patched.setattr(data, "DataLoader", spy.Spy)
        train("run", *options, "--max-steps", "8", "--resume", "auto")
    assert sum(samples(noted).values()) == 8 * 16
    spied(2, *two, "--resume", "auto")
    assert samples(noted) == Counter({(epoch, index): 1 for epoch in range(2) for index in range(TRAIN)})
    # 16 images a step throughout: the same rates, and but for rounding the same weights as without the interruption.
    assert [e["lr"] for e in events(tmp_path / "run", "step")] == [e["lr"] for e in events(whole, "step")]
    for name, tensor in weights(whole)["model"].items():
        torch.testing.assert_close(weights(tmp_path / "run")["model"][name], tensor, rtol=1e-3, atol=2e-5, msg=name)


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["onecycle", "cosine"])
def test_another_batch_size_keeps_the_place_in_the_schedule(train: Train, schedule: str) -> None:
    options = ["--schedule", schedule, "--warmup-epochs", "0.5", "--log-every", "1"]
    train("run", *options, "--max-steps", "8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns where a schedule steps before its optimiser
        run = train("run", *options, "--batch-size", "8", "--accumulate", "2", "--size-start", "0", "--resume", "auto")
        again = train("again", *options, "--batch-size", "8", "--max-steps", "20")
        train("again", *options, "--batch-size", "16", "--resume", "auto")
    # Two batches of 8 a step are as many steps as before; batches of 8 alone are twice as many.
    s = parse(["--data", "d", "--output", "o", *PLAIN, *options])
    for folder, steps in ((run, 6), (again, 12)):
        opt = optim.optimizer(torch.nn.Linear(2, 2), s)
        plan = optim.schedule(opt, s, steps)
        rates = []
        for _ in range(2 * steps):
            rates.append(opt.param_groups[0]["lr"])
            opt.step()
            plan.step() if len(rates) < 2 * steps else None
        for e in events(folder, "step")[: 16 if folder == run else 20]:
            under_way = folder == run and (e["epoch"], e["batch"]) > (1, 2) and e["batch"] % 2 == 1  # the first of two batches
            assert e["lr"] == pytest.approx(rates[e["step"] - (not under_way)], rel=1e-6), e


def test_another_rate_is_taken(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    train("run", "--max-steps", "4", "--log-every", "1")
    run = train("run", "--lr", "0.01", "--epochs", "3", "--resume", "auto", "--log-every", "1")
    assert "epochs, lr changed; the schedule goes on at step 4 of 18, where it was at 4 of 12" in capsys.readouterr().out
    assert max(e["lr"] for e in events(run, "step")[4:]) <= 0.01
    assert weights(run)["progress"]["steps"] == 18


def test_an_average_may_begin_later(train: Train) -> None:
    train("run", "--max-steps", "4")
    run = train("run", "--ema", "0.9", "--amp", "bf16", "--resume", "auto")
    state = weights(run)
    assert int(state["ema"]["n_averaged"]) == 8
    assert state["ema"].keys() == {"n_averaged", *(f"module.{name}" for name in state["model"])}


@pytest.mark.long
@pytest.mark.parametrize(("number", "ranks"), [(n, ranks) for n in (signal.SIGTERM, signal.SIGINT) for ranks in (1, 2)])
def test_a_signal_saves_and_ends(train: Train, sets: Path, tmp_path: Path, number: int, ranks: int) -> None:
    base = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, *PLAIN, "--epochs", "300"]
    base += ["--batch-size", str(16 // ranks), "-g", str(ranks), "--stopped-status", "75", "--schedule", "constant"]
    with subprocess.Popen(
        command(*base), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("Epoch: [1][2"):
            assert process.poll() is None
        os.killpg(process.pid, number)  # as a terminal does: launcher, ranks, everything below
        rest = process.stdout.read()
    assert process.returncode == 75, rest
    assert "stopping after this step" in rest
    assert "go on with --resume auto" in rest
    progress = weights(tmp_path / "run")["progress"]
    assert 8 <= progress["steps"] < 300 * 6
    more = ["--max-steps", str(progress["steps"] + 20)]
    again = command(*base, "--resume", "auto", *more)
    done = subprocess.run(again, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 75, done.stderr  # as --max-steps stops it, too
    whole = weights(train("whole", "--epochs", "300", "--schedule", "constant", *more))
    run = weights(tmp_path / "run")
    assert all(run["progress"][name] == whole["progress"][name] for name in ("epoch", "batches", "steps"))
    assert run["progress"]["steps"] >= progress["steps"] + 20
    for name, tensor in whole["model"].items():
        tolerance = 0.0 if ranks == 1 else 1e-2
        torch.testing.assert_close(run["model"][name], tensor, rtol=tolerance, atol=tolerance / 10, msg=name)


@pytest.fixture
def signals() -> Iterator[None]:
    """Give the signals back that a stopped run keeps."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_a_second_press_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(stop.time, "monotonic", lambda: now[0])
    with stop.Stop(Place(), torch.device("cpu")) as asked:
        assert not asked.agreed()
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # the same press, by the launcher
        assert asked.agreed(7)
        now[0] += 2
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)  # and while the report is written


@pytest.mark.usefixtures("signals")
def test_a_rank_that_is_told_by_another_waits_for_its_own_press(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its signal may come long after the ranks agreed, while a checkpoint is written, and is no second press."""
    now = [100.0]
    monkeypatch.setattr(stop.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(stop.dist, "all_reduce", lambda flag, _: flag.fill_(1))
    with stop.Stop(Place(1, 2), torch.device("cpu")) as asked:
        assert asked.agreed(stop.AGREE_EVERY)
        now[0] += 5
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        now[0] += 2
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_signals_are_given_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with stop.Stop(Place(), torch.device("cpu")) as asked:
        assert signal.getsignal(signal.SIGTERM) not in before
        assert not asked.agreed()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_rank_that_is_told_last_stops_as_the_others(sets: Path, tmp_path: Path, number: int) -> None:
    """Only rank 0 is told at first. When it says that the run has stopped, rank 1 is told, again and again until its end."""
    run = command("--data", str(sets), "--output", str(tmp_path / "run"), *TINY, *PLAIN, "--epochs", "500", "--batch-size", "8")
    run += ["--stopped-status", "75"]
    env = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [subprocess.Popen(run, env={**env, "RANK": rank, "LOCAL_RANK": rank}, stdout=subprocess.PIPE) for rank in "01"]
    assert ranks[0].stdout is not None
    lines = iter(ranks[0].stdout.readline, b"")
    assert any(line.startswith(b"Epoch: [1][2") for line in lines)
    ranks[0].send_signal(number)
    assert any(b"go on with --resume auto" in line for line in lines)
    late = time.monotonic()
    while ranks[1].poll() is None and (number == signal.SIGTERM or time.monotonic() < late + stop.ONE_PRESS / 2):
        ranks[1].send_signal(number)
        time.sleep(0.001)
    assert [rank.wait(PATIENCE) for rank in ranks] == [75, 75]


def test_one_output_has_one_run(train: Train, tmp_path: Path) -> None:
    """Another run's log is not gone on with, whichever checkpoints are named, and is left as it was."""
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    run = train("run", "--checkpoints", one, "--epochs", "1")
    first, report = read(run).epochs, (run / "report.md").read_text()
    with pytest.raises(
        SystemExit, match=rf"has the log of another run, and its checkpoints are in {one}: .* begin anew there by"
    ):
        train("run", "--checkpoints", two, "--epochs", "1")
    train("other", "--checkpoints", two, "--epochs", "1")
    with pytest.raises(SystemExit, match=rf"has the log of another run, and {two}/last.pt is not its checkpoint: take another"):
        train("run", "--checkpoints", two, "--epochs", "2", "--resume", "auto")
    assert read(run).epochs == first
    assert (run / "report.md").read_text() == report
    train("run", "--checkpoints", one, "--epochs", "2", "--resume", "auto")
    assert len(read(run).epochs) == 2
    train("run", "--checkpoints", two, "--epochs", "1", "--overwrite")
    assert len(read(run).epochs) == 1


def test_another_optimiser_is_named(train: Train) -> None:
    train("run", "--optimizer", "sgd", "--epochs", "1")
    with pytest.raises(SystemExit, match=r"last.pt is of --optimizer sgd, and its moments don't fit adamw: give sgd"):
        train("run", "--optimizer", "adamw", "--epochs", "2", "--resume", "auto")


@pytest.mark.parametrize(("torn", "whole"), [("last.pt", "best.pt"), ("best.pt", "last.pt")])
def test_a_torn_checkpoint_names_the_others(train: Train, torn: str, whole: str) -> None:
    run = train("run", "--epochs", "1")
    path = run / "checkpoints" / torn
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(
        SystemExit, match=rf"{torn} can't be read as a checkpoint: .*; .*/checkpoints has {whole} too: --resume"
    ):
        train("run", "--epochs", "2", "--resume", "auto" if torn == "last.pt" else str(path))


def test_the_rate_of_a_line_is_its_last_steps(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    run = train("run", "--lr", "0.1", "--schedule", "cosine", "--warmup-epochs", "4", "--epochs", "2", "--log-every", "1")
    assert read(run).steps[0]["lr"] == pytest.approx(0.1 / 12)  # of the first of twelve steps, eleven of which rise
    assert "the rate rises over all 2 epochs, as --warmup-epochs is 4" in capsys.readouterr().out
