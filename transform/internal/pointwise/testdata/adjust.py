"""Does to images what torchvision's functions for Pillow do, with Pillow alone.

Run by the package's tests. Reads records from standard input, a line of JSON (op, value, width, height) and then the pixels, and
writes the pixels of each result.
"""

import json
import sys

from PIL import Image, ImageEnhance, ImageOps


def hue(image: Image.Image, shift: int) -> Image.Image:
    h, s, v = image.convert("HSV").split()
    h = h.point([(i + shift) & 255 for i in range(256)])
    return Image.merge("HSV", (h, s, v)).convert("RGB")


OPERATIONS = {
    "invert": lambda image, _: ImageOps.invert(image),
    "gray": lambda image, _: image.convert("L").convert("RGB"),
    "autocontrast": lambda image, _: ImageOps.autocontrast(image),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "posterize": lambda image, bits: ImageOps.posterize(image, int(bits)),
    "solarize": lambda image, threshold: ImageOps.solarize(image, threshold),
    "solarize add": lambda image, add: image.point([min(255, i + int(add)) if i < 128 else i for i in range(256)] * 3),
    "brightness": lambda image, factor: ImageEnhance.Brightness(image).enhance(factor),
    "contrast": lambda image, factor: ImageEnhance.Contrast(image).enhance(factor),
    "saturation": lambda image, factor: ImageEnhance.Color(image).enhance(factor),
    "sharpness": lambda image, factor: ImageEnhance.Sharpness(image).enhance(factor),
    "hue": lambda image, shift: hue(image, int(shift)),
}


def main() -> None:
    for line in iter(sys.stdin.buffer.readline, b""):
        record = json.loads(line)
        size = record["width"], record["height"]
        image = Image.frombytes("RGB", size, sys.stdin.buffer.read(size[0] * size[1] * 3))
        sys.stdout.buffer.write(OPERATIONS[record["op"]](image, record["value"]).tobytes())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
