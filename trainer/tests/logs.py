"""Logs as runs write them, made up: for machines that the tests don't have."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

LINES = 10  # in an epoch, of 100 batches each


def made_up(
    folder: Path,
    *,
    hosts: list[str],
    nodes: list[int] | None = None,
    rate: float,
    epochs: int = 2,
    gpu: bool = False,
    late: int | None = None,
    network: float = 0.02,
    **more: Any,
) -> Path:
    """Write the log of a run with a rank on each host, of so many images/s together; late is a rank short of data,
    network the part of the time that ranks spend in collectives."""
    clock = 1000.0
    settings = {"arch": "resnet50", "data": "/data", "epochs": epochs, "accumulate": 1, "output": str(folder), **more}
    machine = {"gpu": "NVIDIA T4" if gpu else "none", "cpu": "a CPU", "torch": "2.8", "python": "3.12"}
    machines: list[dict[str, Any]] = [{"host": host, **machine} for host in hosts]
    for row, node in zip(machines, nodes or [], strict=False):
        row["node"] = node
    rows: list[dict[str, Any]] = [
        {"event": "start", "at": clock, "settings": settings, "machine": machines[0], "machines": machines},
        {"event": "plan", "at": clock, "world": len(hosts), "batch_size": 256},
    ]
    ranks = range(len(hosts))
    seconds = 100 * 256 * len(hosts) / rate  # of a line
    for epoch in range(epochs):
        for line in range(1, LINES + 1):
            clock += seconds
            step = epoch * LINES * 100 + line * 100
            wait = [0.5 if r == late else 0.004 + 0.001 * r for r in ranks]
            hardware: dict[str, list[float | None]] = {"host_memory_peak_mb": [900.0 for _ in ranks]}
            if gpu:
                hardware |= {
                    "gpu_utilisation_percent": [98.0 + r % 2 for r in ranks],
                    "gpu_power_w": [35.0 + 30 * math.sin(step) ** 2 for _ in ranks],
                    "gpu_memory_mb": [9000.0 for _ in ranks],
                    "gpu_memory_peak_mb": [8000.0 for _ in ranks],
                }
            row = {"event": "step", "at": clock, "epoch": epoch, "batch": 100 * line, "batches": 100 * LINES, "step": step}
            row |= {"loss": 7 * math.exp(-step / 3000), "acc1": step / 100, "acc5": step / 50, "lr": 1 - step / 1e5}
            row |= {"images_per_second": rate * (1 + 0.01 * math.sin(step)), "wait": wait, "compute": [0.45 for _ in ranks]}
            row |= {"collective": [network if r == late or late is None else 0.5 for r in ranks], "straggler": late}
            row |= {"why": None if late is None else "data", "feed": "cpu", "feeds": ["cpu" for _ in ranks]}
            share = {"disk": 0.03, "decode": 0.93, "client": 0.0}
            row |= {"feed_share": {k: [v for _ in ranks] for k, v in share.items()}, "hardware": hardware}
            rows.append(row)
        clock += 20
        done = {
            "event": "epoch",
            "at": clock,
            "epoch": epoch,
            "loss": 3.0 / (1 + epoch),
            "acc1": 30.0 + epoch,
            "acc5": 60.0 + epoch,
        }
        rows.append({**done, "samples": 50_000, "train_seconds": LINES * seconds, "eval_seconds": 20.0})
    rows.append({"event": "end", "at": clock, "state": "finished"})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
