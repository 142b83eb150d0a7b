"""Interruptions: a run that is stopped anywhere and resumed ends with the bits of one that was not."""

import fcntl
import json
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import CLASSES, PLAIN, TINY, TRAIN, Train, equal, events, pack, same, weights

from imgfeed_train import ranks, store
from imgfeed_train import train as training
from imgfeed_train.flags import parse
from imgfeed_train.optim import Schedule, optimizer

#: Everything that draws numbers, or has a state beside weights and moments.
ALL = [
    "--mixup",
    "0.2",
    "--cutmix",
    "1",
    "--ema",
    "0.99",
    "--random-erasing",
    "0.5",
    "--drop-path",
    "0.2",
    "--label-smoothing",
    "0.1",
]
ALL += ["--amp", "bf16", "--optimizer", "adamw", "--lr", "1e-3", "--clip-grad", "1", "--augment", "rand-m9-mstd0.5"]


def test_a_run_stopped_after_every_step(train: Train) -> None:
    options = [*ALL, "--batch-size", "17", "--accumulate", "2", "--schedule", "cosine", "--warmup-epochs", "0.5"]
    whole = train("whole", *options)
    assert weights(whole)["progress"]["steps"] == 6, "six batches an epoch, the last of eleven images"
    for step in range(1, 6):
        train("parts", *options, "--max-steps", str(step), "--resume", "auto")
        assert weights(whole.parent / "parts")["progress"]["steps"] == step
    same(whole, train("parts", *options, "--resume", "auto"))
    seen = [(row["epoch"], row["batch"]) for row in events(whole.parent / "parts", "step")]
    assert seen == sorted(set(seen)), "no line twice"
    trained = events(whole.parent / "parts", "trained")
    for one, two in zip(events(whole, "trained"), trained, strict=True):
        assert (one["samples"], two["samples"]) == (TRAIN, TRAIN)
        assert one["loss"] == pytest.approx(two["loss"], rel=1e-6), "an epoch's means are of all its parts"


@pytest.mark.parametrize(
    "options",
    [
        ["--arch", "timm/test_resnet", "--amp", "bf16", "--schedule", "onecycle", "--batch-size", "20"],
        ["--arch", "timm/test_resnet", "--freeze", "--optimizer", "lamb", "--schedule", "linear"],
        pytest.param(["--grad-checkpointing", "--loss", "bce", "--mixup", "0.2", "--nan", "skip"], marks=pytest.mark.long),
        pytest.param(["--optimizer", "lion", "--schedule", "constant", "--strategy", "fsdp"], marks=pytest.mark.long),
    ],
)
def test_other_optimisers_and_models(train: Train, options: list[str]) -> None:
    whole = train("whole", *options)
    train("parts", *options, "--max-steps", "2")
    train("parts", *options, "--max-steps", "7", "--resume", "auto")
    same(whole, train("parts", *options, "--resume", "auto"))


def test_an_epoch_is_kept_before_its_evaluation(
    train: Train, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(training, "evaluate", lambda *_: (_ for _ in ()).throw(RuntimeError("the disk of val is gone")))
        with pytest.raises(RuntimeError, match="is gone"):
            train("run")
    progress = weights(tmp_path / "run")["progress"]
    assert (progress["epoch"], progress["scored"], progress["steps"]) == (1, 0, 6)
    same(whole, train("run", "--resume", "auto"))
    assert [row["epoch"] for row in events(tmp_path / "run", "epoch")] == [0, 1]


@pytest.mark.parametrize(("most", "epoch", "batches"), [(6, 1, 0), (7, 1, 1)])
def test_max_steps_is_exact(train: Train, most: int, epoch: int, batches: int) -> None:
    progress = weights(train("run", "--max-steps", str(most)))["progress"]
    assert (progress["steps"], progress["epoch"], progress["batches"]) == (most, epoch, batches)
    assert len(events(train("run", "--max-steps", str(most), "--resume", "auto"), "epoch")) == 1


def test_checkpoints_within_an_epoch(train: Train) -> None:
    run = train("run", "--checkpoint-every", "2", "--epochs", "1")
    assert [row["step"] for row in events(run, "saved")] == [2, 4, 6, 6]


def test_another_batch_size_and_number_of_epochs_keep_the_position(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    train("run", "--max-steps", "9", "--log-every", "1")
    capsys.readouterr()
    run = train("run", "--batch-size", "8", "--epochs", "3", "--resume", "auto", "--log-every", "1")
    assert "epoch 1, batch 6; this is step 18 of the schedule, and was 9" in capsys.readouterr().out
    s = parse(["--data", "d", "--output", "o", *TINY, *PLAIN, "--epochs", "3"])
    schedule = Schedule(optimizer(torch.nn.Linear(2, 2), s), s, 12)
    for row in events(run, "step")[9:]:
        schedule.at(row["step"] - 1)
        assert row["lr"] == pytest.approx(schedule.rate), row
    assert [row["samples"] for row in events(run, "trained")] == [TRAIN] * 3, "no sample is lost or repeated"


def test_an_average_may_begin_later(train: Train) -> None:
    train("run", "--max-steps", "4")
    state = weights(train("run", "--ema", "0.9", "--resume", "auto"))
    assert state["model_ema"].keys() == state["model"].keys()


def test_what_does_not_fit_is_refused(train: Train, tmp_path: Path) -> None:
    train("run", "--epochs", "1", "--max-steps", "2")
    for options, said in (
        (["--arch", "timm/test_resnet"], r"does not fit this model \(timm/test_resnet\) and optimiser"),
        (["--optimizer", "adamw"], "is of --optimizer sgd: its moments do not fit adamw; give sgd"),
        (["--seed", "1"], "its order and its crops are another seed's"),
        (["--data", str(pack(tmp_path / "other", CLASSES, 32))], "its samples had other content"),
    ):
        with pytest.raises(SystemExit, match=said):
            train("run", "--resume", "auto", *options)


def test_a_rerun_does_not_replace_checkpoints(train: Train) -> None:
    run = train("run", "--epochs", "1")
    before = (run / "checkpoints" / "best.pt").read_bytes()
    with pytest.raises(SystemExit, match=r"there are checkpoints of a run .*best\.pt.*, or remove them"):
        train("run", "--epochs", "1", "--seed", "1")
    assert (run / "checkpoints" / "best.pt").read_bytes() == before


def test_a_folder_has_one_run(train: Train, tmp_path: Path) -> None:
    """Another run's log is not continued, whichever checkpoint is named, and stays as it was."""
    one, two = train("one", "--epochs", "1"), train("two", "--epochs", "1")
    log = (one / "log.jsonl").read_text()
    with pytest.raises(SystemExit, match=r"has the log of another run, and .*two/checkpoints/last.pt is not its checkpoint"):
        train("one", "--resume", str(two / "checkpoints" / "last.pt"), "--epochs", "2")
    assert events(one, "epoch") == [json.loads(line) for line in log.splitlines() if '"event": "epoch"' in line]
    new = train("new", "--resume", str(two / "checkpoints" / "last.pt"), "--epochs", "2")
    assert [row["epoch"] for row in events(new, "epoch")] == [1]


def test_two_jobs_do_not_share_a_folder(train: Train, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / "log.jsonl").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="another run writes there"):
            train("run")


def test_the_furthest_copy_is_continued(train: Train, whole: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Whether it is the store's, which other starts did not use, or one on this machine; a damaged one is replaced by it."""

    def resumed(name: str, steps: int, *more: str) -> str:
        train(name, "--resume", "auto", "--max-steps", str(steps), *more)
        return next((line for line in capsys.readouterr().out.splitlines() if line.startswith("resumed ")), "")

    store, local = tmp_path / "store", tmp_path / "run" / "checkpoints"
    use = ["--checkpoints", str(store)]
    assert resumed("run", 2, *use) == ""
    assert f"resumed {local}/last.pt: epoch 0, batch 2" in resumed("run", 7)
    assert f"resumed {local}/last.pt: epoch 1, batch 1" in resumed("run", 7, *use)
    assert equal(torch.load(store / "last.pt"), weights(tmp_path / "run")), "the store is brought up to date"
    assert equal(torch.load(store / "best.pt"), weights(tmp_path / "run", "best.pt"))
    assert f"resumed {store}/last.pt: epoch 1, batch 1" in resumed("elsewhere", 9, *use)
    (tmp_path / "run" / "unsent" / "last.pt").hardlink_to(local / "last.pt")
    assert f"resumed {store}/last.pt: epoch 1, batch 3" in resumed("run", 9, *use)
    assert torch.load(store / "last.pt")["progress"]["steps"] == 9, "what waited since then is not sent over it"
    resumed("run", 10, *use)
    resumed("run", 11)
    (local / "last.pt").write_bytes(b"torn")
    (tmp_path / "run" / "unsent" / "last.pt").hardlink_to(store / "previous.pt")  # as of a store that failed long ago
    shutil.copyfile(store / "previous.pt", store / "last.pt")
    assert f"resumed {local}/previous.pt: epoch 1, batch 4" in resumed("run", 10, *use)
    assert equal(torch.load(store / "last.pt"), weights(tmp_path / "run"))
    assert weights(tmp_path / "run")["progress"]["steps"] == 10
    same(whole, train("run", "--resume", "auto", *use))


def test_the_rest_of_an_epoch_is_one_image(train: Train) -> None:
    """64 of 96 images are left, in batches of 63: batch norm takes its running statistics for the last."""
    options = ["--arch", "timm/test_resnet"]
    train("run", *options, "--max-steps", "2")
    run = train("run", *options, "--batch-size", "63", "--resume", "auto")
    assert [row["samples"] for row in events(run, "trained")] == [TRAIN, TRAIN]
    assert all(tensor.isfinite().all() for tensor in weights(run)["model"].values())


def test_a_resumed_run_does_not_need_the_weights_it_began_with(train: Train, tmp_path: Path) -> None:
    train("first", "--epochs", "1")
    begun = tmp_path / "first" / "checkpoints" / "best.pt"
    whole = train("whole", "--weights", str(begun))
    train("run", "--weights", str(begun), "--max-steps", "7")
    begun.unlink()
    same(whole, train("run", "--weights", str(begun), "--resume", "auto"))


def test_lines_between_two_steps_come_once(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--batch-size", "10", "--accumulate", "4", "--log-every", "1", "--checkpoint-every", "1", "--epochs", "1"]
    real = training.Log.batch

    def ends(self: Any, at: Any, due: bool) -> bool:
        said = real(self, at, due)
        if at.batches == 7:
            raise KeyboardInterrupt
        return said

    with monkeypatch.context() as patch:
        patch.setattr(training.Log, "batch", ends)
        with pytest.raises(SystemExit):
            train("run", *options)
    rows = events(train("run", *options, "--resume", "auto"), "step")
    assert [row["batch"] for row in rows] == list(range(1, 11)) and sum(row["samples"] for row in rows) == TRAIN


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_stop_does_not_wait_for_a_slow_store(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checkpoint stays on this machine, and the next start sends it."""
    step, before, answer = training.Step.batch, signal.getsignal(signal.SIGTERM), threading.Event()

    def signalled(self: Any, *arguments: Any) -> None:
        step(self, *arguments)
        signal.raise_signal(signal.SIGTERM)

    threads: list[threading.Thread] = []

    def hangs(*_: Any) -> None:
        threads.append(threading.current_thread())
        answer.wait()
        raise SystemExit  # of its thread, which a process would not have outlived

    use = ["--checkpoints", str(tmp_path / "store")]
    try:
        with monkeypatch.context() as patch:
            patch.setattr(store, "STOPPING", 0.1)
            patch.setattr(store.Store, "_upload", hangs)
            patch.setattr(training.Step, "batch", signalled)
            with pytest.raises(SystemExit) as e:
                train("run", *use, "--stopped-status", "75")
    finally:
        signal.signal(signal.SIGTERM, before)
    said = capsys.readouterr().out
    assert e.value.code == 75 and f"store is slow; the newest checkpoints stay in {tmp_path}/run/unsent: --resume auto" in said
    train("run", *use, "--resume", "auto", "--max-steps", "1")
    assert torch.load(tmp_path / "store" / "last.pt")["progress"]["steps"] == 1
    answer.set()
    for thread in threads:
        thread.join()


def test_a_second_press_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(ranks.time, "monotonic", lambda: now[0])
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with ranks.Stop(ranks.Rank(torch.device("cpu"))) as stop:
            assert not stop.agreed()
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)  # the same press, by the launcher
            assert stop.agreed(7)
            now[0] += 2
            signal.raise_signal(signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN, "a late signal does not end what saves"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    with ranks.Stop(ranks.Rank(torch.device("cpu"))):
        pass
    assert signal.getsignal(signal.SIGTERM) == before[signal.SIGTERM]


def test_a_signal_saves_the_next_step(
    train: Train, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step, before = training.Step.batch, signal.getsignal(signal.SIGTERM)

    def signalled(self: Any, *arguments: Any) -> None:
        step(self, *arguments)
        if arguments[-1] == 7:
            signal.raise_signal(signal.SIGTERM)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(training.Step, "batch", signalled)
            with pytest.raises(SystemExit) as e:
                train("run", "--stopped-status", "75")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert e.value.code == 75
    assert "stopped in epoch 1 after 2 batches; continue with --resume auto" in capsys.readouterr().out
    same(whole, train("run", "--resume", "auto"))
