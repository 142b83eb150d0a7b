"""Trains networks on a GPU, fed by imgfeed, by torch's DataLoader, and by one batch that is on the GPU already.

    python bench/gpu/run.py IMAGES SET [SET ...] --workers 16 > table.md

IMAGES is a folder of class folders, each SET the same packed by imgshard. Each cell is the median of windows of 0.7 s, after four
batches. The python has torch and torchvision; the training is bfloat16's autocast, channels last, plain SGD.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torchvision
from imgfeed import DataLoader
from torchvision import transforms

WINDOW = 0.7  # seconds
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
STEPS = [
    transforms.RandomResizedCrop(224),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize(MEAN, STD),
]

Batches = Iterator[Any]


def one(args: argparse.Namespace) -> Batches:
    """Yield one batch again and again."""
    images = torch.randn(args.batch_size, 3, 224, 224, device=args.device)
    labels = torch.randint(0, 100, (args.batch_size,), device=args.device)
    while True:
        yield images, labels


def ours(args: argparse.Namespace, data: Path) -> Batches:
    loader = DataLoader(
        data,
        args.batch_size,
        transform="train",
        shuffle=True,
        drop_last=True,
        num_workers=args.workers,
        framework="torch",
        device=args.device,
        normalize="imagenet",
    )
    while True:
        yield from loader


def torchs(args: argparse.Namespace) -> Batches:
    loader = torch.utils.data.DataLoader(
        torchvision.datasets.ImageFolder(args.images, transforms.Compose(STEPS)),
        args.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=args.workers,
        pin_memory=args.device == "cuda",
        persistent_workers=True,
    )
    while True:
        for images, labels in loader:
            yield (
                images.to(args.device, non_blocking=True),
                labels.to(args.device, non_blocking=True),
            )


def rate(args: argparse.Namespace, arch: str, batches: Batches) -> float:
    """Return the images/s of a training."""
    last = torch.channels_last
    network = getattr(torchvision.models, arch)().to(args.device, memory_format=last)
    optimizer = torch.optim.SGD(network.parameters(), 0.01)

    def step() -> None:
        images, labels = next(batches)
        with torch.autocast(args.device, torch.bfloat16):
            output = network(images.to(memory_format=last))
            loss = torch.nn.functional.cross_entropy(output, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    def wait() -> None:
        if args.device == "cuda":
            torch.cuda.synchronize()

    for _ in range(4):
        step()
    wait()
    rates, end = [], time.monotonic() + args.seconds
    while time.monotonic() < end:
        begin, steps = time.perf_counter(), 0
        while time.perf_counter() - begin < WINDOW:
            step()
            steps += 1
            if steps % 4 == 0:
                wait()  # else the CPU runs ahead by more than a window
        wait()
        rates.append(args.batch_size * steps / (time.perf_counter() - begin))
    return statistics.median(rates)


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("images")
    p.add_argument("sets", nargs="+", type=Path)
    p.add_argument("--arch", nargs="+", default=["resnet50", "resnet18"])
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--workers", type=int, default=16)
    p.add_argument("--seconds", type=float, default=7)
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    args = p.parse_args()
    torch.backends.cudnn.benchmark = True
    cases: dict[str, Callable[[], Batches]] = {"one batch": lambda: one(args)}
    cases |= {f"imgfeed, {s.parent.name}": lambda s=s: ours(args, s) for s in args.sets}
    cases["torch's DataLoader"] = lambda: torchs(args)
    print(f"| images/s | {' | '.join(args.arch)} |\n|---|{'--:|' * len(args.arch)}")
    for name, begin in cases.items():
        cells = [f"{rate(args, arch, begin()):,.0f}" for arch in args.arch]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
