"""Reads two epochs by one system and prints what they took, as JSON: epoch.py SYSTEM OUT. `epoch.py table OUT` prints the medians of results.jsonl."""

import collections
import glob
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

system, out = sys.argv[1], Path(sys.argv[2])
STORE = "http://127.0.0.1:7070"
KEYS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
os.environ.update(KEYS, AWS_ENDPOINT_URL=STORE, S3_ENDPOINT_URL=STORE, AWS_EC2_METADATA_DISABLED="true")
BATCH, WORKERS = 256, 2
GET_DOLLARS = 0.40 / 1e6  # list price of a GET in S3's us-east-1, within the region


def received() -> int:
    return int(Path("/sys/class/net/store0/statistics/rx_bytes").read_text())


def requests() -> int:
    log = out / "access.log"
    return log.read_text().count("\n") if log.exists() else 0


def apart(storage: np.ndarray) -> float:
    """How far apart neighbours in storage are served, as a part of the epoch: a third where the order is random."""
    served = np.empty(len(storage), int)
    served[storage] = np.arange(len(storage))
    return float(np.abs(np.diff(served)).mean() / len(storage))


def measure(opening: Callable[[], tuple[Iterable[Any], Callable[[Any], list[int]]]], stored_at: np.ndarray | None = None) -> None:
    """Time the opening, and two epochs. The loader's batches give numbers, which stored_at turns into positions in storage."""
    bytes_before, requests_before, begin = received(), requests(), time.perf_counter()
    loader, numbers = opening()
    opened = time.perf_counter() - begin
    for epoch in range(2):
        epoch_bytes, begin, first, order = received(), time.perf_counter(), 0.0, []
        for batch in loader:
            first = first or time.perf_counter() - begin
            order += numbers(batch)
        took = time.perf_counter() - begin
        rate = (received() - epoch_bytes) / took
        time.sleep(1)  # for nginx to log
        storage = np.array(order) if stored_at is None else stored_at[order]
        row = {"system": system, "epoch": epoch, "images": len(order), "opened": opened, "first": first, "took": took, "rate": rate}
        row |= {"bytes": received() - bytes_before, "requests": requests() - requests_before, "apart": apart(storage)}
        print(json.dumps(row), flush=True)
        bytes_before, requests_before, opened = received(), requests(), 0.0


def imgfeed() -> None:
    import torch  # noqa: F401 - which is not part of opening
    from imgfeed import DataLoader

    def opening() -> tuple[Any, Any]:
        source = "s3://ours/train"
        if system == "imgfeed-index":
            tars = [f"{STORE}/wds/train/{Path(t).name}" for t in sorted(glob.glob(str(out / "data/wds/train/*.tar")))]
            source = str(out / "index")
            imgshard = Path(__file__).parents[2] / "bin" / "imgshard"
            subprocess.run([imgshard, "index", *tars, "-o", source], check=True, capture_output=True)
        loader = DataLoader(source, batch_size=BATCH, transform="train", shuffle=True, with_index=True, cache=str(out / "cache"))
        return loader, lambda batch: batch[-1].tolist()

    measure(opening)


def litdata() -> None:
    from litdata import StreamingDataLoader, StreamingDataset

    stored = StreamingDataset(str(out / "data/lit/train"), shuffle=False)
    stored_at = np.argsort([int(sample["label"]) for sample in stored])
    options = {"endpoint_url": STORE, "aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "us-east-1"}

    def opening() -> tuple[Any, Any]:
        dataset = StreamingDataset("s3://lit/train", cache_dir=str(out / "cache"), shuffle=True, storage_options=options)
        loader = StreamingDataLoader(dataset, batch_size=BATCH, num_workers=WORKERS, collate_fn=list)
        return loader, lambda batch: [int(sample["label"]) for sample in batch]

    measure(opening, stored_at)


def streaming() -> None:
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory
    from torch.utils.data import DataLoader

    clean_stale_shared_memory()

    def opening() -> tuple[Any, Any]:
        dataset = StreamingDataset(remote="s3://mds/train", local=str(out / "cache"), shuffle=True, batch_size=BATCH)
        loader = DataLoader(dataset, batch_size=BATCH, num_workers=WORKERS, collate_fn=list)
        return loader, lambda batch: [int(sample["label"]) for sample in batch]

    measure(opening)


def webdataset() -> None:
    import webdataset as wds

    last = len(glob.glob(str(out / "data/wds/train/*.tar"))) - 1

    def opening() -> tuple[Any, Any]:
        tars = f"pipe:curl -s {STORE}/wds/train/train-{{0000..{last:04}}}.tar"
        dataset = wds.WebDataset(tars, shardshuffle=last + 1).shuffle(1000)
        return wds.WebLoader(dataset, batch_size=BATCH, num_workers=WORKERS, collate_fn=list), lambda batch: [int(sample["cls"]) for sample in batch]

    measure(opening)


def table() -> None:
    rows = collections.defaultdict(list)
    for line in (out / "results.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows[row["system"]].append(row)
    print("| | rounds | to the first batch, s | first epoch, s | of 125 MB/s | second epoch, s | MB | requests | their price | apart |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, measured in rows.items():
        one, two = ([row for row in measured if row["epoch"] == epoch] for epoch in (0, 1))

        def median(of: list[dict[str, Any]], key: str) -> float:
            return statistics.median(row[key] for row in of)

        start = statistics.median(row["opened"] + row["first"] for row in one)
        rate = median(one, "rate") / 125e6
        size, count = median(one, "bytes") / 1e6, median(one, "requests")
        print(
            f"| {name} | {len(one)} | {start:.2f} | {median(one, 'took'):.2f} | {rate:.2f} | {median(two, 'took'):.2f} "
            f"| {size:.0f} | {count:,.0f} | ${count * GET_DOLLARS:.5f} | {median(one, 'apart'):.2f} |"
        )


if __name__ == "__main__":
    {"imgfeed": imgfeed, "imgfeed-index": imgfeed, "litdata": litdata, "streaming": streaming, "webdataset": webdataset, "table": table}[system]()
