"""Images a second and core with boxes and masks, beside torchvision.transforms.v2 on Pillow.

    python bench/targets/run.py IMAGES [--imgfeed bin/imgfeed] [--core 0] [--seconds 4] [--rounds 5]

IMAGES is a folder of JPEG files. They get made boxes, as many and as large as COCO's, and made masks with as many runs a row as
ADE20K's. imgshard packs them as a COCO folder and as pairs of folders. The python has torch and torchvision.

Each round runs every case in a process of its own, in turns, on the same core: torchvision's list on files in the page cache, in
a loop without workers, and imgfeed's DataLoader with one worker, whose server shares the core. Figures are medians of images per
second of CPU time, of all processes of a case; ratios are medians of each round's ratio to torchvision.
"""

import argparse
import importlib.metadata
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
BATCH = 16
LISTS = {"detection": "coco", "lsj1024": "coco", "segmentation": "ade"}  # presets, with their data
ENCODINGS = ("original", "coefficients")


def make(images: Path, out: Path, imgshard: str) -> None:
    """Write the two datasets, and pack each in both encodings."""
    files = sorted(p for p in images.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    rng, coco = np.random.default_rng(0), {"images": [], "annotations": [], "categories": [{"id": 1 + i, "name": f"c{i}"} for i in range(80)]}
    for folder in ("coco/train", "coco/annotations", "ade/images/train", "ade/annotations/train"):
        (out / folder).mkdir(parents=True)
    for n, path in enumerate(files):
        with Image.open(path) as image:
            w, h = image.size
        coco["images"].append({"id": n, "file_name": f"{n:06}.jpg", "width": w, "height": h})
        boxes = int(rng.integers(0, 15))
        middle, sides = rng.uniform(0, 1, (boxes, 2)), np.exp(rng.uniform(np.log(0.02), np.log(0.8), (boxes, 2)))
        low, high = np.maximum(middle - sides / 2, 0) * [w, h], np.minimum(middle + sides / 2, 1) * [w, h]
        for xy, size in zip(low.round(2).tolist(), (high - low).round(2).tolist(), strict=True):
            one = {"image_id": n, "category_id": int(rng.integers(1, 81)), "bbox": xy + size, "area": size[0] * size[1], "iscrowd": 0}
            coco["annotations"].append({"id": len(coco["annotations"]), **one})
        mask = Image.new("L", (w, h))
        for _ in range(20):
            (x, y), (dx, dy) = rng.uniform(0, 1, 2) * [w, h], rng.uniform(0.02, 0.4, 2) * [w, h]
            ImageDraw.Draw(mask).ellipse((x - dx, y - dy, x + dx, y + dy), int(rng.integers(0, 151)))
        mask.save(out / f"ade/annotations/train/{n:06}.png")
        for to in (out / "coco/train", out / "ade/images/train"):
            (to / f"{n:06}.jpg").symlink_to(path.resolve())
    (out / "coco/annotations/instances_train.json").write_text(json.dumps(coco))
    for data, source in (("coco", "coco/annotations/instances_train.json"), ("ade", "ade")):
        packed = out / f"{data}-original"
        subprocess.run([imgshard, "build", out / source, "-o", packed, "--split", "train"], check=True, stdout=sys.stderr)
        repack = [imgshard, "repack", packed, "-o", out / f"{data}-coefficients", "--encoding", "coefficients"]
        subprocess.run(repack, check=True, stdout=sys.stderr)


def torchvisions(data: Path, preset: str) -> Iterator[int]:
    """Do a list as a dataset of torchvision does, image by image."""
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    class FixedSizeCrop(v2.Transform):
        """That of references/detection, in terms of v2."""

        def __init__(self, size: int, fill: Any) -> None:
            super().__init__()
            self.size, self.fill = size, v2._utils._setup_fill_arg(fill)

        def make_params(self, flat: list[Any]) -> dict[str, Any]:
            h, w = v2._utils.query_size(flat)
            new_h, new_w, at = min(h, self.size), min(w, self.size), float(torch.rand(1))
            return {"crop": [int((h - new_h) * at), int((w - new_w) * at), new_h, new_w], "pad": [0, 0, self.size - new_w, self.size - new_h]}

        def transform(self, value: Any, params: dict[str, Any]) -> Any:
            value = self._call_kernel(v2.functional.crop, value, *params["crop"])
            return self._call_kernel(v2.functional.pad, value, params["pad"], fill=v2._utils._get_fill(self.fill, type(value)))

    torch.set_num_threads(1)
    fill = {Image.Image: (123, 117, 104), tv_tensors.Mask: 255, "others": 0}
    lists: dict[str, list[Any]] = {
        "detection": [v2.RandomPhotometricDistort(p=0.5), v2.RandomZoomOut(fill=0), v2.RandomApply([v2.RandomIoUCrop()], 0.8),
                      v2.SanitizeBoundingBoxes(min_size=1), v2.RandomHorizontalFlip(), v2.Resize((640, 640)), v2.SanitizeBoundingBoxes(min_size=1)],
        "lsj1024": [v2.ScaleJitter((1024, 1024)), FixedSizeCrop(1024, fill), v2.RandomHorizontalFlip(), v2.SanitizeBoundingBoxes()],
        "segmentation": [v2.RandomResize(260, 1040), v2.RandomHorizontalFlip(),
                         v2.RandomCrop(480, pad_if_needed=True, fill={tv_tensors.Mask: 255, "others": 0})],
    }  # fmt: skip
    transform = v2.Compose([*lists[preset], v2.PILToTensor()])
    masked = LISTS[preset] == "ade"
    coco = json.loads((data / "coco/annotations/instances_train.json").read_text())
    objects: dict[int, list[Any]] = {}
    for one in coco["annotations"]:
        x, y, w, h = one["bbox"]
        objects.setdefault(one["image_id"], []).append(([x, y, x + w, y + h], one["category_id"]))
    rng = np.random.default_rng(0)
    while True:
        for n in rng.permutation(len(coco["images"])):
            image = Image.open(data / f"coco/train/{n:06}.jpg").convert("RGB")
            if masked:
                labels = Image.open(data / f"ade/annotations/train/{n:06}.png")
                transform(image, tv_tensors.Mask(torch.from_numpy(np.array(labels))))
            else:
                of = objects.get(n, [])
                boxes = torch.tensor([box for box, _ in of], dtype=torch.float32).reshape(-1, 4)
                boxes = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(image.height, image.width))
                transform(image, {"boxes": boxes, "labels": torch.tensor([label for _, label in of], dtype=torch.int64)})
            yield 1


def ours(data: Path, preset: str, encoding: str) -> Iterator[int]:
    from imgfeed import DataLoader

    kind = LISTS[preset]
    boxes = "xyxy" if kind == "coco" else None
    loader = DataLoader(data / f"{kind}-{encoding}", BATCH, shuffle=True, transform=preset, boxes=boxes, num_workers=1, drop_last=True)
    while True:
        for batch in loader:
            yield len(batch[1])


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it has started, and these."""
    ticks, queue = 0, [os.getpid()]
    while queue:
        process = Path(f"/proc/{queue.pop()}")
        ticks += sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:13]))
        queue += [int(child) for of in process.glob("task/*/children") for child in of.read_text().split()]
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(images: Iterator[int], seconds: float) -> float:
    """Return the images per second of CPU time, after a quarter of the time to warm up."""
    next(images)  # imports, and starts a server
    end = time.perf_counter() + seconds / 4
    while time.perf_counter() < end:
        next(images)
    begin, count = cpu_seconds(), 0
    while time.perf_counter() < end + seconds:
        count += next(images)
    return count / (cpu_seconds() - begin)


def cases(data: Path) -> dict[str, dict[str, tuple[dict[str, str], Callable[[], Iterator[int]]]]]:
    """Return each list's cases by name: their environment, and what to measure; torchvision's first."""
    levels = ("avx512", "avx2") if "avx512" in Path("/proc/cpuinfo").read_text() else ("avx2",)
    return {
        preset: {"torchvision": ({}, lambda p=preset: torchvisions(data, p))}
        | {
            f"{encoding}, {level}": ({"IMGFEED_KERNELS": level}, lambda p=preset, e=encoding: ours(data, p, e))
            for encoding, level in itertools.product(ENCODINGS, levels)
        }
        for preset in LISTS
    }


def processor() -> str:
    facts = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    facts = {key.strip(): value.strip() for key, value in facts.items()}
    return f"{facts['model name']}, family {facts['cpu family']}, model {facts['model']}"


def main() -> None:
    """Run the cases in turns and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--imgfeed", type=Path, default=ROOT / "bin/imgfeed", help="the program, beside its imgshard")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lists", nargs="+", choices=LISTS, default=list(LISTS))
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:  # images is the folder of the made data
        print(measure(cases(args.images)[args.case[0]][args.case[1]][1](), args.seconds))
        return
    os.sched_setaffinity(0, {args.core})
    with tempfile.TemporaryDirectory() as out:
        make(args.images, Path(out), str(args.imgfeed.parent / "imgshard"))
        table = {preset: of for preset, of in cases(Path(out)).items() if preset in args.lists}
        rates: dict[tuple[str, str], list[float]] = {}
        for _ in range(args.rounds):
            for preset, of in table.items():
                for case, (env, _) in of.items():
                    command = [sys.executable, __file__, out, "--seconds", str(args.seconds), "--case", preset, case]
                    env = {**os.environ, "IMGFEED_BIN": str(args.imgfeed.resolve()), **env}
                    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
                    rates.setdefault((preset, case), []).append(float(done.stdout.splitlines()[-1]))
    print("| list | | images/s | × torchvision |\n|---|---|--:|--:|")
    for (preset, case), of in rates.items():
        ratio = statistics.median(a / b for a, b in zip(of, rates[preset, "torchvision"], strict=True))
        print(f"| `{preset}` | {case} | {statistics.median(of):,.0f} | {'' if case == 'torchvision' else f'{ratio:.1f}'} |")
    print(f"\n{processor()}; torchvision {importlib.metadata.version('torchvision')}, Pillow {importlib.metadata.version('pillow')}; {args.rounds} rounds of {args.seconds:g} s")


if __name__ == "__main__":
    main()
