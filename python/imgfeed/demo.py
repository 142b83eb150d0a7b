"""Packs a dataset, serves it to two ranks, iterates an epoch of each, and draws the model's images. Needs Pillow."""

import argparse
import contextlib
import multiprocessing
import operator
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from . import DataLoader, ImgfeedError
from ._server import wire
from ._server.launcher import find_binary

WORLD = 2
SHEET, SHEET_COLUMNS, SHEET_ROWS = "contact-sheet.png", 8, 4


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="python -m imgfeed.demo", description=__doc__)
    parser.add_argument("--data", type=Path, help="a dataset such as ImageNet, or a shard set (default a synthetic one)")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="output folder")
    parser.add_argument("--images", type=int, default=200, help="training images per class of the synthetic dataset")
    parser.add_argument("--transform", default="train")
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args(arguments)
    try:
        run(args)
    except ImgfeedError as e:
        sys.exit(str(e))
    except subprocess.CalledProcessError as e:  # the program has said what was wrong
        sys.exit(e.returncode)


def run(args: argparse.Namespace) -> None:
    """Pack, serve, and let two processes iterate."""
    args.out.mkdir(parents=True, exist_ok=True)
    shards = pack(args)
    with tempfile.TemporaryDirectory(prefix="imgfeed-demo-") as folder:
        socket = os.path.join(folder, "sock")
        command = [find_binary(), "serve", str(shards), "--socket", socket, "--owner", str(os.getpid()), "--log-level", "warn"]
        print("$", *command, flush=True)
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as server:
            try:
                results = iterate(args, socket, server)
            finally:
                server.send_signal(signal.SIGINT)  # SIGTERM it leaves to its owner
    report(results)
    print(f"What a model sees: {args.out / SHEET}")


def pack(args: argparse.Namespace) -> Path:
    """Return the folder of the shard set, or sets, to serve; makes it unless the data are packed already."""
    source: Path | None = args.data
    if source is None:
        source = args.out / "synthetic"
        if not source.exists():
            call("synth", str(source), "--train", str(args.images))
    if any(source.glob("manifest.json")) or any(source.glob("*/manifest.json")):
        return source
    shards: Path = args.out / f"{source.resolve().name}-shards"
    if not any(shards.rglob("manifest.json")):
        call("build", str(source), "-o", str(shards), "--partitions", str(WORLD))
    return shards


def call(*arguments: str) -> None:
    """Run imgshard and show the command."""
    command = [find_binary("imgshard"), *arguments]
    print("$", *command, flush=True)
    subprocess.run(command, check=True)


def iterate(args: argparse.Namespace, socket: str, server: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """Start one process for each rank, and return what they measured."""
    while True:
        with contextlib.suppress(OSError):
            wire.connect(socket).close()
            break
        if server.poll() is not None:
            sys.exit("imgfeed.demo: the server did not start")
        time.sleep(0.01)
    spawn = multiprocessing.get_context("spawn")
    results, barrier = spawn.SimpleQueue(), spawn.Barrier(WORLD, timeout=60)  # all begin at the same time
    consumers = [spawn.Process(target=consume, args=(args, socket, rank, barrier, results)) for rank in range(WORLD)]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join()
    if any(consumer.exitcode for consumer in consumers):
        sys.exit("imgfeed.demo: a consumer failed")
    return sorted((results.get() for _ in consumers), key=operator.itemgetter("rank"))


def consume(args: argparse.Namespace, socket: str, rank: int, barrier: Barrier, results: Any) -> None:
    """Iterate one epoch of a rank, once all are ready, and put what was measured into a queue."""
    options: dict[str, Any] = {"transform": args.transform, "shuffle": True, "seed": 0, "with_index": True}
    options |= {"rank": rank, "world": WORLD}
    try:
        try:
            loader = DataLoader(f"unix:{socket}", args.batch_size, **options)
        except LookupError:  # several splits
            loader = DataLoader(f"unix:{socket}", args.batch_size, split="train", **options)
        barrier.wait()
        images_got, shown = 0, None
        begun = first = time.time()
        for images, labels, _ in loader:
            if shown is None:
                first = time.time()
                shown = images, labels  # a batch in use stays as it is
            images_got += len(images)
    except ImgfeedError as e:
        barrier.abort()
        sys.exit(str(e))
    times = {"begun": begun, "first": first, "ended": time.time()}
    if rank == 0 and shown is not None:
        contact_sheet(*shown, loader.dataset.classes, args.out / SHEET)
    results.put({"rank": rank, "split": loader.dataset.split, "images": images_got, **times})


def contact_sheet(images: Any, labels: Any, classes: Sequence[str], path: Path) -> None:
    """Draw the first images of a batch, each with its class, as a PNG."""
    from PIL import Image, ImageDraw  # noqa: PLC0415 - only the demo needs it

    if hasattr(images, "permute"):
        images = images.permute(0, 2, 3, 1).numpy()
    height, width = images.shape[1:3]
    sheet = Image.new("RGB", (SHEET_COLUMNS * width, SHEET_ROWS * height))
    draw = ImageDraw.Draw(sheet)
    for i, (pixels, label) in enumerate(zip(images[: SHEET_COLUMNS * SHEET_ROWS], labels, strict=False)):
        x, y = i % SHEET_COLUMNS * width, i // SHEET_COLUMNS * height
        sheet.paste(Image.fromarray(pixels), (x, y))
        text = classes[int(label)]
        draw.rectangle((x, y, x + 6 * len(text) + 4, y + 13), fill="black")
        draw.text((x + 2, y + 1), text, fill="white")
    sheet.save(path)


def report(results: Sequence[dict[str, Any]]) -> None:
    """Print what each rank measured, and all together."""
    for r in results:
        seconds, first = r["ended"] - r["begun"], r["first"] - r["begun"]
        print(
            f"rank {r['rank']}: {r['images']} images of {r['split']} in {seconds:.2f} s, "
            f"{r['images'] / seconds:,.0f} images/s, first batch after {first * 1000:.0f} ms"
        )
    seconds = max(r["ended"] for r in results) - min(r["begun"] for r in results)
    print(f"together: {sum(r['images'] for r in results) / seconds:,.0f} images/s")


if __name__ == "__main__":
    main()
