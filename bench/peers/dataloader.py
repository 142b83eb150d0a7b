"""Take batches from a running server and say what that costs: the client's part of scaling.py.

    python3 dataloader.py SOCKET TRANSFORM --server-pid PID

Each line of standard input is a number of seconds. For that long a DataLoader takes batches of 256 out of shared memory,
epoch after epoch, and counts the labels of each, which costs least. A quarter of the time goes before, to warm up,
or more if it takes more to use up the batches that had waited. One line of JSON comes out: images, batches, seconds by the
clock, the CPU seconds of both processes, and the share of its cores that other programs took.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator

from cores import Others, ProcessClock
from imgfeed import DataLoader

BATCH = 256
RING_MAX = 16  # batches in a ring of the server's choice, at most


def endless(loader: DataLoader) -> Iterator[int]:
    """Yield the size of batch after batch, epoch after epoch."""
    while True:
        for _, labels in loader:
            yield len(labels)


def measure(sizes: Iterator[int], server: ProcessClock, seconds: float) -> dict[str, float]:
    begin = time.perf_counter() + seconds / 4
    for taken, _ in enumerate(sizes, 1):
        if taken > RING_MAX and time.perf_counter() >= begin:
            break
    others = Others(os.sched_getaffinity(0))
    started, client, served = time.perf_counter(), time.process_time(), server.seconds()
    images = batches = 0
    for size in sizes:
        images += size
        batches += 1
        if time.perf_counter() >= started + seconds:
            break
    elapsed = time.perf_counter() - started
    client, served = time.process_time() - client, server.seconds() - served
    return {
        "images": images,
        "batches": batches,
        "seconds": elapsed,
        "client_seconds": client,
        "server_seconds": served,
        "others": others.share(client + served),
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("socket")
    p.add_argument("transform")
    p.add_argument("--server-pid", type=int, required=True)
    args = p.parse_args()
    server = ProcessClock(args.server_pid)
    loader = DataLoader(f"unix:{args.socket}", batch_size=BATCH, transform=args.transform, shuffle=True, seed=0)
    sizes = endless(loader)
    for line in sys.stdin:
        print(json.dumps(measure(sizes, server, float(line))), flush=True)


if __name__ == "__main__":
    main()
