"""Answers with Pillow's results, for pillow_test.go.

Reads lines from standard input, each followed by an image of w × h pixels, RGB:

    w h outW outH filter r g b m0 .. m5     Image.transform((outW, outH), AFFINE)

and answers with the pixels of the result.
"""

import sys

from PIL import Image

FILTERS = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}


def main() -> None:
    for line in iter(sys.stdin.buffer.readline, b""):
        words = line.decode().split()
        size = int(words[0]), int(words[1])
        image = Image.frombytes("RGB", size, sys.stdin.buffer.read(size[0] * size[1] * 3))
        fill = tuple(int(v) for v in words[5:8])
        matrix = [float(v) for v in words[8:]]
        result = image.transform((int(words[2]), int(words[3])), Image.AFFINE, matrix, FILTERS[words[4]], fillcolor=fill)
        sys.stdout.buffer.write(result.tobytes())
        sys.stdout.buffer.flush()


main()
