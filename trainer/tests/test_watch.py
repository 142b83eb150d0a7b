"""What a run tells while it runs: the line, the bar, TensorBoard, Weights & Biases, the GPU, and who holds whom up."""

from __future__ import annotations

import json
import math
import os
import pty
import re
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import PLAIN, TINY, Train, command, events, free_port

from imgfeed_train.settings import parse
from imgfeed_train.watch.gauges import HARDWARE, FeedGauge, GpuGauge, hardware
from imgfeed_train.watch.lines import Meters
from imgfeed_train.watch.pace import Pace
from imgfeed_train.watch.straggler import Share, straggler

#: As torch's ImageNet example prints it.
CLASSIC = re.compile(
    r"Epoch: \[1\]\[[ \d]+/6\]\tTime +\d+\.\d{3} \( *\d+\.\d{3}\)\tData +\d+\.\d{3} \( *\d+\.\d{3}\)"
    r"\tLoss \d\.\d{4}e[+-]\d\d \(\d\.\d{4}e[+-]\d\d\)\tAcc@1 +\d+\.\d\d \( *\d+\.\d\d\)\tAcc@5 +\d+\.\d\d \( *\d+\.\d\d\)"
)


def test_classic_line() -> None:
    meters = Meters()
    meters.loss.add(6.9, 10)
    assert meters.line(1, 100, 2503).startswith("Epoch: [1][ 100/2503]\tTime ")
    assert "Loss 6.9000e+00 (6.9000e+00)" in meters.line(1, 100, 2503)
    meters.acc1.add(10, 100)
    meters.acc1.add(40, 50)
    assert "Acc@1  40.00 ( 20.00)" in meters.line(1, 100, 2503)


def test_straggler_for_its_data() -> None:
    assert straggler([Share(0.5, 0.5, 0)]) is None
    assert straggler([Share(0.01, 0.9, 0.05), Share(0.02, 0.9, 0.05), Share(0.015, 0.9, 0.05)]) is None
    assert straggler([Share(0.9, 0.1, 0), Share(0.9, 0.1, 0)]) is None
    rest = Share(0.02, 0.5, 0.4)
    found = straggler([rest, Share(0.41, 0.5, 0.01), rest, rest])
    assert found is not None
    assert (found.rank, found.why) == (1, "data")
    words = found.words(["client", "disk", "client", "client"])
    assert words == (
        "rank 1 holds the others up: it waits for data 41% of the time (the others 2%), and they wait for it up to 40%; "
        "its feed waits for the disk"
    )


def test_straggler_for_its_computing() -> None:
    found = straggler([Share(0.03, 0.9, 0.02), Share(0.05, 0.4, 0.5), Share(0.05, 0.46, 0.45)])
    assert found is not None
    assert (found.rank, found.why) == (0, "compute")
    assert "computes 90% of the time (the others 43%)" in found.words(["cpu"] * 3)
    assert "feed" not in found.words(["cpu"] * 3)


def test_straggler_where_waiting_looks_like_computing() -> None:
    shares = [Share(0.0, 1.0, 0), Share(0.5, 0.5, 0)]  # shared batch statistics: rank 0 waits for rank 1 in its forward
    found = straggler(shares, separable=False)
    assert found is not None
    assert (found.rank, found.why) == (1, "data")
    assert straggler([Share(0.0, 1.0, 0), Share(0.0, 0.5, 0)], separable=False) is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("slow", "rank", "strategy"),
    [("data", 1, "ddp"), ("compute", 0, "ddp"), ("data", 0, "fsdp"), ("compute", 1, "fsdp"), ("forward", 1, "fsdp")],
)
def test_slow_rank_is_named_and_why(sets: Path, tmp_path: Path, slow: str, rank: int, strategy: str) -> None:
    run = tmp_path / "run"
    arguments = ["--data", str(sets), "--output", str(run), *TINY, *PLAIN, "--batch-size", "8", "--epochs", "1", "-g", "2"]
    arguments += ["--strategy", strategy]
    port = str(free_port())
    ranks = []
    for number in ("0", "1"):
        env = {**os.environ, "RANK": number, "WORLD_SIZE": "2", "LOCAL_RANK": number, "LOCAL_WORLD_SIZE": "2"}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "SLOW": slow, "SLOW_RANK": str(rank), "SLOW_SECONDS": "0.4"}
        program = [sys.executable, str(Path(__file__).with_name("slow_rank.py")), *arguments]
        ranks.append(subprocess.Popen(program, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    said = [process.communicate(timeout=300)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], said
    steps = events(run, "step")
    why = "data" if slow == "data" else "compute"
    assert {(e["straggler"], e["why"]) for e in steps} == {(rank, why)}
    last, other = steps[-1], 1 - rank
    busy = last["wait" if slow == "data" else "compute"]
    assert busy[rank] > busy[other] + 0.2
    assert last["collective"][other] > last["collective"][rank] + 0.2
    held = "waits for data" if slow == "data" else "computes"
    assert f"rank {rank} holds the others up: it {held} " in said[0]
    report = (run / "report.md").read_text()
    assert f"**Rank {rank} held the others up** in {len(steps)} of {len(steps)} lines" in report


class FakeEvent:
    """An event of CUDA whose clock moves only when the test says so."""

    now = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: Any) -> None:
        self.at = FakeEvent.now

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: FakeEvent) -> float:
        return 1000 * (other.at - self.at)


def test_pace_on_a_gpu_counts_only_waits_in_which_it_stands_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("imgfeed_train.watch.pace.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    pace = Pace(torch.device("cuda", 0), 1)

    def late() -> Any:
        clock[0] += 0.6  # the process waits 0.6 s, of which the GPU is busy 0.5 with the batch before
        yield "batch"

    FakeEvent.now = 0.5
    assert pace.next(late()) == "batch"
    weight = torch.ones(1, requires_grad=True)
    weight.register_hook(lambda _: setattr(FakeEvent, "now", 1.1))
    pace.backward((3 * weight).sum())
    assert weight.grad == 3
    FakeEvent.now = 1.4
    pace.done()
    clock[0] = 1.0
    spent = pace.take()
    assert (spent.passed, spent.waited, spent.batches) == (1.0, 0.6, 1)
    assert spent.compute == pytest.approx(0.9)
    assert spent.data == pytest.approx(0.1)
    assert spent.collective == 0


def test_tensorboard_names(train: Train) -> None:
    pytest.importorskip("tensorboard")
    run = train("run", "--tensorboard", "--epochs", "1")
    board = scalars(run)
    names = {"Loss/train", "Accuracy/train", "Accuracy5/train", "Loss/Val", "Accuracy/Val", "Accuracy5/Val", "lr"}
    names |= {"images_per_second", "wait/rank0", "compute/rank0", "collective/rank0", "host_memory_peak_mb/rank0"}
    names |= {"feed/disk", "feed/decode", "feed/client", "feed/waits_for_disk", "feed/waits_for_cpu", "feed/waits_for_client"}
    assert set(board) == names
    steps, epoch = events(run, "step"), events(run, "epoch")[0]
    assert board["Loss/train"] == [(e["step"], pytest.approx(e["loss"])) for e in steps]
    assert board["wait/rank0"] == [(e["step"], pytest.approx(e["wait"][0], abs=1e-6)) for e in steps]
    assert board["Accuracy/Val"] == [(6, pytest.approx(epoch["acc1"]))]
    assert board["Loss/Val"] == [(6, pytest.approx(epoch["loss"]))]
    assert board["Accuracy5/Val"] == [(6, pytest.approx(epoch["acc5"]))]


def test_tensorboard_of_a_run_begun_again_has_every_step_once(train: Train) -> None:
    pytest.importorskip("tensorboard")
    run = train("run", "--tensorboard", "--checkpoint-every", "3", "--max-steps", "5", "--log-every", "1")
    (run / "checkpoints" / "last.pt").unlink()
    train("run", "--tensorboard", "--epochs", "1", "--log-every", "1")
    assert [step for step, _ in scalars(run)["Loss/train"]] == [1, 2, 3, 4, 5, 6]


def scalars(run: Path) -> dict[str, list[tuple[int, float]]]:
    """Return what TensorBoard shows of a run: for each name its steps and values."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415

    board = EventAccumulator(str(run / "tensorboard"))
    board.Reload()
    return {name: [(e.step, e.value) for e in board.Scalars(name)] for name in board.Tags()["scalars"]}


class Nvml:
    """A stand-in for the module pynvml with one GPU, at whose utilisation and power a test looks."""

    class NVMLError_DriverNotLoaded(Exception):  # noqa: N801 - NVML's name
        pass

    class Rates:
        gpu = 100

    nvmlInit = staticmethod(lambda: None)  # noqa: N815
    nvmlDeviceGetHandleByIndex = staticmethod(lambda index: index)  # noqa: N815
    nvmlDeviceGetUtilizationRates = staticmethod(lambda handle: Nvml.Rates)  # noqa: N815
    nvmlDeviceGetPowerUsage = staticmethod(lambda handle: 75_500)  # noqa: N815 - mW


def test_gpu_by_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml)
    monkeypatch.setattr(torch.cuda, "pynvml", Nvml, raising=False)
    monkeypatch.setattr(torch.cuda, "_HAS_PYNVML", True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2 * 2**30, 16 * 2**30))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 5 * 2**30)
    device = torch.device("cuda", 0)
    gauge = GpuGauge(device, seconds=0.01)
    assert gauge.why is None
    values = dict(zip(HARDWARE, hardware(gauge, device), strict=True))
    gauge.close()
    assert (values["gpu_utilisation_percent"], values["gpu_power_w"]) == (100, 75.5)
    assert (values["gpu_memory_mb"], values["gpu_memory_peak_mb"]) == (14 * 1024, 5 * 1024)


def test_gpu_without_nvml_has_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "_HAS_PYNVML", False)
    monkeypatch.setattr(torch.cuda, "_PYNVML_ERR", None, raising=False)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 0)
    gauge = GpuGauge(torch.device("cuda", 0))
    assert gauge.why is not None
    assert "pip install nvidia-ml-py" in gauge.why
    assert gauge.take() == {}
    assert math.isnan(hardware(gauge, torch.device("cuda", 0))[HARDWARE.index("gpu_power_w")])
    assert GpuGauge(torch.device("cpu")).take() == {}


def test_feed_gauge_takes_what_happened_between_two_looks() -> None:
    class Loader:
        def __init__(self) -> None:
            self.seconds = {"read": 100.0, "decode": 10.0, "resample": 5.0, "slot_wait": 0.0}

        def stats(self) -> dict[str, Any]:
            return {"waiting_for": "cpu", "threads": 4, "seconds": dict(self.seconds)}

    loader = Loader()
    gauge = FeedGauge(loader)
    gauge._at -= 10
    loader.seconds.update(read=102.0, decode=34.0, resample=9.0, slot_wait=2.0)
    share = gauge.take()
    assert share.waiting == "cpu"
    assert (share.disk, share.decode, share.client) == pytest.approx((0.05, 0.7, 0.2), rel=0.01)


def test_no_bar_without_a_terminal(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    train("run")
    out, err = capsys.readouterr()
    assert "batch/s" not in out + err
    assert "\r" not in out + err
    assert [bool(CLASSIC.fullmatch(line)) for line in out.splitlines() if line.startswith("Epoch: [1]")] == [True] * 3


@pytest.mark.long
def test_bar_on_a_terminal(sets: Path, tmp_path: Path) -> None:
    pytest.importorskip("tqdm")
    shown = on_a_terminal(command("--data", str(sets), "--output", str(tmp_path / "run"), *TINY, *PLAIN))
    assert re.search(r"epoch 1: +\d+%.*\| \d/6 \[", shown)
    assert len(re.findall(r"\rEpoch: \[1\]\[[246]/6\]\tTime", shown)) == 3  # each line where the bar was


def on_a_terminal(arguments: list[str]) -> str:
    """Return what a program writes to a terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    parts: list[bytes] = []

    def read() -> None:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                return
            parts.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        subprocess.run(arguments, stdout=theirs, stderr=theirs, check=True, timeout=300)
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return b"".join(parts).decode()


@pytest.mark.long
def test_weights_and_biases_offline(sets: Path, tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    run = tmp_path / "run"
    arguments = ["--data", str(sets), "--output", str(run), *TINY, *PLAIN, "--wandb"]
    env = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    for more in (["--max-steps", "8"], ["--resume", "auto"]):
        done = subprocess.run(command(*arguments, *more), capture_output=True, text=True, check=False, timeout=300, env=env)
        assert done.returncode == 0, done.stderr
    folders = sorted((run / "wandb").glob("offline-run-*"))
    assert len(folders) == 2
    name = (run / "wandb-id").read_text().strip()
    assert all(folder.name.endswith(name) for folder in folders)
    rows = [row for folder in folders for row in history(next(folder.glob("*.wandb")))]
    assert sorted({row["step"] for row in rows if "Loss/train" in row}) == [2, 4, 6, 8, 10, 12]
    assert len([row for row in rows if "Accuracy/Val" in row]) == 2


def history(path: Path) -> list[dict[str, Any]]:
    """Return the values in a file of Weights & Biases: LevelDB's log format behind a header of 7 bytes, holding protobufs."""
    from wandb.proto import wandb_internal_pb2  # noqa: PLC0415

    data, at, record, rows = path.read_bytes(), 7, b"", []
    assert data.startswith(b":W&B")
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # no header of a part fits the rest of this block
            at += 32768 - at % 32768
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        record, at = record + data[at + 7 : at + 7 + size], at + 7 + size
        if kind not in (1, 4):  # a whole record, or the last part of one
            continue
        read = wandb_internal_pb2.Record()
        read.ParseFromString(record)
        record = b""
        if read.WhichOneof("record_type") == "history":
            items = read.history.item
            rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
    return rows


def test_weights_and_biases_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        parse(["--data", "d", "--output", "o", "--wandb"])
    assert "pip install wandb" in capsys.readouterr().err
