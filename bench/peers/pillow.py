"""torchvision on Pillow, one thread: decode, transform, and copy into a batch, over and over.

    python3 pillow.py LIST SECONDS eval|train|full

LIST names a file with one path a line; the files are in memory before the clock starts. A quarter of SECONDS is warm-up.
Prints one JSON object.
"""

import io
import json
import sys
import time
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision import transforms

BATCH = 256


def main() -> None:
    listing, seconds, name = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    transform = {
        "eval": transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224)]),
        "train": transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]),
        "full": None,
    }[name]
    files = cycle([Path(p).read_bytes() for p in Path(listing).read_text().splitlines()])
    batch = np.empty((BATCH, 224, 224, 3), np.uint8)

    def run(until: float) -> int:
        done = 0
        while time.perf_counter() < until:
            image = Image.open(io.BytesIO(next(files))).convert("RGB")
            if transform is not None:
                batch[done % BATCH] = np.asarray(transform(image))
            done += 1
        return done

    run(time.perf_counter() + seconds / 4)
    start, cpu = time.perf_counter(), time.process_time()
    done = run(start + seconds)
    elapsed = time.perf_counter() - start
    print(
        json.dumps(
            {
                "images_per_second": done / elapsed,
                "images": done,
                "seconds": elapsed,
                "cpu_seconds": time.process_time() - cpu,
            }
        )
    )


main()
