"""Repeats records with torchvision on Pillow, by imgfeed.reference, for TestRecordsAreTorchvisions.

Reads from standard input: one line of JSON (file, or width and height of an image that follows; record; size of the result, [height,
width]), then the image's pixels, if it has no file, and those of the result, RGB. Prints, as JSON, how many were compared, how often each
function was in them, and which differ.
"""

import functools
import json
import sys
from collections import Counter

import numpy as np
from PIL import Image

sys.path.insert(0, "../python")
from imgfeed.replay import reference


@functools.lru_cache(maxsize=1)
def load(file: str) -> Image.Image:
    return Image.open(file).convert("RGB")


def main() -> None:
    compared, differ, functions = 0, [], Counter()
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
        shape = (*head["size"], 3)
        got = np.frombuffer(read(int(np.prod(shape))), np.uint8).reshape(shape)
        want = np.asarray(reference(image, head["record"]))
        compared += 1
        functions.update(call["op"] for call in head["record"])
        if want.shape != shape or not np.array_equal(got, want):
            rate = (got != want).mean() if want.shape == shape else 1
            differ.append(
                f"{head.get('file', image.size)}: {rate:.5f} of the values: {json.dumps(head['record'])}"
            )
    print(json.dumps({"compared": compared, "functions": functions, "differ": differ}))


if __name__ == "__main__":
    main()
