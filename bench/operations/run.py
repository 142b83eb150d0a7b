"""Measures operations beside torchvision's on Pillow: microseconds for a 224 x 224 image on one core, in one run.

    python3 bench/operations/run.py IMAGE [--images FOLDER] [--rounds 5] [--seconds 0.2] [--core 0] > table.md

With a folder of JPEG files a second table follows, of whole transforms from stored files to pixels: what policies cost beside `train` alone,
and DINO's ten views beside torchvision's, by CPU time. With four rounds it takes less than five minutes.

Needs Go, torch, torchvision and Pillow. The image is cut to 224 x 224 pixels. For each operation imgfeed and torchvision take turns, a round
each; a cell is the shortest call of all rounds, so that what else the machine does counts little. imgfeed's time is what the operation
adds to a transform (bench/operations/main.go), torchvision's that of a call on an image of Pillow.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import PIL
import torch
import torchvision
from PIL import Image, ImageFilter
from torchvision.transforms import InterpolationMode, autoaugment, transforms
from torchvision.transforms import functional as F

ROOT = Path(__file__).parents[2]
NEAREST, BILINEAR, BICUBIC = InterpolationMode.NEAREST, InterpolationMode.BILINEAR, InterpolationMode.BICUBIC
Operation = tuple[str, dict[str, Any], Callable[[Any], Any]]


def operations() -> list[Operation]:
    """Each operation's name, imgfeed's and torchvision's, with nothing left to chance."""
    listed: list[Operation] = []
    for how in (NEAREST, BILINEAR, BICUBIC):
        named = {"interpolation": how.value}
        turn = {"op": "RandomRotation", "degrees": [15, 15], **named}
        listed.append((f"rotate by 15 degrees, {how.value}", turn, lambda image, how=how: F.rotate(image, 15, how)))
        for axis, shear in (("x", (11.3, 0.0)), ("y", (0.0, 11.3))):
            slant = {"op": "RandomAffine", "degrees": 0, "shear": [shear[0]] * 2 + [shear[1]] * 2, "center": [0, 0], **named}
            listed.append(
                (
                    f"shear along {axis}, {how.value}",
                    slant,
                    lambda image, how=how, shear=shear: F.affine(image, 0, [0, 0], 1, shear, how, center=[0, 0]),
                )
            )
    for sigma in (0.5, 2.0):
        own = {"op": "PILGaussianBlur", "radius": sigma, "p": 1}
        blur = ImageFilter.GaussianBlur(sigma)
        listed.append((f"Pillow's blur, radius {sigma}", own, lambda image, blur=blur: image.filter(blur)))
    for kernel in (3, 23):
        own = {"op": "GaussianBlur", "kernel_size": kernel, "sigma": 1.5}
        listed.append((f"torchvision's blur, kernel {kernel}", own, transforms.GaussianBlur(kernel, (1.5, 1.5))))
    listed.append(("vertical flip", {"op": "RandomVerticalFlip", "p": 1}, F.vflip))
    reflect = {"op": "RandomCrop", "size": 224, "padding": 16, "padding_mode": "reflect"}
    listed.append(("crop after padding, reflect", reflect, transforms.RandomCrop(224, 16, padding_mode="reflect")))
    jitter = transforms.ColorJitter
    listed += [
        ("invert", {"op": "RandomInvert", "p": 1}, F.invert),
        ("posterize", {"op": "RandomPosterize", "bits": 4, "p": 1}, lambda image: F.posterize(image, 4)),
        ("solarize", {"op": "RandomSolarize", "threshold": 128, "p": 1}, lambda image: F.solarize(image, 128)),
        ("autocontrast", {"op": "RandomAutocontrast", "p": 1}, F.autocontrast),
        ("equalize", {"op": "RandomEqualize", "p": 1}, F.equalize),
        ("grayscale", {"op": "Grayscale", "num_output_channels": 3}, transforms.Grayscale(3)),
        ("sharpness", {"op": "RandomAdjustSharpness", "sharpness_factor": 1.7, "p": 1}, lambda i: F.adjust_sharpness(i, 1.7)),
    ]
    for part, value in (("brightness", 1.3), ("contrast", 1.3), ("saturation", 1.3), ("hue", 0.1)):
        own = {"op": "ColorJitter", part: [value, value]}
        listed.append((part, own, jitter(**{part: (value, value)})))
    return listed


def shortest(call: Callable[[Any], Any], image: Any, seconds: float) -> float:
    """Return the shortest time of a call, in microseconds."""
    least, began = float("inf"), time.perf_counter()
    while time.perf_counter() - began < seconds:
        started = time.perf_counter()
        call(image)
        least = min(least, time.perf_counter() - started)
    return least * 1e6


TRAIN = '{"op": "RandomResizedCrop", "size": 224}, {"op": "RandomHorizontalFlip"}'
PIPELINES = {
    "`train`": "train",
    "`train`, TrivialAugmentWide": f'[{TRAIN}, {{"op": "TrivialAugmentWide"}}]',
    "`train`, RandAugment(2, 9)": f'[{TRAIN}, {{"op": "RandAugment"}}]',
    "`dino`, ten views": "dino",
}


def published(name: str) -> list[Callable[[Any], Any]]:
    """The views of a pipeline as torchvision makes them."""
    sys.path.insert(0, str(ROOT / "bench/peers"))
    import views

    if name == "`dino`, ten views":
        return views.published("dino")
    policy = {"TrivialAugmentWide": autoaugment.TrivialAugmentWide(), "RandAugment(2, 9)": autoaugment.RandAugment(2, 9)}
    policies = [policy[part] for part in name.split(", ", 1)[1:]]
    return [transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), *policies])]


def decoded(files: list[bytes], views: list[Callable[[Any], Any]]) -> float:
    """Return the microseconds of CPU time that an image's views take, from the file on."""
    began = time.process_time()
    for data in files:
        image = Image.open(io.BytesIO(data)).convert("RGB")
        for view in views:
            view(image)
    return (time.process_time() - began) * 1e6 / len(files)


def pipelines(engine: Any, options: argparse.Namespace, levels: list[str]) -> None:
    """Print what whole transforms take, imgfeed's levels and torchvision in turns, each the shortest of its rounds."""
    files = [path.read_bytes() for path in sorted(options.images.iterdir()) if path.suffix.lower() in (".jpg", ".jpeg")][:100]
    theirs, ours = dict.fromkeys(PIPELINES, float("inf")), {level: [float("inf")] * len(PIPELINES) for level in levels}
    for _ in range(options.rounds):
        for level in levels:
            engine.stdin.write(json.dumps({"level": level, "transforms": list(PIPELINES.values()), "seconds": 10 * options.seconds}) + "\n")
            engine.stdin.flush()
            ours[level] = [min(pair) for pair in zip(ours[level], json.loads(engine.stdout.readline()), strict=True)]
        for name in PIPELINES:
            theirs[name] = min(theirs[name], decoded(files, published(name)))
    print(f"\n| µs an image | torchvision | {' | '.join(f'imgfeed, {level} | times | speed over train' for level in levels)} |")
    print("|---|--:|" + "--:|--:|--:|" * len(levels))
    for i, name in enumerate(PIPELINES):
        share = {level: f"{ours[level][0] / ours[level][i]:.2f}" if "Augment" in name else "–" for level in levels}
        cells = (f"{ours[level][i]:,.0f} | {theirs[name] / ours[level][i]:.1f} | {share[level]}" for level in levels)
        print(f"| {name} | {theirs[name]:,.0f} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image", type=Path)
    parser.add_argument("--images", type=Path, help="a folder of JPEG files: measure whole transforms on the first hundred, too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a round's turn")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--levels", default="avx2,avx512", help="kernels of imgfeed, at commas")
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    torch.set_num_threads(1)
    levels = options.levels.split(",")
    image = transforms.CenterCrop(224)(transforms.Resize(224)(Image.open(options.image).convert("RGB")))
    image.load()
    with tempfile.TemporaryDirectory() as folder:
        pixels, program = Path(folder, "pixels"), Path(folder, "operations")
        pixels.write_bytes(image.tobytes())
        toolchain = next(line.split()[1] for line in (ROOT / "go.mod").read_text().splitlines() if line.startswith("toolchain"))
        environment = {**os.environ, "CGO_ENABLED": "0", "GOEXPERIMENT": "simd", "GOTOOLCHAIN": toolchain}
        subprocess.run(["go", "build", "-o", program, "./bench/operations"], cwd=ROOT, env=environment, check=True)
        folders = [options.images] if options.images else []
        engine = subprocess.Popen([program, pixels, *folders], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert engine.stdin and engine.stdout
        print(f"| µs an image | torchvision | {' | '.join(f'imgfeed, {level} | times' for level in levels)} |")
        print("|---|--:|" + "--:|--:|" * len(levels))
        for name, own, theirs in operations():
            least, added = float("inf"), dict.fromkeys(levels, float("inf"))
            for _ in range(options.rounds):
                least = min(least, shortest(theirs, image, options.seconds))
                for level in levels:
                    engine.stdin.write(json.dumps({"level": level, "op": own, "seconds": options.seconds}) + "\n")
                    engine.stdin.flush()
                    added[level] = min(added[level], float(engine.stdout.readline()))
            cells = " | ".join(f"{added[level]:,.1f} | {least / added[level]:.1f}" for level in levels)
            print(f"| {name} | {least:,.0f} | {cells} |", flush=True)
        if options.images:
            pipelines(engine, options, levels)
        engine.stdin.close()
        engine.wait()
    print(f"\n- torchvision {torchvision.__version__} on Pillow {PIL.__version__}, torch {torch.__version__} with one thread")
    print(f"- {options.rounds} rounds of {options.seconds} s, the shortest call of each; on core {options.core}")
    if options.images:
        print("- whole transforms: the first 100 JPEG files from memory, by CPU time, the shortest pass over them")
    print(f"- Python {sys.version.split()[0]}, {toolchain}")


if __name__ == "__main__":
    main()
