"""Measures operations beside torchvision's on Pillow and DALI's: microseconds for a 224 x 224 image on one core, in one run.

    python3 bench/operations/run.py IMAGE [--images FOLDER] [--rounds 5] [--seconds 0.2] [--core 0] > table.md

A second table has policies, by the means of their draws. With a folder of JPEG files a third table has whole transforms from stored files to
pixels, in CPU time: what policies cost beside `train` alone, and DINO's ten views beside torchvision's. All takes about five minutes.

Needs Go, torch, torchvision and Pillow; DALI and timm are measured where they are installed. The image is cut to 224 x 224 pixels. The contenders
take turns, a round each; a turn's figure is its shortest call, so that other load on the machine counts little. Cells are medians of the rounds,
and ratios medians of each round's ratio. imgfeed's time is what the operation adds to a transform (bench/operations/main.go),
torchvision's that of a call on an image of Pillow, DALI's what it adds to a pipeline of batches (bench/operations/dali.py).
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image, ImageFilter
from torchvision.transforms import InterpolationMode, autoaugment, transforms
from torchvision.transforms import functional as F

try:
    import dali
except ImportError as error:
    dali = None
    print(f"DALI is left out: {error}", file=sys.stderr)

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
    every = {"brightness": (1.3, 1.3), "contrast": (1.3, 1.3), "saturation": (1.3, 1.3), "hue": (0.1, 0.1)}
    own = {"op": "ColorJitter", **{part: list(span) for part, span in every.items()}}
    listed.append(("color jitter, all four", own, jitter(**every)))
    return listed


def policies() -> list[Operation]:
    """The same of policies, whose draws are left to chance."""
    listed: list[Operation] = [
        ("AutoAugment", {"op": "AutoAugment"}, autoaugment.AutoAugment()),
        ("RandAugment(2, 9)", {"op": "RandAugment"}, autoaugment.RandAugment(2, 9)),
        ("TrivialAugmentWide", {"op": "TrivialAugmentWide"}, autoaugment.TrivialAugmentWide()),
        ("AugMix", {"op": "AugMix"}, autoaugment.AugMix()),
    ]
    try:
        from timm.data.auto_augment import rand_augment_transform
    except ImportError:
        return listed
    config = "rand-m9-mstd0.5-inc1"
    return [*listed, (f"timm's {config}", {"op": "TimmAugment", "config": config}, rand_augment_transform(config, {}))]


def shortest(call: Callable[[Any], Any], image: Any, seconds: float) -> float:
    """Return the shortest time of a call, in microseconds."""
    least, began = float("inf"), time.perf_counter()
    while time.perf_counter() - began < seconds:
        started = time.perf_counter()
        call(image)
        least = min(least, time.perf_counter() - started)
    return least * 1e6


def mean(call: Callable[[Any], Any], image: Any, seconds: float) -> float:
    """Return the mean of calls, in microseconds of CPU time."""
    calls, started, began = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - began < seconds:
        call(image)
        calls += 1
    return (time.process_time() - started) * 1e6 / calls


class Engine:
    """imgfeed's side of the measurement (main.go), which answers one question at a time."""

    def __init__(self, folder: Path, image: Image.Image, images: Path | None) -> None:
        pixels, program = folder / "pixels", folder / "operations"
        pixels.write_bytes(image.tobytes())
        self.toolchain = next(line.split()[1] for line in (ROOT / "go.mod").read_text().splitlines() if line.startswith("toolchain"))
        environment = {**os.environ, "CGO_ENABLED": "0", "GOEXPERIMENT": "simd", "GOTOOLCHAIN": self.toolchain}
        subprocess.run(["go", "build", "-o", program, "./bench/operations"], cwd=ROOT, env=environment, check=True)
        arguments = [program, pixels, *([images] if images else [])]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **question: Any) -> Any:
        """Return the answer: the microseconds of each transform."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def ratio(theirs: list[float], ours: list[float]) -> str:
    """The median of each round's ratio."""
    return f"{statistics.median(a / b for a, b in zip(theirs, ours, strict=True)):.1f}"


class Table:
    """A table of operations or policies: torchvision, DALI where it is installed, imgfeed's levels with their ratios."""

    def __init__(self, title: str, levels: list[str]) -> None:
        self.levels = levels
        peers = ["torchvision", *(["DALI"] if dali else [])]
        own = [column for level in levels for column in (f"imgfeed, {level}", *(f"× {peer}" for peer in peers))]
        print(f"\n| {' | '.join([title, *peers, *own, *(['what DALI gives'] if dali else [])])} |")
        print("|---|" + "--:|" * (len(peers) + len(own)) + ("---|" if dali else ""))

    def row(self, name: str, rounds: dict[str, list[float]], given: str) -> None:
        """Print the medians of what each took in each round."""
        cells = [f"{statistics.median(rounds['torchvision']):,.0f}"]
        if dali:
            cells.append(f"{statistics.median(rounds['dali']):,.1f}" if "dali" in rounds else "–")
        for level in self.levels:
            cells += [f"{statistics.median(rounds[level]):,.1f}", ratio(rounds["torchvision"], rounds[level])]
            if dali:
                cells.append(ratio(rounds["dali"], rounds[level]) if "dali" in rounds else "–")
        print(f"| {' | '.join([name, *cells, *([given] if dali else [])])} |", flush=True)


def cropped(*lists: list[dict[str, Any]]) -> list[str]:
    """Return transforms of CenterCrop(224), which copies the image, and further operations."""
    return [json.dumps([{"op": "CenterCrop", "size": 224}, *ops]) for ops in lists]


def measure_operations(engine: Engine, image: Image.Image, batches: Any, options: argparse.Namespace) -> None:
    """Print the table of operations."""
    table, theirs = Table("µs an image", options.levels), dali.operations() if dali else {}
    listed = operations()
    assert theirs.keys() <= {name for name, _, _ in listed}
    for name, own, call in listed:
        pipeline, given = None, "–"
        if name in theirs:
            body, why = theirs[name]
            pipeline = batches.build(body)
            given = dali.difference(pipeline, np.asarray(call(image)), why)
        rounds: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            rounds.setdefault("torchvision", []).append(shortest(call, image, options.seconds))
            if pipeline:
                rounds.setdefault("dali", []).append(batches.shortest(pipeline, options.seconds))
            for level in options.levels:
                alone, both = engine.ask(level=level, transforms=cropped([], [own]), draws=1, seconds=options.seconds)
                rounds.setdefault(level, []).append(both - alone)
        table.row(name, rounds, given)


def measure_policies(engine: Engine, image: Image.Image, batches: Any, options: argparse.Namespace) -> None:
    """Print the table of policies."""
    table, theirs = Table("µs an image, mean of draws", options.levels), dali.policies() if dali else {}
    pipelines = {name: batches.build(body, choosing=True) for name, (body, _) in theirs.items()}
    listed = policies()
    rounds: dict[str, dict[str, list[float]]] = {}
    texts = cropped([], *([own] for _, own, _ in listed))
    for _ in range(options.rounds):
        for name, _, call in listed:
            of = rounds.setdefault(name, {})
            of.setdefault("torchvision", []).append(mean(call, image, 3 * options.seconds))
            if name in pipelines:
                of.setdefault("dali", []).append(batches.mean(pipelines[name], 3 * options.seconds))
        for level in options.levels:
            alone, *took = engine.ask(level=level, transforms=texts, draws=1000, seconds=0)
            for (name, _, _), spent in zip(listed, took, strict=True):
                rounds[name].setdefault(level, []).append(spent - alone)
    for name, of in rounds.items():
        table.row(name, of, theirs[name][1] if name in theirs else "–")


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


def measure_pipelines(engine: Engine, options: argparse.Namespace) -> None:
    """Print what whole transforms take, imgfeed's levels and torchvision in turns."""
    levels = options.levels
    files = [path.read_bytes() for path in sorted(options.images.iterdir()) if path.suffix.lower() in (".jpg", ".jpeg", ".jpe")][:100]
    theirs, ours = {name: [] for name in PIPELINES}, {level: {name: [] for name in PIPELINES} for level in levels}
    for _ in range(options.rounds):
        for level in levels:
            spent = engine.ask(level=level, transforms=list(PIPELINES.values()), seconds=10 * options.seconds)
            for name, figure in zip(PIPELINES, spent, strict=True):
                ours[level][name].append(figure)
        for name in PIPELINES:
            theirs[name].append(decoded(files, published(name)))
    print(f"\n| µs an image | torchvision | {' | '.join(f'imgfeed, {level} | × torchvision | speed over train' for level in levels)} |")
    print("|---|--:|" + "--:|--:|--:|" * len(levels))
    for name in PIPELINES:
        cells = [f"{statistics.median(theirs[name]):,.0f}"]
        for level in levels:
            pairs = zip(ours[level]["`train`"], ours[level][name], strict=True)
            share = f"{statistics.median(train / policy for train, policy in pairs):.2f}" if "Augment" in name else "–"
            cells += [f"{statistics.median(ours[level][name]):,.0f}", ratio(theirs[name], ours[level][name]), share]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image", type=Path)
    parser.add_argument("--images", type=Path, help="a folder of JPEG files: measure whole transforms on the first hundred, too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a round's turn")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--levels", type=lambda text: text.split(","), default="avx2,avx512", help="kernels of imgfeed, at commas")
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    torch.set_num_threads(1)
    image = transforms.CenterCrop(224)(transforms.Resize(224)(Image.open(options.image).convert("RGB")))
    image.load()
    batches = dali.Pipelines(np.asarray(image)) if dali else None
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(Path(folder), image, options.images)
        measure_operations(engine, image, batches, options)
        measure_policies(engine, image, batches, options)
        if options.images:
            measure_pipelines(engine, options)
        engine.close()
    print(f"\n- torchvision {torchvision.__version__} on Pillow {PIL.__version__}, torch {torch.__version__} with one thread")
    if batches:
        alone, copying = batches.alone_and_copying(options.seconds)
        print(f"- {dali.version()} on the CPU with one thread: batches of {dali.BATCH} from memory, not copied, and by CPU time")
        print(f"- subtracted from DALI's figures: {alone:.1f} µs an image, the time of a pipeline that hands on shapes only")
        print(f"- a pipeline of DALI without any operation adds {copying:.1f} µs to that, because it copies the batch out; one with an operation does not")
        print("- DALI takes a batch through an operation, and its images have left the nearer caches; imgfeed takes an image through all operations")
    print(f"- {options.rounds} rounds of {options.seconds} s in turns, the shortest call of each; medians of the rounds and of their ratios; on core {options.core}")
    print("- policies: means over draws, by CPU time")
    if options.images:
        print("- whole transforms: the first 100 JPEG files from memory, by CPU time, a pass over them a round")
    print(f"- Python {sys.version.split()[0]}, {engine.toolchain}")


if __name__ == "__main__":
    main()
