"""Logs the share of time that training waits for data: to TensorBoard, Weights & Biases or Lightning.

from imgfeed.callbacks import DataWait
wait = DataWait(loader, SummaryWriter("runs/1"), every=50)  # or wandb.init()'s run, or a function
for images, labels in loader:
    ...
    wait.step()
"""

import importlib
from collections.abc import Callable
from typing import Any

from ._arguments.kinds import at_least
from ._arguments.numbers import kind_of
from .loader import DataLoader

#: The logged values: the share of time that the loop waited for a batch, 0 to 1, and its images a second.
WAIT, RATE = "imgfeed/data_wait", "imgfeed/images_per_second"

EVERY = at_least(1)


class DataWait:
    """Logs how long the steps since the last time waited for data, and their images a second."""

    def __init__(self, loader: DataLoader, to: Any, every: int = 50) -> None:
        """Log every so many steps to a SummaryWriter, a run of wandb, or a function of a dictionary and the step's number."""
        self._loader = loader
        self._log = _logger(to)
        self._every = EVERY.check("every", every)
        self._steps = 0
        self._last = loader.meter.total

    def step(self, number: int | None = None) -> None:
        """Say that a step is done, and its number for the log: as many as were done, if not given."""
        self._steps += 1
        if self._steps % self._every == 0:
            total = self._loader.meter.total
            since, self._last = total - self._last, total
            self._log({WAIT: since.wait_fraction, RATE: since.images_per_second}, self._steps if number is None else number)


def _logger(to: Any) -> Callable[[dict[str, float], int], Any]:
    """Return a function that logs values at a step."""
    if callable(getattr(to, "add_scalar", None)):  # of TensorBoard

        def log(values: dict[str, float], step: int) -> None:
            for name, value in values.items():
                to.add_scalar(name, value, step)

        return log
    if callable(getattr(to, "log", None)):  # of wandb
        return lambda values, step: to.log(values, step=step)
    if callable(to):
        logger: Callable[[dict[str, float], int], Any] = to
        return logger
    raise TypeError(f"imgfeed: to is {to!r:.80}, want a SummaryWriter, a run of wandb, or a function of values and step")


def lightning_callback(every: int = 50) -> Any:
    """Return a callback for Lightning's Trainer that logs the same to the Trainer's own loggers."""
    try:
        callback: Any = importlib.import_module("lightning.pytorch").Callback
    except ImportError:
        callback = importlib.import_module("pytorch_lightning").Callback

    class LightningDataWait(callback):  # type: ignore[misc]
        """Logs how much of the training waits for data."""

        def on_train_start(self, trainer: Any, module: Any) -> None:
            loader = trainer.train_dataloader
            if not isinstance(loader, DataLoader):
                raise TypeError(f"imgfeed: the Trainer's train_dataloader is {kind_of(loader)}, want an imgfeed.DataLoader")

            def log(values: dict[str, float], step: int) -> None:
                for logger in trainer.loggers:
                    logger.log_metrics(values, step=step)

            self._wait = DataWait(loader, log, every)

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            self._wait.step(trainer.global_step)

    return LightningDataWait()
