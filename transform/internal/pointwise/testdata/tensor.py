"""Does to images what the functions of torchvision.transforms.v2 do to uint8 tensors.

Run by the package's tests. Reads records from standard input, a line of JSON (op, value, width, height) and then the pixels, and
writes the pixels of each result.
"""

import json
import sys

import torch
from torchvision.transforms.v2 import functional

OPERATIONS = {
    "invert": lambda image, _: functional.invert(image),
    "tensor gray": lambda image, _: functional.rgb_to_grayscale(image, 3),
    "tensor autocontrast": lambda image, _: functional.autocontrast(image),
    "equalize": lambda image, _: functional.equalize(image),
    "posterize": lambda image, bits: functional.posterize(image, int(bits)),
    "solarize": functional.solarize,
    "brightness": functional.adjust_brightness,
    "tensor contrast": functional.adjust_contrast,
    "tensor saturation": functional.adjust_saturation,
    "tensor sharpness": functional.adjust_sharpness,
    "tensor hue": functional.adjust_hue,
}


def main() -> None:
    torch.set_num_threads(1)
    for line in iter(sys.stdin.buffer.readline, b""):
        record = json.loads(line)
        shape = record["height"], record["width"], 3
        pixels = bytearray(sys.stdin.buffer.read(shape[0] * shape[1] * 3))
        image = torch.frombuffer(pixels, dtype=torch.uint8).view(shape).permute(2, 0, 1)
        made = OPERATIONS[record["op"]](image, record["value"])
        sys.stdout.buffer.write(made.permute(1, 2, 0).contiguous().numpy().tobytes())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
