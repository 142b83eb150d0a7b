"""Repeats records with torchvision, by imgfeed.reference, for TestRecordsAreTorchvisions.

Reads from standard input: one line of JSON (transform; file, or width and height of an image that follows; record; size of the result, [height,
width]), then the image's pixels, if it has no file, and those of the result, RGB. Prints, as JSON, how many were compared and are identical, how
often each transform and function came, and which differ. Values that torchvision's blur has had a part in may be off by one: of how many results
and values that was, and how many were, is printed too.
"""

import functools
import json
import sys
from collections import Counter

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, "../python")
from imgfeed.replay import reference


@functools.lru_cache(maxsize=1)
def load(file: str) -> Image.Image:
    return Image.open(file).convert("RGB")


class Repeater:
    """Repeats records; of what the last one began with, too, it takes the image that this gave."""

    def __init__(self) -> None:
        self.record: list = []
        self.images: list[Image.Image] = []  # the original, and what each call of the record gave

    def repeat(self, image: Image.Image, record: list) -> Image.Image:
        alike = 0
        if self.images and self.images[0] is image:
            while alike < min(len(record), len(self.record)) and record[alike] == self.record[alike]:
                alike += 1
        self.record, self.images = record, self.images[: alike + 1] if alike else [image]
        for call in record[alike:]:
            self.images.append(reference(self.images[-1], [call]))
        return self.images[-1]


def main() -> None:
    torch.set_num_threads(1)
    repeater, totals = Repeater(), Counter()
    transforms, functions, differ = Counter(), Counter(), []
    read = sys.stdin.buffer.read
    for line in iter(sys.stdin.buffer.readline, b""):
        head = json.loads(line)
        if "file" in head:
            image = load(head["file"])
        else:
            image = Image.frombytes(
                "RGB",
                (head["width"], head["height"]),
                read(head["width"] * head["height"] * 3),
            )
        shape, record = (*head["size"], 3), head["record"]
        got = np.frombuffer(read(shape[0] * shape[1] * 3), np.uint8).reshape(shape)
        want = repeater.repeat(image, record)
        want = want.permute(1, 2, 0).numpy() if torch.is_tensor(want) else np.asarray(want)
        same = np.array_equal(got, want)
        totals.update(compared=1, identical=same)
        transforms[head["transform"]] += 1
        functions.update(call["op"] for call in record)
        blurred = any(call["op"] == "gaussian_blur" for call in record)
        if same or want.shape != shape:
            off = np.zeros(1)
        else:
            off = np.abs(got.astype(np.int16) - want)
        if blurred and want.shape == shape and off.max() <= 1:
            totals.update(blurred=1, values=got.size, off=int(off.sum()))
        elif not same:
            what = f"{(off > 0).mean():.5f} of the values, by up to {off.max()}" if want.shape == shape else f"{want.shape}"
            differ.append(f"{head.get('file', image.size)}: {what}: {json.dumps(record)}")
    print(json.dumps({**totals, "transforms": transforms, "functions": functions, "differ": differ}))


if __name__ == "__main__":
    main()
