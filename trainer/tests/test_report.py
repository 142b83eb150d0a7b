"""The log book: one book over all interruptions, its report and plots, and two runs side by side."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import PLAIN, TINY, Train, command, events
from logs import made_up

from imgfeed_train.command import main
from imgfeed_train.errors import TrainError
from imgfeed_train.report import book, plots
from imgfeed_train.report import page as report


def test_report_of_a_run(train: Train) -> None:
    run = train("run")
    text = (run / "report.md").read_text()
    for part in ("Finished: 2 epochs, 12 steps.", "## Epochs", "## Where the time of each rank went", "## Machines"):
        assert part in text
    for part in ("arch = timm/test_vit", "| best acc1 % |", "27 validation images, each taken once", "Run in one go."):
        assert part in text
    last = events(run, "epoch")[-1]
    assert f"| {last['loss']:.4f} | {last['acc1']:.2f} | {last['acc5']:.2f} |" in text
    drawn = (run / "report.png").exists()
    assert drawn or "matplotlib is not installed" in text
    assert ("![plots](report.png)" in text) == drawn
    assert not drawn or (run / "report.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2])
def test_interrupted_by_ctrl_c_and_resumed(sets: Path, tmp_path: Path, ranks: int) -> None:
    run = tmp_path / "run"
    arguments = ["--data", str(sets), "--output", str(run), *TINY, *PLAIN, "--batch-size", str(16 // ranks), "-g", str(ranks)]
    whole = command(*arguments, "--epochs", "300", "--schedule", "constant")
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while not process.stdout.readline().startswith("Epoch: [1][2"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        rest, errors = process.stdout.read(), process.stderr.read()
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert "stopping after this step, with a checkpoint" in errors
    assert "go on with --resume auto" in rest
    stopped = events(run, "step")[-1]
    assert stopped["epoch"] < 299
    text = (run / "report.md").read_text()
    assert f"Stopped in epoch {stopped['epoch']} of 0 to 299, after {stopped['batch']} of 6 batches" in text
    assert events(run, "end")[-1]["state"] == "stopped"
    # Behind its last batch an epoch is evaluated before the run ends, which then goes on with the next.
    place = (stopped["epoch"] + 1, 0) if stopped["batch"] == 6 else (stopped["epoch"], stopped["batch"])
    alone = [*arguments, "--batch-size", "16", "-g", "1", "--epochs", "300", "--schedule", "constant"]
    main([*alone, "--resume", "auto", "--max-steps", str(stopped["step"] + 9)])
    bound = book.read(run)
    assert f"- resumed at epoch {place[0]}, batch {place[1]}, " in (run / "report.md").read_text()
    places = [(e["epoch"], e["batch"]) for e in bound.steps]
    assert places == sorted(set(places))
    last = bound.steps[-1]
    assert last["step"] >= stopped["step"] + 9
    assert [e["epoch"] for e in bound.epochs] == list(range(last["epoch"] + (last["batch"] == 6)))


def test_resumed_book_has_no_step_twice_and_no_pauses(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", hosts=["a"], rate=256.0)
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    # Killed in line 15; resumed a day later from the checkpoint at the end of epoch 0, with other places for its lines.
    start = {**rows[0], "at": rows[-1]["at"] + 86400}
    later = [{**r, "at": r["at"] + 86400 + 1000} for r in rows if r["event"] in ("step", "epoch") and r["epoch"] == 1]
    again = [{**r, "batch": r["batch"] - 50} if r["event"] == "step" else r for r in later]
    resume = {"event": "resume", "at": start["at"] + 20, "epoch": 1, "batch": 0, "step": 1000, "checkpoint": "last.pt"}
    lines = [json.dumps(r) for r in [*rows[:18], start, rows[1], resume, *again]]
    (run / "log.jsonl").write_text("\n".join([*lines[:18], lines[17][:40], *lines[18:]]))
    bound = book.read(run)
    assert [e["batch"] for e in bound.steps if e["epoch"] == 1] == [100 * i + 50 for i in range(10)]
    assert [e["epoch"] for e in bound.epochs] == [0, 1]
    minutes = [e["minutes"] for e in bound.steps]
    assert minutes == sorted(minutes)
    assert minutes[-1] < 120
    assert "- resumed at epoch 1, batch 0, from last.pt" in report.write(run).read_text()


def test_new_run_in_an_old_folder_is_a_new_book(tmp_path: Path) -> None:
    old = made_up(tmp_path / "run", hosts=["a"], rate=500.0).joinpath("log.jsonl").read_text()
    made_up(tmp_path / "run", hosts=["b"], rate=256.0, epochs=1)
    with (tmp_path / "run" / "log.jsonl").open("r+") as f:
        new = f.read()
        f.seek(0)
        f.write(old + new)
    bound = book.read(tmp_path / "run")
    assert (len(bound.steps), len(bound.epochs), bound.starts[-1]["machine"]["host"]) == (10, 1, "b")
    assert bound.steps[0]["minutes"] == pytest.approx(100 / 60)


def test_two_runs_in_one_folder_are_refused(train: Train, tmp_path: Path) -> None:
    import fcntl  # noqa: PLC0415

    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / "log.jsonl").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="another run is writing there"):
            train("run")
    assert (tmp_path / "run" / "log.jsonl").read_text() == ""


def test_run_that_failed_tells_what_it_reached(train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise RuntimeError("the GPU has fallen off the bus")

    monkeypatch.setattr("imgfeed_train.train.evaluate", breaks)
    with pytest.raises(RuntimeError, match="fallen off"):
        train("run")
    text = (tmp_path / "run" / "report.md").read_text()
    assert "Failed in epoch 0 of 0 to 1, after 6 of 6 batches; 0 epochs are complete." in text
    assert "The error: RuntimeError: the GPU has fallen off the bus." in text


def test_report_names_the_straggler_and_the_feed(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", hosts=["a", "a", "b", "b"], rate=1000.0, gpu=True, late=2)
    text = report.write(run).read_text()
    assert "**Rank 2 held the others up** in 20 of 20 lines: it waits for data. The others spent up to 50%" in text
    assert "Rank 2 waited for data 50% of the time. Its feed is short of CPU" in text
    assert "| 2 | b | 50.0% | 45.0% | 2.0% | 98 % | 5" in text
    assert "20 of 20 lines (data 20)" in text
    assert "| nodes | 2 |" in text
    assert "| GPU memory GB, peak | 8.389 |" in text


def test_two_nodes_of_one_machine(tmp_path: Path) -> None:
    folder = made_up(tmp_path / "run", hosts=["a"] * 4, nodes=[0, 0, 2, 2], rate=1000.0)
    assert "| nodes | 2 |" in report.write(folder).read_text()


def test_report_tells_the_network_from_a_straggler(tmp_path: Path) -> None:
    slow = report.write(made_up(tmp_path / "slow", hosts=["a", "b"], rate=1000.0, network=0.4)).read_text()
    assert (
        "No rank held the others up, and yet all of them wait in collectives, 40% of the time or more: that is the network"
        in slow
    )
    fast = report.write(made_up(tmp_path / "fast", hosts=["a", "b"], rate=1000.0)).read_text()
    assert "No rank held the others up; they waited for one another 2.0% of the time at most." in fast
    assert (
        "Data was there in time: no rank waited for it more than 0.5% of the time. Its feed: of its threads' time 93%" in fast
    )


def test_plots_show_a_gpu_only_where_there_is_one(tmp_path: Path) -> None:
    hosts = [f"host{i // 8}" for i in range(16)]
    many = book.read(made_up(tmp_path / "many", hosts=hosts, rate=1000.0, gpu=True))
    titles = {panel.title: panel for panel in plots.panels(many)}
    assert {"GPU utilisation (%)", "GPU power (W)", "GPU memory in use (GB)"} <= set(titles)
    waits = titles["waiting for data (% of time)"].curves
    assert [curve.label for curve in waits] == ["highest rank", "median rank"]
    assert waits[0].y[0] == pytest.approx(1.9)
    assert titles["GPU memory in use (GB)"].curves[0].y[0] == pytest.approx(9.437, abs=1e-3)
    one = plots.panels(book.read(made_up(tmp_path / "one", hosts=["a"], rate=1000.0)))
    assert not any("GPU" in panel.title for panel in one)
    assert not any("other ranks" in panel.title for panel in one)


def test_compare_one_node_with_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = made_up(tmp_path / "one", hosts=["a"], rate=471.0, gpu=True)
    two = made_up(tmp_path / "two", hosts=["a", "b"], rate=876.0, gpu=True)
    report.main(["compare", str(one), str(two), "--output", str(tmp_path / "both")])
    said = capsys.readouterr().out
    assert "Speed-up: **1.86** in images/s with 2 times the ranks, 1 -> 2 nodes: efficiency **93 %**." in said
    assert "The settings differ" not in said
    written = (tmp_path / "both" / "compare.md").read_text()
    assert "| images/s of training | 47" in written
    assert (tmp_path / "both" / "compare.png").exists() or "matplotlib is not installed" in written


def test_compare_names_what_is_missing_and_what_differs(tmp_path: Path) -> None:
    one = made_up(tmp_path / "one", hosts=["a"], rate=471.0, epochs=1)
    two = made_up(tmp_path / "two", hosts=["a"], rate=471.0, epochs=1, arch="resnet18")
    log = two / "log.jsonl"
    log.write_text("\n".join(line for line in log.read_text().splitlines()[:5]))
    said = "\n".join(report.compare.text(book.read(one), book.read(two)))
    assert "two has finished no epoch (it came to batch 300 of 1000), so accuracies and epoch times are missing" in said
    assert "| best acc1 % | 30 | missing |" in said
    assert "The settings differ too, and the ratios hold their effect: arch: resnet50 / resnet18." in said
    with pytest.raises(TrainError, match=r"none is no folder of a run \(an --output of imgfeed-train\): it is not there"):
        report.compare.write(one, tmp_path / "none")
    with pytest.raises(TrainError, match=r"it has no log\.jsonl"):
        report.compare.write(one, tmp_path)
    log.write_text(log.read_text().splitlines()[0] + "\n")
    with pytest.raises(book.NothingLoggedError, match="wrote no line of training"):
        report.compare.write(one, two)
    log.write_text("")
    with pytest.raises(TrainError, match="names no start of a run"):
        report.compare.write(one, two)


def test_one_outlier_does_not_flatten_the_plot(tmp_path: Path) -> None:
    from matplotlib import pyplot as plt  # noqa: PLC0415 - optional

    _, axis = plt.subplots()
    plots._panel(axis, plots.Panel("loss", [plots.Curve("", [0, 1, 2, 3], [2.0, 1e9, 1.5, 1.0])], zero=False), 1.0, None)
    assert axis.get_ylim()[1] < 10
    assert [text.get_text() for text in axis.texts] == ["up to 1e+09"]
