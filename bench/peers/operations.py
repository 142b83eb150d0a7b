#!/usr/bin/env python3
"""Measure operations on images of 224 × 224 pixels in memory: imgfeed's, torchvision's on Pillow, and DALI's, in one run, on one core.

    python3 bench/peers/operations.py --python PYTHON [--rounds 15] > table.md

imgfeed's are those of `go test ./transform -bench Operations`, at each level of kernels. The contenders take turns, round after round, all
on the same core; a figure is the least of the rounds, in microseconds of CPU time for an image. Policies are means over their draws. DALI's
operations, in batches of 64, have its own arithmetic; what an empty pipeline takes is taken off. PYTHON needs torchvision, and
DALI and timm if they are to be measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def torchvision_operations() -> dict:
    """Return what torchvision does to an image of Pillow, by name."""
    import numpy as np
    from PIL import Image, ImageFilter
    from torchvision import transforms as t
    from torchvision.transforms import functional as f

    y, x, c = np.mgrid[:224, :224, :3]
    noise = np.random.default_rng(1).integers(0, 24, (224, 224, 3))
    image = Image.fromarray((x * 5 + y * 3 * (1 + c) + noise).astype(np.uint8))
    bilinear, bicubic = t.InterpolationMode.BILINEAR, t.InterpolationMode.BICUBIC
    sheared = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [13.0, 0.0]}
    operations = {
        "invert": lambda: f.invert(image),
        "posterize": lambda: f.posterize(image, 3),
        "solarize": lambda: f.solarize(image, 100),
        "rgb_to_grayscale": lambda: f.rgb_to_grayscale(image, 3),
        "adjust_brightness": lambda: f.adjust_brightness(image, 1.3),
        "adjust_contrast": lambda: f.adjust_contrast(image, 0.6),
        "adjust_saturation": lambda: f.adjust_saturation(image, 1.4),
        "adjust_hue": lambda: f.adjust_hue(image, 0.1),
        "adjust_sharpness": lambda: f.adjust_sharpness(image, 1.8),
        "autocontrast": lambda: f.autocontrast(image),
        "equalize": lambda: f.equalize(image),
        "vflip": lambda: f.vflip(image),
        "rotate, nearest": lambda: f.rotate(image, 23),
        "rotate, bilinear": lambda: f.rotate(image, 23, bilinear),
        "affine, nearest": lambda: f.affine(image, **sheared),
        "affine, bilinear": lambda: f.affine(image, **sheared, interpolation=bilinear),
        "affine, bicubic": lambda: f.affine(image, **sheared, interpolation=bicubic),
        "gaussian_blur 23": lambda: f.gaussian_blur(image, [23, 23], [1.2, 1.2]),
        "Pillow's GaussianBlur 1.2": lambda: image.filter(ImageFilter.GaussianBlur(1.2)),
    }
    for policy in (t.RandAugment(), t.TrivialAugmentWide(), t.AutoAugment(), t.AugMix()):
        operations[type(policy).__name__] = lambda policy=policy: policy(image)
    try:
        from timm.data.auto_augment import rand_augment_transform

        made = rand_augment_transform("rand-m9-mstd0.5-inc1")
        operations["rand-m9-mstd0.5-inc1"] = lambda: made(image)
    except ImportError:
        pass
    return operations


def dali_operations() -> dict:
    """Return what DALI does on the CPU to a batch of 64 images, by the same names, and an empty pipeline, by none."""
    import numpy as np
    from nvidia.dali import fn, pipeline_def, types

    batch = [np.full((224, 224, 3), i, np.uint8) for i in range(64)]
    bodies = {
        "": lambda x: x,
        "adjust_brightness": lambda x: fn.brightness(x, brightness=1.3),
        "adjust_contrast": lambda x: fn.contrast(x, contrast=0.6),
        "adjust_saturation": lambda x: fn.saturation(x, saturation=1.4),
        "adjust_hue": lambda x: fn.hue(x, hue=36.0),
        "rgb_to_grayscale": lambda x: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.GRAY),
        "vflip": lambda x: fn.flip(x, horizontal=0, vertical=1),
        "rotate, nearest": lambda x: fn.rotate(x, angle=23.0, keep_size=True, interp_type=types.INTERP_NN, fill_value=0),
        "rotate, bilinear": lambda x: fn.rotate(x, angle=23.0, keep_size=True, fill_value=0),
        "gaussian_blur 23": lambda x: fn.gaussian_blur(x, window_size=23, sigma=1.2),
    }

    def made(body):
        @pipeline_def(batch_size=64, num_threads=1, device_id=None, exec_async=False, exec_pipelined=False)
        def pipeline():
            return body(fn.external_source(source=lambda: batch, layout="HWC"))

        pipe = pipeline()
        pipe.build()
        return pipe.run

    return {name: made(body) for name, body in bodies.items()}


def measure(kind: str) -> None:
    """Print microseconds of CPU time for an image, by operation, of one round."""
    import time

    operations = {"torchvision": torchvision_operations, "dali": dali_operations}[kind]()
    figures = {}
    for name, operation in operations.items():
        times, images = (300, 1) if name[:1].isupper() and name != "Pillow's GaussianBlur 1.2" or "-" in name else (10, 1)
        if kind == "dali":
            times, images = 3, 64
        operation()
        started = time.process_time()
        for _ in range(times):
            operation()
        figures[name] = (time.process_time() - started) / times / images * 1e6
    empty = figures.pop("", 0)
    print(json.dumps({name: figure - empty for name, figure in figures.items()}))


def go_round(binary: str, level: str, core: str) -> dict:
    """Return the same of imgfeed."""
    environment = {**os.environ, "IMGFEED_KERNELS": level, "GOMAXPROCS": "1"}
    command = ["taskset", "-c", core, binary, "-test.run", "^$", "-test.bench", "Operations", "-test.benchtime", "300x"]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    rows = (line.split("\t") for line in out.splitlines() if line.startswith("BenchmarkOperations/"))
    return {name.removeprefix("BenchmarkOperations/").strip(): float(cpu.split()[0]) / 1e3 for name, _, _, cpu in rows}


def levels() -> list[str]:
    """Return the levels of kernels that this machine runs."""
    made = subprocess.run(["go", "run", "./cmd/imgfeed", "version"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    in_use = made.partition("kernels: ")[2].split()[0]
    return ["avx2", "avx512"] if in_use == "avx512" else [in_use]


def main() -> None:
    """Take turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--core", default="0")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.measure)
        return
    least: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        binary = f"{folder}/transform.test"
        subprocess.run(["go", "test", "-c", "-o", binary, "./transform"], cwd=ROOT, check=True)
        own = levels()
        for _ in range(args.rounds):
            rounds = {level: go_round(binary, level, args.core) for level in own}
            for peer in ("torchvision", "dali"):
                command = ["taskset", "-c", args.core, args.python, "-W", "ignore", __file__, "--measure", peer]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"{peer} is left out: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                    continue
                rounds[peer] = {n.replace(" ", "_"): v for n, v in json.loads(done.stdout.splitlines()[-1]).items()}
            for contender, figures in rounds.items():
                for name, figure in figures.items():
                    known = least.setdefault(name, {})
                    known[contender] = min(known.get(contender, figure), figure)
    table(least, own)


def table(least: dict[str, dict[str, float]], own: list[str]) -> None:
    """Print what was measured, in microseconds, and by how much imgfeed is faster than Pillow."""
    print("| µs for 224 × 224 | torchvision on Pillow | DALI |", " | ".join(f"imgfeed, {level} | × Pillow" for level in own), "|")
    print("|---|--:|--:|" + "--:|--:|" * len(own))
    for name, figures in least.items():
        pillow = figures.get("torchvision")
        cells = [f"{figures[c]:.0f}" if c in figures else "–" for c in ("torchvision", "dali")]
        for level in own:
            cells += [f"{figures[level]:.1f}", f"{pillow / figures[level]:.1f}" if pillow else "–"]
        print(f"| {name.replace('_', ' ')} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
