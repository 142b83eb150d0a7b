"""Compares the engine's results with torchvision's on Pillow images.

Run by TestMatchesTorchvision. Reads records from standard input: one line of JSON (file, spec, params), then the pixels
that the engine made, NHWC. Replays each with torchvision and prints, as JSON, how many were compared and how they differ.
"""

import functools
import json
import sys

import numpy as np
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional as F


@functools.lru_cache(maxsize=1)
def load(file: str) -> Image.Image:
    return Image.open(file).convert("RGB")


def expected(file: str, name: str, params: list[int], size: int) -> np.ndarray:
    image = load(file)
    top, left, height, width, flip = params
    if name == "eval":
        image = transforms.CenterCrop(size)(transforms.Resize(256)(image))
    elif name == "train":
        image = F.resized_crop(image, top, left, height, width, [size, size])
    elif name == "train-resize":
        image = F.crop(transforms.Resize(256)(image), top, left, height, width)
    else:  # cifar
        image = F.crop(image, top, left, height, width)
    return np.asarray(F.hflip(image) if flip else image)


def main() -> None:
    compared, differ, worst = 0, [], 0.0
    for line in iter(sys.stdin.buffer.readline, b""):
        record = json.loads(line)
        size = record["size"]
        pixels = np.frombuffer(sys.stdin.buffer.read(size * size * 3), np.uint8).reshape(size, size, 3)
        want = expected(record["file"], record["transform"], record["params"], size)
        compared += 1
        if not np.array_equal(pixels, want):
            worst = max(worst, float(np.abs(pixels.astype(int) - want).mean()))
            differ.append(f"{record['file']} {record['transform']} {record['params']}")
    print(json.dumps({"compared": compared, "differ": differ, "worst": worst}))


if __name__ == "__main__":
    main()
