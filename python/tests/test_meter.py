"""What a loop has waited for data: stats(), the line of verbose=True, and what callbacks log."""

import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SMALL

from imgfeed import DataLoader
from imgfeed.callbacks import RATE, WAIT, DataWait, lightning_callback

Load = Callable[..., DataLoader]


def test_stats_have_the_callers_account_of_an_epoch(load: Load) -> None:
    loader = load(8)
    assert loader.stats()["epoch"]["images"] == 0
    begin = time.perf_counter()
    for _ in loader:
        time.sleep(0.01)
    took = time.perf_counter() - begin
    epoch = loader.stats()["epoch"]
    assert (epoch["images"], epoch["batches"]) == (SAMPLES, len(loader))
    assert 0.01 * (len(loader) - 1) < epoch["seconds"] < took and 0 < epoch["waited"] < epoch["seconds"]
    assert epoch["wait_fraction"] == epoch["waited"] / epoch["seconds"]
    assert epoch["images_per_second"] == SAMPLES / epoch["seconds"]
    next(iter(loader))
    assert loader.stats()["epoch"]["batches"] == 1 and loader.meter.total.images == SAMPLES + 8


@pytest.mark.long
@pytest.mark.parametrize(("waits_for", "side", "pause"), [("client", 32, 0.2), ("cpu", 900, 0.0)])
def test_the_verdict_holds_through_short_epochs(shards: Path, waits_for: str, side: int, pause: float) -> None:
    """An epoch begins with work for the server and ends with batches that wait, whatever is the limit."""
    transform = [{"op": "RandomResizedCrop", "size": side}, {"op": "ColorJitter", "hue": 0.2, "saturation": 0.2}]
    options: dict[str, Any] = {"subset": range(24), "num_workers": 1, "framework": "numpy", "shuffle": True}
    begin, found = time.monotonic(), []
    with DataLoader(shards, 8, transform=transform, **options) as loader:
        while time.monotonic() < begin + 9:
            for _ in loader:
                time.sleep(pause)
                found.append((time.monotonic() - begin, loader.stats()["waiting_for"]))
    assert {waited for at, waited in found if at > 3} == {waits_for}


def test_a_line_after_each_epoch(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    quiet, loader = load(8), load(8, verbose=True)
    for _ in range(2):
        list(quiet)
        for _ in zip(range(len(loader)), loader, strict=False):  # never asks for one more than the last
            pass
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1] for line in lines] == [" epoch 0", " epoch 1"]
    assert f"{SAMPLES} images in " in lines[0] and "waited for data for" in lines[0] and "the server, half-way: " in lines[0]


def test_the_line_stands_above_tqdms_bar(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    tqdm = pytest.importorskip("tqdm")
    loader = load(8, verbose=True)
    with tqdm.tqdm(loader) as bar:
        assert bar.total == len(loader)
        for _ in bar:
            pass
    assert "imgfeed: epoch 0: 105 images" in capsys.readouterr().err


def test_steps_are_logged(load: Load) -> None:
    logged: list[tuple[dict[str, float], int]] = []
    loader = load(8)
    wait = DataWait(loader, lambda values, step: logged.append((values, step)), every=5)
    for _ in loader:
        wait.step()
    assert [step for _, step in logged] == [5, 10]
    assert all(0 <= values[WAIT] <= 1 and values[RATE] > 0 for values, _ in logged)

    class Run:
        def log(self, values: dict[str, float], step: int) -> None:
            logged.append((values, step))

    DataWait(loader, Run(), every=1).step(77)
    assert logged[-1][1] == 77
    with pytest.raises(TypeError, match="to is 3, want a SummaryWriter, a run of wandb, or a function"):
        DataWait(loader, 3)
    with pytest.raises(ValueError, match="every is 0, want a whole number, 1 or more"):
        DataWait(loader, print, 0)


def test_tensorboard_has_the_scalars(load: Load, tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    loader = load(8)
    with tensorboard.SummaryWriter(str(tmp_path)) as writer:
        wait = DataWait(loader, writer, every=7)
        for _ in loader:
            wait.step()
    found = events.EventAccumulator(str(tmp_path)).Reload()
    for name in (WAIT, RATE):
        assert [scalar.step for scalar in found.Scalars(name)] == [7, 14]


@pytest.mark.long
def test_lightnings_loggers_have_them(load: Load, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    torch = pytest.importorskip("torch")
    from lightning.pytorch.loggers import CSVLogger

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3 * 32 * 32, 5)

        def training_step(self, batch: Any, number: int) -> Any:
            return torch.nn.functional.cross_entropy(self.layer(batch[0].float().flatten(1)), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    logger = CSVLogger(tmp_path)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=logger, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, callbacks=[lightning_callback(every=5)],
    )  # fmt: skip
    trainer.fit(Model(), load(8, framework="torch", transform=SMALL))
    with Path(logger.log_dir, "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["5", "10"] and all(0 <= float(row[WAIT]) <= 1 for row in rows)
