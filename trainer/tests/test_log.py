"""What a run says: lines, the server's sentence, TensorBoard, Weights & Biases, the log book."""

import http.server
import json
import math
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import PLAIN, TINY, Train, events, same, weights
from torch.optim.lr_scheduler import OneCycleLR

from imgfeed_train import files, log
from imgfeed_train.command import main
from imgfeed_train.evaluate import Score, summed
from imgfeed_train.flags import parse
from imgfeed_train.optim import Schedule, optimizer


@pytest.fixture
def slow_store(sets: Path) -> Iterator[str]:
    """The URL of a web server of the sets, which answers one request for images at a time, and late."""
    one = threading.Lock()

    class Handler(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = sets / self.path.lstrip("/")
            if not path.is_file():
                self.send_error(404)
                return
            if path.suffix == ".imgshard":
                with one:
                    time.sleep(0.03)
            content, span = path.read_bytes(), re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            first, last = (int(span[1]), int(span[2] or len(content) - 1)) if span else (0, len(content) - 1)
            self.send_response(206 if span else 200)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
            self.send_header("ETag", '"x"')
            body = content[first : last + 1]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.mark.long
def test_a_slow_store_is_named_in_the_servers_words(
    slow_store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["--data", f"{slow_store}/train", *TINY, *PLAIN, "--batch-size", "4", "--log-every", "1"]
    main([*base, "--epochs", "1", "--output", str(tmp_path / "run")])
    said = [row["feed"] for row in events(tmp_path / "run", "step") if row["wait"][0] > log.WAITING]
    assert said and all(sentence in capsys.readouterr().out for sentence in said[:1])


def test_whatever_the_server_says_is_printed(
    train: Train, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word that no list has, and an answer without a sentence."""
    from imgfeed import DataLoader  # noqa: PLC0415

    monkeypatch.setattr(DataLoader, "stats", lambda _: {"waiting_for": "tape", "verdict": "the tape robot is out | lunch"})
    monkeypatch.setattr(log, "WAITING", -1.0)
    train("run", "--max-steps", "2")
    assert re.search(
        r"\twaited for data \d+% of the time: the tape robot is out \| lunch$", capsys.readouterr().out, re.MULTILINE
    )
    monkeypatch.setattr(DataLoader, "stats", lambda _: {})
    assert events(train("bare", "--max-steps", "2"), "step")[0]["feed"] == ""


def test_the_log_book(train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train("run")
    text = (run / "report.md").read_text()
    best = max(events(run, "epoch"), key=lambda row: row["acc1"])
    seconds = sum(row["seconds"] for row in events(run, "step"))
    for line in (
        "| state | finished |",
        "| batch | 16 a rank, 16 a step |",
        "| epochs | 2 of 2, 12 steps |",
        f"| images/s | {192 / seconds:,.0f} |",
        f"| best Acc@1 | {best['acc1']:.3f} (epoch {best['epoch']}) |",
        "| GPU memory | not measured |",
        "[checkpoints/best.pt](checkpoints/best.pt)",
        "[tensorboard](tensorboard)",
        "| batch_size | `[16]` |",
    ):
        assert line in text
    assert re.search(r"\| training time \| 0:\d\d:\d\d \(and 0:\d\d:\d\d of evaluation\) \|", text)
    train("other", "--batch-size", "32")
    capsys.readouterr()
    main(["report", str(run), str(tmp_path / "other")])
    assert "| batch | 16 a rank, 16 a step | 32 a rank, 32 a step |" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"none is not the folder of a run .*: No such file"):
        main(["report", str(tmp_path / "none")])


def test_gpu_memory_and_utilisation_are_in_the_book(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"gpu_utilisation_percent": 91.0, "gpu_memory_peak_mb": 20480.0}
    monkeypatch.setattr(log, "hardware", lambda _: values)
    text = (train("run", "--epochs", "1") / "report.md").read_text()
    assert "| GPU utilisation | 91 % |" in text and "| GPU memory | 20.0 GiB at most |" in text


def test_a_gpu_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "utilization", lambda _: 50)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 2**30)
    found = log.hardware(torch.device("cuda"))
    assert (found["gpu_utilisation_percent"], found["gpu_memory_peak_mb"]) == (50.0, 1024.0)
    monkeypatch.setattr(torch.cuda, "utilization", lambda _: 1 / 0)
    assert "gpu_utilisation_percent" not in log.hardware(torch.device("cuda"))


def test_scalars(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard and Weights & Biases get accuracy, loss and rate, of training and validation."""
    events_ = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    wandb = pytest.importorskip("wandb")
    sent: list[dict[str, Any]] = []

    class Run:
        def define_metric(self, *_: Any, **__: Any) -> None: ...
        def log(self, values: dict[str, Any]) -> None:
            sent.append(values)

        def finish(self, exit_code: int) -> None:
            sent.append({"exit": exit_code})

    monkeypatch.setattr(wandb, "init", lambda **_: Run())
    run = train("run", "--wandb")
    board = events_.EventAccumulator(str(run / "tensorboard"))
    board.Reload()
    names = {
        "Loss/train",
        "Accuracy/train",
        "Accuracy5/train",
        "lr",
        "Loss/Val",
        "Accuracy/Val",
        "Accuracy5/Val",
        "images_per_second",
    }
    assert names <= {*board.Tags()["scalars"]} and names <= {name for values in sent for name in values}
    assert [e.value for e in board.Scalars("Accuracy/Val")] == pytest.approx([row["acc1"] for row in events(run, "epoch")])
    assert sent[-1] == {"exit": 0}


def test_a_resumed_run_continues_its_log(train: Train) -> None:
    train("run", "--max-steps", "7", "--log-every", "1")
    run = train("run", "--resume", "auto", "--log-every", "1")
    assert [row["step"] for row in events(run, "step")] == list(range(1, 13))
    assert [row["epoch"] for row in events(run, "epoch")] == [0, 1]
    assert "| epochs | 2 of 2, 12 steps |" in (run / "report.md").read_text()


def test_lines_that_a_killed_run_repeats_are_taken_out(train: Train) -> None:
    """It was at step 7, its last checkpoint is of step 4: steps 5 to 7 are done again."""
    run = train("run", "--max-steps", "4", "--log-every", "1")
    with (run / "log.jsonl").open("a") as f:
        for step in (5, 6, 7):
            f.write(json.dumps({"event": "step", "step": step, "epoch": 0}) + "\n")
        f.write('{"event": "ste')
    run = train("run", "--resume", "auto", "--log-every", "1")
    assert [row["step"] for row in events(run, "step")] == list(range(1, 13))


def test_a_full_disk_takes_no_lines(train: Train, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The training goes on without them."""
    begin = log.Log.begin_epoch

    def full(self: log.Log, *arguments: Any) -> None:
        self._file = Path("/dev/full").open("a", buffering=1)  # noqa: SIM115 - the log closes it
        begin(self, *arguments)

    monkeypatch.setattr(log.Log, "begin_epoch", full)
    assert weights(train("run", "--epochs", "1"))["progress"]["scored"] == 1
    assert "can't be written: No space left on device" in capsys.readouterr().out


def test_files_of_a_run_are_replaced_whole(train: Train, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends as it writes a new log, recipe or report leaves the old ones."""
    run = train("run", "--max-steps", "4")
    before = {name: (run / name).read_text() for name in ("log.jsonl", "run.yaml", "report.md")}

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    for module, function in ((files.os, "fsync"), (log.json, "dumps")):  # after a file is written, and in the middle
        with monkeypatch.context() as patch:
            patch.setattr(module, function, killed)
            with pytest.raises(SystemExit):
                train("run", "--resume", "auto")
        for name, text in before.items():
            assert (run / name).read_text().startswith(text), name
    same(whole, train("run", "--resume", "auto"))


def test_a_loss_that_is_no_number_ends_the_run(train: Train, tmp_path: Path) -> None:
    with pytest.raises(
        SystemExit, match=r"the loss was not finite for \d+ steps in a row up to step \d+, batch \d of epoch \d"
    ):
        train("run", "--lr", "1e8", "--schedule", "constant")
    run = tmp_path / "run"
    assert not (run / "checkpoints").exists() or not (run / "checkpoints" / "best.pt").exists()
    assert "The run ended with: the loss was not finite" in (run / "report.md").read_text()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [row["loss"] for row in rows if row["event"] == "step"][-1] is None


def test_bad_steps_may_be_skipped_or_ignored(
    train: Train, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ignored = train("ignored", "--lr", "1e8", "--schedule", "constant", "--nan", "ignore")
    assert not (ignored / "checkpoints" / "best.pt").exists(), "it is never the best"
    assert weights(ignored)["progress"]["best"] == -1
    real = log.Step.batch

    def poisoned(self: Any, images: torch.Tensor, *arguments: Any) -> None:
        real(self, images * math.nan if arguments[-1] == 2 else images, *arguments)

    monkeypatch.setattr(log.Step, "batch", poisoned)
    run = train("run", "--nan", "skip", "--arch", "timm/test_resnet")
    assert capsys.readouterr().out.count("skipped: its loss was not finite") == 1
    assert all(tensor.isfinite().all() for tensor in weights(run)["model"].values()), "nor batch norm's statistics"
    assert Score(math.nan, 90.0, 99.0, 10).rank < Score(5.0, 0.0, 0.0, 10).rank


def test_one_cycle_is_torchs() -> None:
    s = parse(["--data", "d", "--output", "o", "--epochs", "7", "--lr", "0.4", "--schedule", "onecycle"])
    one, two = (torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9) for _ in range(2))
    mine, theirs = Schedule(one, s, 10), OneCycleLR(two, max_lr=0.4, total_steps=70)
    for step in range(70):
        mine.at(step)
        assert [one.param_groups[0][name] == two.param_groups[0][name] for name in ("lr", "momentum")] == [True, True], step
        two.step()
        theirs.step() if step < 69 else None


def test_schedules_depend_on_the_step_alone() -> None:
    for schedule, last in (("cosine", 0.000617), ("linear", 0.01), ("constant", 0.4), ("onecycle", 0.4 / 25e4)):
        s = parse(
            ["--data", "d", "--output", "o", "--epochs", "4", "--lr", "0.4", "--schedule", schedule, "--warmup-epochs", "1"]
        )
        rates, backwards = [], []
        one, two = (Schedule(optimizer(torch.nn.Linear(2, 2), s), s, 10) for _ in range(2))
        for step in range(40):
            one.at(step)
            rates.append(one.rate)
            two.at(39 - step)
            backwards.insert(0, two.rate)
        assert rates == backwards
        assert rates[0] < rates[9] <= max(rates) <= 0.4 + 1e-9 and rates[-1] == pytest.approx(last, rel=0.25), schedule


def test_sums_of_a_batch() -> None:
    output = torch.tensor([[9.0, 1, 2, 3, 4, 5, 6], [9, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]])
    assert summed(torch.tensor(2.0), output, torch.tensor([0, 3, 6])).tolist() == [2, 2, 3, 3]
