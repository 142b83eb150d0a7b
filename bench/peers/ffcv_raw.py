"""FFCV in raw mode, one worker thread: images stored resized to 256 as raw pixels, random order, in batches of 256.

    python3 ffcv_raw.py write LIST BETON REPEAT     write the dataset, each image REPEAT times
    python3 ffcv_raw.py eval|train BETON SECONDS    centre crop of 224 / random resized crop of 224; prints one JSON object

LIST names a file with one path a line. An epoch is warm-up, which also compiles; epochs are then run for SECONDS.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import (
    CenterCropRGBImageDecoder,
    IntDecoder,
    RandomResizedCropRGBImageDecoder,
)
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import ToTensor
from ffcv.writer import DatasetWriter
from PIL import Image
from torchvision import transforms

BATCH = 256


class Resized:
    """The listed images, resized as torchvision does, over and over."""

    def __init__(self, paths: list[str], repeat: int) -> None:
        self.paths, self.repeat = paths, repeat
        self.resize = transforms.Resize(256)

    def __len__(self) -> int:
        return len(self.paths) * self.repeat

    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        image = Image.open(self.paths[i % len(self.paths)]).convert("RGB")
        return np.array(self.resize(image)), 0


def write(listing: str, beton: str, repeat: int) -> None:
    paths = Path(listing).read_text().splitlines()
    fields = {"image": RGBImageField(write_mode="raw"), "label": IntField()}
    DatasetWriter(beton, fields, num_workers=1).from_indexed_dataset(Resized(paths, repeat))


def measure(name: str, beton: str, seconds: float) -> None:
    decoder = CenterCropRGBImageDecoder((224, 224), ratio=224 / 256) if name == "eval" else RandomResizedCropRGBImageDecoder((224, 224))
    loader = Loader(
        beton,
        batch_size=BATCH,
        num_workers=1,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=True,
        pipelines={"image": [decoder, ToTensor()], "label": [IntDecoder(), ToTensor()]},
    )

    def epoch() -> int:
        return sum(len(images) for images, _ in loader)

    epoch()
    start, cpu, done = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - start < seconds:
        done += epoch()
    elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps({"images_per_second": done / elapsed, "images_per_cpu_second": done / cpu, "cpu_seconds": cpu, "images": done, "seconds": elapsed}))


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3], int(sys.argv[4]))
else:
    measure(sys.argv[1], sys.argv[2], float(sys.argv[3]))
