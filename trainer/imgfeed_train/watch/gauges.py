"""What the machine shows: the GPU by NVML, memory, and the feed's account of itself."""

from __future__ import annotations

import contextlib
import math
import resource
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

#: What each rank measures of its hardware, with units. What there is no instrument for is NaN inside, and absent outside.
HARDWARE = ("gpu_utilisation_percent", "gpu_power_w", "gpu_memory_mb", "gpu_memory_peak_mb", "host_memory_peak_mb")


class GpuGauge:
    """Samples a GPU's utilisation, power and memory in a thread, by torch's reading of NVML (nvidia-ml-py).

    A single sample would show the moment at which lines are written, in which the GPU rests; the mean of a second's rhythm
    does not. Without a GPU, NVML or a driver's answer there are no values: ``why`` says the reason.
    """

    def __init__(self, device: torch.device, seconds: float = 1.0) -> None:
        """Begin to sample a CUDA device; do nothing for another."""
        self.why: str | None = None
        self._device, self._seconds = device, seconds
        self._lock = threading.Lock()
        self._sums: dict[str, tuple[float, int]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if device.type != "cuda":
            return
        self._sample()
        if self.why is None:
            self._thread = threading.Thread(target=self._run, name="gpu-gauge", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds) and self.why is None:
            self._sample()

    def _sample(self) -> None:
        try:
            values = {
                "gpu_utilisation_percent": float(torch.cuda.utilization(self._device)),
                "gpu_power_w": torch.cuda.power_draw(self._device) / 1000,
            }
        except Exception as e:  # NVML's errors share no base with torch's; a gauge must not end a training
            advice = ": pip install nvidia-ml-py" if isinstance(e, ModuleNotFoundError) else ""
            self.why = f"{e}{advice}"
            return
        with contextlib.suppress(Exception):  # not every GPU counts it, and the allocator's peak is known anyway
            free, total = torch.cuda.mem_get_info(self._device)
            values["gpu_memory_mb"] = (total - free) / 2**20
        with self._lock:
            for name, value in values.items():
                before, count = self._sums.get(name, (0.0, 0))
                self._sums[name] = (before + value, count + 1)

    def take(self) -> dict[str, float]:
        """Return the means since the last call by their names in HARDWARE; without samples, no value."""
        with self._lock:
            sums, self._sums = self._sums, {}
        return {name: total / count for name, (total, count) in sums.items()}

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)


def hardware(gauge: GpuGauge, device: torch.device) -> list[float]:
    """Return this rank's values in the order of HARDWARE, NaN where there is none."""
    values = gauge.take()
    values["host_memory_peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if device.type == "cuda":
        values["gpu_memory_peak_mb"] = torch.cuda.max_memory_allocated(device) / 2**20
    return [values.get(name, math.nan) for name in HARDWARE]


@dataclass(frozen=True)
class FeedShare:
    """What a feed did between two looks: fractions of time, from 0 to 1.

    ``disk`` and ``decode`` are of all its threads' time; ``client`` is how long it stood still because the training had not
    yet given a batch's memory back. ``waiting`` is the server's own word now: disk, cpu, client or idle.
    """

    waiting: str
    disk: float
    decode: float
    client: float


class FeedGauge:
    """Reads a feed's account of its time, from one look to the next."""

    def __init__(self, loader: Any) -> None:
        """Take the account of a loader's server as it is now for zero."""
        self._loader = loader
        self._before: Mapping[str, float] = loader.stats()["seconds"]
        self._at = time.monotonic()

    def take(self) -> FeedShare:
        """Ask the server, and return what happened since the last look."""
        stats = self._loader.stats()
        seconds, now = stats["seconds"], time.monotonic()
        passed = max(now - self._at, 1e-6)

        def share(*names: str, of: float = passed) -> float:
            return min(1.0, float(sum(seconds[name] - self._before[name] for name in names)) / of)

        threads = passed * max(1, stats["threads"])
        taken = FeedShare(
            str(stats["waiting_for"]),
            share("read", of=threads),
            share("decode", "resample", of=threads),
            share("slot_wait"),
        )
        self._before, self._at = seconds, now
        return taken
