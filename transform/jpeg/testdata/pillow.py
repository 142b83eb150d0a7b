"""Decodes files with Pillow for the Go tests: reads paths, one a line, and answers each with a line
"width height" and the RGB bytes, or "error message"."""

import sys
from PIL import Image, features

Image.MAX_IMAGE_PIXELS = None
out = sys.stdout.buffer
out.write(f"Pillow {Image.__version__} libjpeg {features.version('jpg')}\n".encode())
out.flush()
for line in sys.stdin:
    try:
        image = Image.open(line.rstrip("\n")).convert("RGB")
        out.write(b"%d %d\n" % image.size)
        out.write(image.tobytes())
    except Exception as error:  # any failure is an answer
        out.write(f"error {type(error).__name__}: {error}".replace("\n", " ").encode() + b"\n")
    out.flush()
