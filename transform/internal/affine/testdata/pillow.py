"""Answers with Pillow's results, for pillow_test.go.

Reads lines from standard input, each followed by an image of w × h pixels, RGB:

    map w h outW outH filter r g b m0 .. m5     Image.transform((outW, outH), AFFINE)
    turn w h quarters                           Image.transpose

and answers with the pixels of the result.
"""

import sys

from PIL import Image

FILTERS = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
TURNS = {1: Image.ROTATE_90, 2: Image.ROTATE_180, 3: Image.ROTATE_270}


def main() -> None:
    for line in iter(sys.stdin.buffer.readline, b""):
        what, *words = line.decode().split()
        size = int(words[0]), int(words[1])
        image = Image.frombytes("RGB", size, sys.stdin.buffer.read(size[0] * size[1] * 3))
        if what == "map":
            fill = tuple(int(v) for v in words[5:8])
            matrix = [float(v) for v in words[8:]]
            result = image.transform((int(words[2]), int(words[3])), Image.AFFINE, matrix, FILTERS[words[4]], fillcolor=fill)
        else:
            result = image.transpose(TURNS[int(words[2])])
        sys.stdout.buffer.write(result.tobytes())
        sys.stdout.buffer.flush()


main()
