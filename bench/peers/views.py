#!/usr/bin/env python3
"""Measure presets of several views beside torchvision on Pillow, in one run, on one core, on the same JPEG files; print a table.

    python3 bench/peers/views.py IMAGES --python PYTHON > table.md

Alternating, round after round: `imgfeed bench --threads 1`, which reads, checks, decodes and writes all views of a batch, and
the views as their authors' programs make them of a file in memory, uint8 and without a batch. Figures are samples (not views)
per second of CPU time, medians of the rounds; the ratio is the median of each round's. PYTHON has torch and torchvision.
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import arguments, output, pack, processor, programs, resampler, say

PRESETS = ("simclr", "moco-v3", "dino", "dinov2")


def published(preset: str) -> list:
    """Return the views of a preset as torchvision's transforms on images of Pillow."""
    import random

    from PIL import ImageFilter
    from torchvision import transforms as t

    def pil_blur(p: float) -> t.Lambda:  # of MoCo and DINO
        blur = lambda image: image.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2)))
        return t.RandomApply([t.Lambda(blur)], p)

    def blur(kernel: int, p: float) -> t.RandomApply:
        return t.RandomApply([t.GaussianBlur(kernel, (0.1, 2))], p)

    bicubic = t.InterpolationMode.BICUBIC
    soft = [t.RandomApply([t.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8), t.RandomGrayscale(0.2)]
    solarize, flip = t.RandomSolarize(128, 0.2), t.RandomHorizontalFlip()
    if preset == "simclr":
        strong = [t.RandomApply([t.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8), t.RandomGrayscale(0.2)]
        return [t.Compose([t.RandomResizedCrop(224), flip, *strong, blur(23, 0.5)])] * 2
    if preset == "moco-v3":
        crop = t.RandomResizedCrop(224)
        return [t.Compose([crop, *soft, pil_blur(1), flip]), t.Compose([crop, *soft, pil_blur(0.1), solarize, flip])]
    low, high, of = (0.4, 0.4, pil_blur) if preset == "dino" else (0.32, 0.32, lambda p: blur(9, p))
    crop = t.RandomResizedCrop(224, (low, 1), interpolation=bicubic)
    local = t.RandomResizedCrop(96, (0.05, high), interpolation=bicubic)
    return [
        t.Compose([crop, flip, *soft, of(1)]),
        t.Compose([crop, flip, *soft, of(0.1), solarize]),
        *[t.Compose([local, flip, *soft, of(0.5)])] * 8,
    ]


def serve_torchvision(preset: str, folder: str, seconds: float) -> None:
    """Make views for a while, and print how many samples a second of CPU time they were made of."""
    import numpy as np
    import torch
    from PIL import Image

    torch.set_num_threads(1)
    files = [path.read_bytes() for path in sorted(Path(folder).iterdir())]
    views = published(preset)
    done, begin = 0, time.process_time()
    while time.process_time() - begin < seconds:
        image = Image.open(io.BytesIO(files[done % len(files)])).convert("RGB")
        for view in views:
            np.asarray(view(image)).sum()
        done += 1
    print(done / (time.process_time() - begin))


def main() -> None:
    p = arguments(__doc__)
    p.add_argument("--presets", nargs="+", default=PRESETS, choices=PRESETS)
    p.add_argument("--seconds", type=float, default=3, help="measured in each cell of each round")
    p.add_argument("--core", type=int, default=0)
    p.add_argument("--python", default=sys.executable, help="a Python that has torchvision (default: this one)")
    p.add_argument("--serve", choices=PRESETS, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.serve:
        serve_torchvision(args.serve, str(args.images), args.seconds)
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        data, files = pack(args.images, work, programs(args, work))
        pinned = ["taskset", "-c", str(args.core)]
        print("| samples per second per core | torchvision on Pillow | imgfeed | × |\n|---|--:|--:|--:|")
        kernels = ""
        for preset in args.presets:
            figures = []
            for n in range(args.rounds):
                theirs = float(
                    subprocess.check_output(
                        [*pinned, args.python, __file__, str(files[0].parent), "--serve", preset, "--seconds", str(args.seconds)]
                    )
                )
                command = ["bench", str(data), "--transform", preset, "--resampler", resampler(args.python), "--threads", "1"]
                bench = [*pinned, str(args.imgfeed), *command, "--batch-size", "64", "--seconds", str(args.seconds), "--json"]
                ours = json.loads(subprocess.check_output(bench))
                figures.append((theirs, ours["images_per_cpu_second"]))
                kernels = ours["kernels"]
                say(f"{preset}, round {n}: {figures[-1]}")
            median = [statistics.median(column) for column in zip(*figures, strict=True)]
            ratio = statistics.median(b / a for a, b in figures)
            print(f"| {preset} | {median[0]:,.1f} | {median[1]:,.0f} | {ratio:.1f} |")
        versions = "import torchvision, PIL; print('torchvision', torchvision.__version__, 'on Pillow', PIL.__version__)"
        print(f"\n- processor: {processor()}\n- imgfeed: kernels {kernels}; {output(args.python, '-c', versions)}")
        print(f"- images: {len(files)} JPEG files; {args.rounds} alternating rounds of {args.seconds:g} s of CPU time")
        print(f"- load of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
