"""Answers with what Pillow makes of images, for blur_test.go.

Reads lines "width height radius" from standard input, each followed by an image's pixels, RGB, and answers with the pixels of
ImageFilter.GaussianBlur(radius).
"""

import sys

from PIL import Image, ImageFilter

for line in iter(sys.stdin.buffer.readline, b""):
    width, height, radius = line.split()
    size = int(width), int(height)
    image = Image.frombytes("RGB", size, sys.stdin.buffer.read(size[0] * size[1] * 3))
    sys.stdout.buffer.write(image.filter(ImageFilter.GaussianBlur(float(radius))).tobytes())
    sys.stdout.buffer.flush()
