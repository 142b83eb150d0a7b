"""``python -m imgfeed.gpu_check`` checks in two minutes the way to this machine's GPU, and prints a report for an issue.

page-locked ring      the server's memory is page-locked, so that the GPU reads it while the CPU goes on.
equal bits            batches on the GPU are those in host memory, as uint8 and normalised.
overlap               copies take no time of the computation's.
images/s              a small network trained on the loader's batches, and on a batch that is on the GPU already.

Exit status: 0 if all required checks pass, 1 if one fails, 2 without a CUDA device.
"""

import argparse
import contextlib
import importlib
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import DataLoader, ImgfeedError, __version__
from ._arguments.kinds import IMAGENET_MEAN, IMAGENET_STD
from ._server.launcher import find_binary

_RING = "page-locked ring"
_COPIES = 20  # of a batch; the mean counts
_COMPARED = 1024  # images at most
_MATRIX = 1024  # rows and columns of what is multiplied to keep the device busy
_HIDDEN_MIN = 0.5  # the share of the copies' time that must not be the computation's
_FLOAT32_MAX, _FLOAT16_MAX = 1e-6, 2.0**-8  # differences of normalised pixels that another way of rounding makes


@dataclass
class Report:
    """The findings: names and values, and of each check its name, whether it holds (None: nothing is demanded), and words."""

    facts: list[tuple[str, str]] = field(default_factory=list)
    checks: list[tuple[str, bool | None, str]] = field(default_factory=list)

    def text(self) -> str:
        """Return it as Markdown."""
        words = {True: "yes", False: "**NO**", None: "–"}
        lines = ["### imgfeed.gpu_check", "", "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in self.facts)]
        lines += ["", "| check | holds | |", "|---|---|---|"]
        return "\n".join(lines + [f"| {name} | {words[holds]} | {result} |" for name, holds, result in self.checks])


class Gpu:
    """The operations that the checks need from a device."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch = torch
        self.device = device

    def facts(self) -> list[tuple[str, str]]:
        """Return the names of GPU and driver."""
        properties = self.torch.cuda.get_device_properties(self.device)
        memory = f"{properties.total_memory / 2**30:.0f} GiB, compute capability {properties.major}.{properties.minor}"
        return [("GPU", f"{properties.name}, {memory}"), ("driver", _driver()), ("CUDA of torch", str(self.torch.version.cuda))]

    def send(self, tensor: Any) -> Any:
        """Begin the copy of a tensor or network, and return it as it will be on the device."""
        return tensor.to(self.device, non_blocking=True)

    def wait(self) -> None:
        """Wait for all that was begun there."""
        self.torch.cuda.synchronize(self.device)

    def page_locked(self, memory: Any) -> bool:
        """Return whether an array lies in page-locked memory."""
        return bool(self.torch.from_numpy(memory).is_pinned())

    def seconds(self, work: Callable[[], object], times: int = 3, duration: float = 0.0) -> float:
        """Return how long work takes: a mean of so many times, or of more within duration, until the last's end."""
        for _ in range(3):
            work()
        self.wait()
        begin, count = time.perf_counter(), 0
        while count < times or time.perf_counter() - begin < duration:
            work()
            count += 1
            if duration and count % 8 == 0:
                self.wait()  # else the CPU would run ahead by more than what is timed
        self.wait()
        return (time.perf_counter() - begin) / count


def _time(text: str) -> float:
    parts = re.fullmatch(r"(?:([\d.]+)h)?(?:([\d.]+)m)?(?:([\d.]+)s)?(?:([\d.]+)ms)?", text)
    units = zip(parts.groups(), (3600, 60, 1, 0.001), strict=True) if text and parts else ((text, 1),)
    try:
        seconds = sum(float(part) * unit for part, unit in units if part is not None)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"is {text!r}, want a time such as 30s or 30, above 0")
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks and print the report; returns the exit status."""
    about = "Check the copies to this machine's GPU, and print a report for an issue."
    parser = argparse.ArgumentParser(prog="python -m imgfeed.gpu_check", description=about)
    parser.add_argument("--device", default="cuda", help="cuda or cuda:N (default cuda)")
    parser.add_argument("--data", help="a shard set, or unix:PATH of a server (default 1,024 synthetic images)")
    parser.add_argument("--split", help="split to use, if there are several")
    parser.add_argument("--transform", default="train", help="a preset (default train)")
    parser.add_argument("--batch-size", type=int, default=128, help="images in a batch (default 128)")
    parser.add_argument("--seconds", type=_time, default=15.0, help="duration of each timed part, as 30s or 30 (default 15)")
    args = parser.parse_args(arguments)
    try:
        gpu = find(args.device)
    except (ImportError, ValueError) as e:
        print(e, file=sys.stderr)
        return 2
    report = Report()
    try:
        with contextlib.ExitStack() as stack:
            if args.data is None:
                args.data = synthetic(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="imgfeed-gpu-check-"))))
            run(gpu, args, report)
    except (ImgfeedError, ValueError, subprocess.CalledProcessError) as e:
        print(report.text() if report.facts else "", e, sep="\n", file=sys.stderr)
        return 1
    print(report.text())
    return 1 if False in [holds for _, holds, _ in report.checks] else 0


def find(device: str) -> Gpu:
    """Return the device. Raises ImportError without torch, and ValueError without such a device, with what to look at."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise ImportError("imgfeed.gpu_check: it needs torch, which is not installed") from None
    if not torch.cuda.is_available():
        built = (
            f"this torch is built for CUDA {torch.version.cuda}" if torch.version.cuda else "this torch is built without CUDA"
        )
        raise ValueError(
            f"imgfeed.gpu_check: torch {torch.__version__} finds no CUDA device, so there is nothing to check: {built}, and "
            f"the driver is {_driver()}"
        )
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ValueError(f"imgfeed.gpu_check: --device is {device!r}, want cuda or cuda:N") from None
    if found.type != "cuda" or (found.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"imgfeed.gpu_check: --device is {device!r}, and torch finds {torch.cuda.device_count()} CUDA device(s)"
        )
    return Gpu(torch, found)


def run(gpu: Gpu, args: argparse.Namespace, report: Report) -> None:
    """Check one thing after the other."""
    options = {"split": args.split, "transform": args.transform, "shuffle": True, "framework": "torch"}

    def loader(**more: Any) -> DataLoader:
        return DataLoader(args.data, args.batch_size, **{**options, **more})

    with loader(device=gpu.device) as fed:
        report.facts += facts(gpu, fed)
        copy = page_locked(gpu, fed, report)
    equal_bits(gpu, loader, report)
    with loader(device=gpu.device) as fed:
        batches = forever(fed)
        overlap(gpu, batches, copy, args.seconds, report)
        rates(gpu, fed, batches, args.seconds, report)


def facts(gpu: Gpu, loader: DataLoader) -> list[tuple[str, str]]:
    """Return the versions and the machine."""
    cpu = next(
        (line.split(":", 1)[1].strip() for line in _read("/proc/cpuinfo").splitlines() if "model name" in line), "unknown"
    )
    numpy, torch = importlib.import_module("numpy"), gpu.torch
    memory, stored = _read("/proc/meminfo").split(), loader._service.served.stored
    return [
        ("imgfeed", f"{__version__}, server {loader._service.session().server}"),
        ("Python, numpy, torch", f"{platform.python_version()}, {numpy.__version__}, {torch.__version__}"),
        *gpu.facts(),
        ("CPU", f"{cpu}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} threads, {int(memory[1]) >> 20} GiB"),
        ("system", f"{platform.system()} {platform.release()}"),
        ("data", f"{len(loader.dataset):,} images, {stored}, batches of {loader.batch_size}"),
    ]


def page_locked(gpu: Gpu, loader: DataLoader, report: Report) -> float:
    """Check the ring, and return how long the copy of a batch takes out of it, in seconds."""
    torch, session = gpu.torch, loader._service.session()
    if session.ring is None:
        report.checks.append((_RING, False, "the server has no shared memory: batches come through the socket"))
        memory = torch.empty(loader.batch_size * 224 * 224 * 3, dtype=torch.uint8).numpy()
    else:
        memory = session.ring.memory[: session.ring.slot_bytes]
    ordinary = torch.from_numpy(memory.copy())
    fast = gpu.seconds(lambda: gpu.send(torch.from_numpy(memory)), _COPIES)
    slow = gpu.seconds(lambda: gpu.send(ordinary), _COPIES)
    if session.ring is not None:
        size, rate = session.ring.memory.nbytes, f"{memory.nbytes / fast / 1e9:.1f} GB/s out of it"
        text = f"{size / 1e6:,.0f} MB; {rate}, {memory.nbytes / slow / 1e9:.1f} out of ordinary memory"
        report.checks.append((_RING, gpu.page_locked(session.ring.memory), text))
    return fast


def equal_bits(gpu: Gpu, loader: Callable[..., DataLoader], report: Report) -> None:
    """Compare batches on the device with the same in host memory, for each way to make numbers of pixels."""
    torch = gpu.torch
    with loader() as whole:
        number = min(len(whole.dataset), _COMPARED)
    ways: list[tuple[str, dict[str, Any], float]] = [
        ("uint8", {}, 0.0),
        ("normalize=, float32", {"normalize": "imagenet"}, _FLOAT32_MAX),
        ("normalize=, float16", {"normalize": "imagenet", "dtype": torch.float16}, _FLOAT16_MAX),
    ]
    with contextlib.suppress(ImportError):
        t = importlib.import_module("torchvision.transforms")
        steps = [t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.ToTensor(), t.Normalize(IMAGENET_MEAN, IMAGENET_STD)]
        ways.append(("torchvision's ToTensor and Normalize", {"transform": t.Compose(steps)}, _FLOAT32_MAX))
    for name, options, allowed in ways:
        images = largest = 0
        labels = True
        options["num_samples"] = number
        with loader(device=gpu.device, **options) as fed, loader(**options) as host:
            for got, want in zip(fed, host, strict=True):
                difference = (got[0].cpu().double() - want[0].double()).abs().max().item()
                largest, images = max(largest, difference), images + len(want[1])
                labels = labels and torch.equal(got[1].cpu(), want[1])
        bits = "equal in every bit" if largest == 0 else f"they differ by {largest:.2g} at most"
        text = f"{images:,} images, {bits}{'' if labels else '; LABELS DIFFER'}"
        report.checks.append((f"equal bits, {name}", labels and largest <= allowed, text))


def overlap(gpu: Gpu, batches: Iterator[Any], copy: float, seconds: float, report: Report) -> None:
    """Time a computation alone and with the loader's copies, at a pace that the server keeps up with."""
    alone = gpu.seconds(lambda: next(batches), duration=seconds / 3)
    matrix = gpu.send(gpu.torch.randn(_MATRIX, _MATRIX))
    times = max(1, round(max(4 * copy, 1.5 * alone) / gpu.seconds(lambda: matrix @ matrix, 10)))

    def work() -> Any:
        for _ in range(times):
            matrix @ matrix

    steps = max(3, int(seconds / 3 / gpu.seconds(work)))
    without = gpu.seconds(work, steps)
    begun = gpu.seconds(lambda: (next(batches), work()), steps)
    hidden = min(1.0, max(0.0, 1 - (begun - without) / copy))
    text = (
        f"a step of {without * 1e3:.1f} ms takes {begun * 1e3:.1f} with the loader, whose copies take {copy * 1e3:.2f}: "
        f"{hidden:.0%} of them is hidden; the loader alone gives a batch in {alone * 1e3:.1f} ms"
    )
    report.checks.append(("overlap of copies with computation", hidden >= _HIDDEN_MIN, text))


def rates(gpu: Gpu, loader: DataLoader, batches: Iterator[Any], seconds: float, report: Report) -> None:
    """Train a small network on the loader's batches, and on one that is already on the GPU."""
    torch, size = gpu.torch, loader.batch_size
    name, network = _network(torch)
    network = gpu.send(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    classes = max(2, len(loader.dataset.classes))

    def step(batch: Any) -> None:
        images, labels = batch
        with torch.autocast(gpu.device.type, torch.float16):
            loss = torch.nn.functional.cross_entropy(network(images.float().div(255)), labels % 1000)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    first = tuple(part.clone() for part in next(batches))
    synthetic_rate = size / gpu.seconds(lambda: step(first), duration=seconds)
    fed_rate = size / gpu.seconds(lambda: step(next(batches)), duration=seconds)
    text = (
        f"{fed_rate:,.0f} from the loader, {synthetic_rate:,.0f} from one batch on the GPU ({fed_rate / synthetic_rate:.0%}); "
        f"{name}, {classes} classes; the server: {loader.stats()['verdict']}"
    )
    report.checks.append(("images/s in training", None, text))


def _network(torch: Any) -> tuple[str, Any]:
    try:
        models = importlib.import_module("torchvision.models")
        return "ResNet-18, autocast to float16", models.resnet18().to(memory_format=torch.channels_last)
    except ImportError:
        nn = torch.nn
        layers = [nn.Conv2d(3, 64, 7, 4), nn.ReLU(), nn.Conv2d(64, 256, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
        return "a network of two convolutions", nn.Sequential(*layers, nn.Flatten(), nn.Linear(256, 1000))


def forever(loader: DataLoader) -> Iterator[Any]:
    """Yield the batches of one epoch after the other, whole ones only."""
    while True:
        for batch in loader:
            if len(batch[1]) == loader.batch_size:
                yield batch


def synthetic(folder: Path, of_each: int = 128) -> str:
    """Pack a small set of 8 classes with so many images each, and return its path."""
    print(f"imgfeed.gpu_check: makes {8 * of_each:,} images and packs them …", file=sys.stderr)
    for arguments in (
        ("synth", folder / "images", "--classes", "8", "--train", of_each, "--val", "0"),
        ("build", folder / "images" / "train", "-o", folder / "shards"),
    ):
        subprocess.run([find_binary("imgshard"), *map(str, arguments)], check=True, capture_output=True)
    return str(folder / "shards")


def _driver() -> str:
    """Return the version of NVIDIA's driver as the kernel tells it."""
    words = _read("/proc/driver/nvidia/version").split()
    return next((word for word in words if word[0].isdigit() and "." in word), "not loaded")


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
