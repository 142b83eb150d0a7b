"""Costs of a function of Python on each sample, and of mixtures, beside torch's DataLoader, WebDataset and LitData.

    python bench/step/run.py IMAGES SET --seconds 8 [--rounds 3]

IMAGES is a folder of class folders, SET the same packed by imgshard. The python has torch, torchvision, albumentations, webdataset
and litdata; the other formats are written to a temporary folder. Each round runs every case in a process of its own, in turns, on
two cores; figures are images/s after the first batches.
"""

import argparse
import io
import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

BATCH, WORKERS = 64, 2
FIRST = 4  # batches that are not counted
TARS = 8  # of a set, which WebDataset deals to its workers


def empty(image: Any) -> Any:
    return image


def busy(image: Any) -> Any:
    """Work in numpy for 100 µs."""
    end = time.perf_counter() + 100e-6
    while time.perf_counter() < end:
        np.add(image[:8], 1, out=image[:8])
    return image


def albumentations(*, train: bool = False) -> Callable[[Any], Any]:
    """Return the list that most recipes begin with; train: with the crop, for loaders that give whole images."""
    import albumentations as A

    crop = [A.RandomResizedCrop((224, 224))] if train else []
    policy = A.Compose(
        [
            *crop,
            A.HorizontalFlip(),
            A.RandomBrightnessContrast(),
            A.HueSaturationValue(),
            A.GaussNoise(),
        ]
    )
    return lambda image: policy(image=image)["image"]


def crops(then: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """Return what torch's DataLoader does to an image of Pillow."""
    from torchvision.transforms import v2

    steps: list[Any] = [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip()]
    if then is not None:
        steps += [np.array, then]  # a copy, which can be written
    return v2.Compose([*steps, v2.ToImage()])


def ours(data: Any, **options: Any) -> Iterable[Any]:
    from imgfeed import DataLoader

    loader = DataLoader(
        data, BATCH, transform="train", num_workers=WORKERS, drop_last=True, **options
    )
    while True:
        yield from loader


def torchs(dataset: Any) -> Iterable[Any]:
    from torch.utils.data import DataLoader

    loader = DataLoader(
        dataset,
        BATCH,
        num_workers=WORKERS,
        persistent_workers=True,
        drop_last=True,
        **shuffled(dataset),
    )
    while True:
        yield from loader


def shuffled(dataset: Any) -> dict[str, bool]:
    return {"shuffle": True} if hasattr(dataset, "__len__") else {}


def folder(
    args: argparse.Namespace, then: Callable[[Any], Any] | None
) -> Iterable[Any]:
    from torchvision.datasets import ImageFolder

    return torchs(ImageFolder(args.images, crops(then)))


def webdataset(args: argparse.Namespace) -> Iterable[Any]:
    import webdataset as wds

    def one(name: str) -> Any:
        tars = sorted(str(tar) for tar in args.other.glob(f"{name}-*.tar"))
        return wds.WebDataset(tars, shardshuffle=TARS).repeat().shuffle(1000)

    mix = wds.RandomMix([one(name) for name in "ab"], [0.7, 0.3])
    do = crops(None)
    samples = wds.DataPipeline(
        mix, wds.decode("pil"), wds.to_tuple("jpg", "cls"), wds.map_tuple(do, int)
    )
    return iter(wds.WebLoader(samples, batch_size=BATCH, num_workers=WORKERS))


def litdata(args: argparse.Namespace) -> Iterable[Any]:
    from litdata import CombinedStreamingDataset, StreamingDataLoader, StreamingDataset
    from PIL import Image

    do = crops(None)

    class Images(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            sample = super().__getitem__(index)
            return do(Image.open(io.BytesIO(sample["image"])).convert("RGB")), sample[
                "label"
            ]

    sets = [
        Images(str(args.other / name), shuffle=True, seed=1, drop_last=True)
        for name in "ab"
    ]
    both = CombinedStreamingDataset(
        sets, weights=[0.7, 0.3], seed=1, iterate_over_all=False
    )
    while True:
        yield from StreamingDataLoader(
            both, batch_size=BATCH, num_workers=WORKERS, drop_last=True
        )


CASES: dict[str, Callable[[argparse.Namespace], Iterable[Any]]] = {
    "imgfeed": lambda a: ours(a.set, shuffle=True),
    "imgfeed, an empty map": lambda a: ours(a.set, shuffle=True, map=empty),
    "imgfeed, 100 µs of numpy": lambda a: ours(a.set, shuffle=True, map=busy),
    "imgfeed, albumentations": lambda a: ours(
        a.set, shuffle=True, map=albumentations()
    ),
    "torch": lambda a: folder(a, None),
    "torch, an empty function": lambda a: folder(a, empty),
    "torch, 100 µs of numpy": lambda a: folder(a, busy),
    "torch, albumentations": lambda a: folder(a, albumentations()),
    "imgfeed, two sets mixed": lambda a: ours(
        {str(a.set): 0.7, str(a.other / "set"): 0.3}, num_samples="longest"
    ),
    "WebDataset, two sets mixed": webdataset,
    "LitData, two sets mixed": litdata,
}


def write(images: Path, out: Path) -> None:
    """Write the images twice in the other formats, and packed once more."""
    from litdata import optimize

    bin_ = Path(__file__).parents[2] / "bin" / "imgshard"
    subprocess.run(
        [bin_, "build", images, "-o", out / "set"], check=True, capture_output=True
    )
    items = [
        (path, label)
        for label, of in enumerate(sorted(images.iterdir()))
        for path in sorted(of.iterdir())
    ]
    np.random.default_rng(1).shuffle(items)
    for name in "ab":
        for part in range(TARS):
            with tarfile.open(out / f"{name}-{part}.tar", "w") as tar:
                for n, (path, label) in enumerate(items[part::TARS]):
                    for extension, data in (
                        ("jpg", Path(path).read_bytes()),
                        ("cls", str(label).encode()),
                    ):
                        member = tarfile.TarInfo(f"{n:06}.{extension}")
                        member.size = len(data)
                        tar.addfile(member, io.BytesIO(data))
        optimize(
            fn=_sample,
            inputs=[tuple(item) for item in items],
            output_dir=str(out / name),
            chunk_bytes="64MB",
            num_workers=2,
        )


def _sample(item: tuple[str, int]) -> dict[str, Any]:
    return {"image": Path(item[0]).read_bytes(), "label": int(item[1])}


def measure(args: argparse.Namespace) -> float:
    """Return the images/s of a case."""
    images, begin = 0, 0.0
    for n, batch in enumerate(CASES[args.case](args)):
        if n == FIRST:
            begin = time.perf_counter()
        elif n > FIRST:
            images += len(batch[1])
            if time.perf_counter() > begin + args.seconds:
                break
    return images / (time.perf_counter() - begin)


def main() -> None:
    """Run the cases in turns and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("images", type=Path)
    parser.add_argument("set", type=Path)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--other", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measure(args)))
        return
    with tempfile.TemporaryDirectory() as out:
        write(args.images, Path(out))
        rates: dict[str, list[float]] = {case: [] for case in CASES}
        for _ in range(args.rounds):
            for case in CASES:
                command = [
                    "taskset",
                    "-c",
                    "0,1",
                    sys.executable,
                    __file__,
                    *sys.argv[1:],
                    "--other",
                    out,
                    "--case",
                    case,
                ]
                done = subprocess.run(
                    command, check=True, capture_output=True, text=True
                )
                rates[case].append(float(done.stdout.splitlines()[-1]))
    print("| | images/s | lowest, highest |\n|---|--:|--:|")
    for case, of in rates.items():
        print(
            f"| {case} | {statistics.median(of):,.0f} | {min(of):,.0f}, {max(of):,.0f} |"
        )


if __name__ == "__main__":
    main()
