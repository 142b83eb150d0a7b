"""Does operations with torchvision on Pillow images, for TestOperationsAreTorchvisions.

Reads records from standard input: one line of JSON (ops: a transform with nothing left to chance; width and height of the image; size of the
result, [height, width]), then the pixels of the image, RGB, then those of the result. Prints, as JSON, how many were compared and
which differ: of GaussianBlur only those by more than one level; of its values it prints, too, how many there were and differed.
"""

import inspect
import json
import sys

import numpy as np
import torch
from PIL import Image, ImageFilter
from torchvision import transforms

INTERPOLATIONS = {mode.value: mode for mode in transforms.InterpolationMode}


def operation(op: dict) -> object:
    parameters = dict(op)
    if op["op"] == "PILGaussianBlur":
        return lambda image: image.filter(ImageFilter.GaussianBlur(op["radius"]))
    kind = getattr(transforms, parameters.pop("op"))
    known = inspect.signature(kind).parameters
    if "interpolation" in parameters:
        parameters["interpolation"] = INTERPOLATIONS[parameters["interpolation"]]
    for name, value in parameters.items():
        parameters[name] = tuple(value) if isinstance(value, list) and name != "center" else value
    return kind(**{name: value for name, value in parameters.items() if name in known})


def main() -> None:
    torch.manual_seed(0)
    compared, differ, blurred, rounded = 0, [], 0, 0
    for line in iter(sys.stdin.buffer.readline, b""):
        record = json.loads(line)
        width, height = record["width"], record["height"]
        image = Image.frombytes("RGB", (width, height), sys.stdin.buffer.read(width * height * 3))
        shape = (*record["size"], 3)
        got = np.frombuffer(sys.stdin.buffer.read(int(np.prod(shape))), np.uint8).reshape(shape)
        for op in record["ops"]:
            image = operation(op)(image)
        want = np.asarray(image)
        compared += 1
        if want.shape != got.shape:
            differ.append(f"{record['ops']} of {width}x{height}: {got.shape}, want {want.shape}")
            continue
        worst = int(np.abs(got.astype(int) - want).max())
        if record["ops"][0]["op"] == "GaussianBlur" and worst <= 1:
            blurred, rounded = blurred + want.size, rounded + int((got != want).sum())
        elif worst:
            differ.append(f"{record['ops']} of {width}x{height}: {(got != want).mean():.5f} of the values, by up to {worst}")
    print(json.dumps({"compared": compared, "differ": differ, "blurred": blurred, "rounded": rounded}))


if __name__ == "__main__":
    main()
