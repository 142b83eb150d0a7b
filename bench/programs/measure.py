#!/usr/bin/env python3
"""Measure training programs with their usual loader and with imgfeed's, in one run on two cores, and print a table.

    make build published
    python3 bench/programs/measure.py IMAGES --python PYTHON --cores 0,1 > table.md

IMAGES is a folder of JPEG files, which are dealt to ten classes and packed, each --repeat times. Then, alternating, round
after round: PyTorch Lightning, Accelerate, and torchvision's reference train.py as published (of build/published, where
`make published` puts it; left out where it is not there), each with torch's DataLoader of an ImageFolder with two workers, and
with imgfeed's with two threads. All of a run's processes share the two cores. Both loaders give float32 batches of 64 that are
cropped at random to 224, flipped and normalised. The model costs next to nothing: this is how fast the loader lets a program
be, not how fast a model trains.

A figure is the median of the rounds, in images per second of clock time; a ratio the median of each round's. With the defaults it takes
five minutes, and 3 GB of room in --work. Needs a Python with torch, torchvision, lightning and accelerate.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench/peers"))
from cores import busy_seconds
from run import output, processor, say

PROGRAMS = {"lightning": "PyTorch Lightning", "accelerate": "Accelerate", "reference": "torchvision's reference"}
KINDS = ("usual", "imgfeed")
CLASSES = 10
VERSIONS = "import sys; from importlib.metadata import version as v; print(', '.join(f'{p} {v(p)}' for p in sys.argv[1:]))"
REFERENCE = "vision/references/classification"


def prepare(args: argparse.Namespace, work: Path) -> int:
    """Lay out the dataset, pack it, and put the reference beside it, as published and patched; return how many images there are."""
    files = sorted(p.resolve() for p in args.images.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg") and p.is_file())
    if len(files) < CLASSES:
        raise SystemExit(f"measure.py: {len(files)} .jpg or .jpeg files in {args.images}, want {CLASSES} at least")
    for number, path in enumerate(files * args.repeat):
        folder = work / "train" / f"class{number % CLASSES}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:07d}.jpg").symlink_to(path)
    build = [str(args.bin / "imgshard"), "build", str(work / "train"), "-o", str(work / "train-shards"), "--force-classes"]
    subprocess.run(build, stdout=sys.stderr, check=True)
    for name in ("train", "train-shards"):
        (work / name.replace("train", "val")).symlink_to(work / name)
    if (args.published / REFERENCE / "train.py").is_file():
        for kind in KINDS:
            shutil.copytree(args.published / REFERENCE, work / kind)
        patch = ROOT / "examples/torchvision/train.patch"
        subprocess.run(["git", "apply", str(patch)], cwd=work / "imgfeed", check=True)
    else:
        say(f"LEFT OUT: torchvision's reference: no {args.published / REFERENCE}; `make published` fetches it")
        del PROGRAMS["reference"]
    os.sync()
    return len(files) * args.repeat


def run(args: argparse.Namespace, work: Path, program: str, kind: str) -> float:
    """Return the images per second of one run."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore"}
    env |= {"PYTHONPATH": str(ROOT / "python"), "IMGFEED_BIN": str(args.bin / "imgfeed"), "TQDM_DISABLE": "1"}
    process = subprocess.Popen(
        [args.python, str(HERE / "train.py"), program, kind, str(work), str(args.seconds)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=(work / "log").open("wb"),
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=args.seconds + 300)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # torch's workers look for their parent every five seconds only
        except ProcessLookupError:
            pass
    if process.returncode or not out:
        raise SystemExit(f"measure.py: {program} with {kind} failed:\n{(work / 'log').read_text()[-3000:]}")
    result = json.loads(out)
    return float(result["images"] / result["seconds"])


def others(cores: list[int]) -> float:
    """Return the share of the cores that is taken while no run is under way."""
    time.sleep(0.5)  # for what the last run has left to end
    busy, begun = busy_seconds(cores), time.perf_counter()
    time.sleep(0.5)
    return (busy_seconds(cores) - busy) / (time.perf_counter() - begun) / len(cores)


def table(figures: dict[tuple[str, str], list[float]]) -> str:
    """Return the table of medians, each with the lowest and the highest round."""
    lines = ["| | its usual loader | imgfeed | ratio |", "|---|--:|--:|--:|"]
    for program, title in PROGRAMS.items():
        usual, feed = (figures[program, kind] for kind in KINDS)
        cells = (f"{statistics.median(f):,.0f} ({min(f):,.0f} to {max(f):,.0f})" for f in (usual, feed))
        ratio = statistics.median(b / a for a, b in zip(usual, feed, strict=True))
        lines.append(f"| {title} | {' | '.join(cells)} | {ratio:.2f} |")
    return "\n".join(lines)


def facts(args: argparse.Namespace, images: int, taken: list[float]) -> str:
    """Return the conditions, as lines of a list."""
    commit = output("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*") or "unknown"
    version = json.loads(output(str(args.bin / "imgfeed"), "version", "--json"))
    packages = output(args.python, "-c", VERSIONS, "torch", "torchvision", "pillow", "lightning", "accelerate")
    tag = output("git", "-C", str(args.published / "vision"), "describe", "--tags")
    busy = statistics.median(taken)
    lines = [
        f"- processor: {processor()}",
        f"- system: {platform.system()} {platform.release()}; every run on cores {args.cores}",
        f"- imgfeed: commit {commit}, {version['go']}",
        f"- Python {output(args.python, '-c', 'import platform; print(platform.python_version())')}: {packages}"
        + (f"; torchvision's reference of {tag}" if tag else ""),
        f"- {images:,} images, in the page cache; batches of 64, float32, normalised; 2 workers or 2 threads",
        f"- {args.rounds} alternating rounds of up to {args.seconds:g} s each, within an epoch and after its first batches; medians, "
        + "and the lowest and highest round",
        f"- between runs other programs took {busy:.0%} of the cores, by the median; {max(taken):.0%} at most",
    ]
    if busy > 0.1:
        lines.append("- **not to be relied on**: other programs were running")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("images", type=Path, help="folder of JPEG files")
    p.add_argument("--python", default=sys.executable, help="a Python that has the programs (default: this one)")
    p.add_argument("--bin", type=Path, default=ROOT / "bin", help="folder of imgfeed and imgshard (default: of this checkout)")
    p.add_argument("--published", type=Path, default=ROOT / "build/published", help="where `make published` put the reference")
    p.add_argument("--cores", default="0,1", help="the cores that all processes of a run share")
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--seconds", type=float, default=5, help="measured in each run, at most")
    p.add_argument("--repeat", type=int, default=24, help="how often each image is packed")
    p.add_argument("--work", type=Path, help="folder for what is packed (default: of temporary files)")
    args = p.parse_args()
    args.cores = [int(c) for c in args.cores.split(",")]
    args.bin, args.published = args.bin.resolve(), args.published.resolve()
    return args


def main() -> None:
    args = parse()
    with tempfile.TemporaryDirectory(prefix="imgfeed-programs-", dir=args.work) as folder:
        work = Path(folder)
        images = prepare(args, work)
        os.sched_setaffinity(0, args.cores)  # and so all processes from now on
        figures: dict[tuple[str, str], list[float]] = {(program, kind): [] for program in PROGRAMS for kind in KINDS}
        taken = []
        for number in range(args.rounds):
            for program in PROGRAMS:
                for kind in KINDS if number % 2 == 0 else KINDS[::-1]:
                    taken.append(others(args.cores))
                    figures[program, kind].append(run(args, work, program, kind))
                    say(f"round {number + 1}: {program} with {kind}: {figures[program, kind][-1]:,.0f} images/s")
        print(table(figures), facts(args, images, taken), sep="\n\n")


if __name__ == "__main__":
    main()
