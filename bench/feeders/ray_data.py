"""Ray Data's image pipeline and imgfeed on the same photographs and cores, in turns: images/s of RandomResizedCrop(224) and a flip, in batches of 64.

    python bench/feeders/ray_data.py FOLDER SET [--rounds 3] [--seconds 20]

FOLDER holds the files that SET was packed from. It needs ray[data], torchvision and Pillow. Ray Data reads the files, decodes them by Pillow and
transforms them by torchvision in its tasks, and does not shuffle; imgfeed shuffles fully. Both have all processors.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("IMGFEED_BIN", str(ROOT / "bin" / "imgfeed"))

import numpy as np
import ray
import torch
import torchvision.transforms as T
from imgfeed import DataLoader
from PIL import Image

TRAIN = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip()])


def transform(row):
    torch.set_num_threads(1)
    return {"image": np.asarray(TRAIN(Image.fromarray(row["image"])))}


def ray_data(folder):
    images = ray.data.read_images([folder] * 10, mode="RGB", override_num_blocks=100).map(transform)
    while True:
        for batch in images.iter_batches(batch_size=64, prefetch_batches=4):
            yield len(batch["image"])


def imgfeed(data):
    with DataLoader(data, 64, transform="train", framework="numpy", shuffle=True) as loader:
        while True:
            for batch in loader:
                yield len(batch[0])


def rate(counts, seconds):
    """Return images/s after a warm-up of half the time."""
    began = time.monotonic()
    while time.monotonic() - began < seconds / 2:
        next(counts)
    began, images = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        images += next(counts)
    images /= time.monotonic() - began
    counts.close()
    return images


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("set")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    args = parser.parse_args()
    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    rates = {"Ray Data": [], "imgfeed": []}
    for _ in range(args.rounds):
        for name, counts in (("Ray Data", ray_data(args.folder)), ("imgfeed", imgfeed(args.set))):
            rates[name].append(rate(counts, args.seconds))
            print(f"{name}: {rates[name][-1]:.0f} images/s", flush=True)
    medians = {name: statistics.median(each) for name, each in rates.items()}
    print(f"ray {ray.__version__}: Ray Data {medians['Ray Data']:.0f}, imgfeed {medians['imgfeed']:.0f} images/s: {medians['imgfeed'] / medians['Ray Data']:.1f} times")


if __name__ == "__main__":
    main()
