"""Compare imgfeed's results for a dataset with torchvision's, bit by bit: on Pillow images, or on tensors if
the transform makes tensors.

    python -m imgfeed.check /data/train-shards --transform train --samples 200

It repeats an epoch's first samples with torchvision, and prints how many are identical; the exit status is 1 if one is not.
Images that torchvision blurs in float32 may differ by one level in less than a thousandth of the values.
Boxes and masks are compared with torchvision.transforms.v2.
If torchcodec is installed, it also counts the files that torchcodec decodes to the pixels of Pillow.
"""

import argparse
import importlib
import importlib.metadata
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ._arguments.arguments import Options
from ._arguments.torchsets import ORIENTATION
from ._server.targets import TargetFields, target_fields
from .errors import ImgfeedError
from .loader import DataLoader
from .replay import reference

_INTERRUPTED = 130  # the exit status of Ctrl-C, as in a shell
_NAMED = 5  # differing samples in the report
#: The share of a view's values that torchvision's own blur may round to the next level, and of a mapped mask's labels.
_ROUNDED = 1e-3
_MAPPED = 1e-4  # pixels by which boxes may differ after a rotation or an affine map: see docs/targets.md


@dataclass
class Report:
    """The result of a comparison. A difference has the sample's index, the share of differing values, the largest difference,
    and the record; rounded has those of torchvision's blurs. decoded says for each file why torchcodec's pixels differ, targets
    how boxes and masks do, and tensors whether torchvision's work ended on tensors.
    """

    compared: int = 0
    differ: list[tuple[int, float, int, list[dict[str, Any]]]] = field(default_factory=list)
    rounded: list[tuple[int, float, int, list[dict[str, Any]]]] = field(default_factory=list)
    decoded: dict[int, str] | None = None
    tensors: bool = False
    targets: list[tuple[int, str, list[dict[str, Any]]]] = field(default_factory=list)


def check(loader: DataLoader, samples: int = 200, epoch: int = 0, report: Report | None = None) -> Report:
    """Compare the first samples of an epoch of a loader, in all their views, with torchvision's results for their records.

    The loader must give numpy arrays and indices (``framework="numpy", with_index=True``) and not repeat samples. Of a set that
    keeps no files, the stored images are the originals. Pass a report of your own to read it after Ctrl-C.
    """
    report = Report() if report is None else report
    pil, keeps_files = importlib.import_module("PIL.Image"), loader._service.served.keeps_files
    torchcodec = _torchcodec() if keeps_files else None
    report.decoded = {} if torchcodec else None
    loader.set_epoch(epoch)
    follow = target_fields(loader._service.served, loader._options)
    for images, targets, indices, *_ in loader:
        count = min(len(indices), samples - report.compared)
        originals, decoded = {}, {}
        for index in indices[:count].tolist():
            if not keeps_files:
                originals[index] = loader.dataset[index][0]
                continue
            file = loader.dataset.file(index)
            originals[index] = pil.open(io.BytesIO(file)).convert("RGB")
            if torchcodec and (why := _apart(torchcodec, file, originals[index])):
                decoded[index] = why
        for number, view in enumerate(images if isinstance(images, list) else [images]):
            records = loader.records(indices[:count], epoch, view=number)
            for image, target, index, record in zip(view, targets, indices.tolist(), records, strict=False):
                if follow is None:
                    want = np.asarray(reference(originals[index], record))
                else:
                    want, moved = reference(originals[index], record, _stored(loader, follow, index))
                    if why := _moved_apart(loader._options, target, moved, record):
                        report.targets.append((index, why, record))
                    want = np.asarray(want)
                _compare(report, index, image, want, record)
        report.compared += count
        if report.decoded is not None:
            report.decoded.update(decoded)
        if report.compared >= samples:
            break
    return report


def _compare(report: Report, index: int, image: Any, want: Any, record: list[dict[str, Any]]) -> None:
    """Add what differs between a delivered image and torchvision's to a report."""
    if any(call["op"] == "to_image" for call in record):
        report.tensors, want = True, want.transpose(1, 2, 0)
    got = image if image.shape == want.shape else image.transpose(1, 2, 0)
    if np.array_equal(got, want):
        return
    apart = np.abs(got.astype(int) - want)
    share, most = float((apart > 0).mean()), int(apart.max())
    rounding = most == 1 and share < _ROUNDED and any(call["op"] == "gaussian_blur" for call in record)
    (report.rounded if rounding else report.differ).append((index, share, most, record))


def _stored(loader: DataLoader, follow: TargetFields, index: int) -> dict[str, Any]:
    """Return boxes and mask of a sample as they are stored."""
    values = loader.dataset.get(index)
    made = {} if follow.objects is None else dict(values[follow.objects])
    return made if follow.mask is None else {**made, "mask": values[follow.mask]}


def _moved_apart(options: Options, got: Any, want: dict[str, Any], record: list[dict[str, Any]]) -> str:
    """Say how a delivered target differs from torchvision's; "" if only a rotation or an affine map rounds otherwise."""
    mapped, said = any(call["op"] in ("rotate", "affine") for call in record), []
    if "boxes" in want:
        functional = importlib.import_module("torchvision.transforms.v2.functional")
        made = functional.convert_bounding_box_format(want["boxes"], new_format=str(options.boxes).upper())
        boxes, (height, width) = np.asarray(made), made.canvas_size
        if options.boxes_unit == "fraction":
            boxes = boxes / np.array([width, height] * 2, np.float32)
        names = [name for name in want if name not in ("boxes", "mask") and not np.array_equal(got[name], want[name])]
        if names or got["boxes"].shape != boxes.shape:
            said.append(
                f"{len(got['boxes'])} boxes, {len(boxes)} are torchvision's" if not names else f"other {', '.join(names)}"
            )
        elif (most := float(np.abs(got["boxes"] - boxes).max(initial=0))) > (_MAPPED if mapped else 0):
            said.append(f"boxes differ by up to {most:g}")
    if "mask" in want:
        mask, labels = (got["mask"] if isinstance(got, dict) else got), np.asarray(want["mask"])
        if mask.shape != labels.shape or (mask != labels).mean() > (_ROUNDED if mapped else 0):
            said.append(f"{(mask != labels).mean():.4%} of the mask differ")
    return ", ".join(said)


def _torchcodec() -> Callable[..., Any] | None:
    """Return torchcodec's decoder of images, which it has from 0.16 on; or None."""
    try:
        decode: Callable[..., Any] = importlib.import_module("torchcodec.decoders").decode_image
    except (ImportError, AttributeError, OSError, RuntimeError):  # the latter two where a library of its own is missing
        return None
    return decode


def _apart(torchcodec: Callable[..., Any], file: bytes, image: Any) -> str:
    """Say how torchcodec's pixels of a file differ from the image that Pillow made of it; "" if they don't."""
    try:
        pixels = torchcodec(file, mode="RGB").numpy()
    except (ValueError, RuntimeError) as e:
        return f"torchcodec refuses it: {e}"
    first = pixels[0] if pixels.ndim == 4 else pixels  # of an animation
    if np.array_equal(first.transpose(1, 2, 0), np.asarray(image)):
        return ""
    turned = image.getexif().get(ORIENTATION, 1) != 1
    return "torchcodec turns it as its EXIF orientation says" if turned else "torchcodec gives other pixels"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(
        prog="python -m imgfeed.check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", metavar="DATA", help="a shard set, a folder of several, or unix:PATH of a running server")
    forms = 'a preset\'s name, a JSON list of operations, or {"views": […]} (default train)'
    parser.add_argument("--transform", default="train", help=forms)
    parser.add_argument("--samples", type=int, default=200, help="number of samples to compare (default 200)")
    parser.add_argument("--split", help="split to compare, if there are several")
    parser.add_argument("--epoch", type=int, default=0, help="epoch of the order and draws (default 0)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the order and draws (default 0)")
    parser.add_argument("--resampler", help="pillow-13 or pillow-12 (default that of the installed Pillow)")
    args = parser.parse_args(arguments)
    if args.samples < 1:
        parser.error(f"--samples is {args.samples}, want 1 or more")
    report = Report()
    try:
        importlib.import_module("torchvision")
        pillow = importlib.metadata.version("pillow")
        resampler = args.resampler or ("pillow-13" if int(pillow.partition(".")[0]) >= 13 else "pillow-12")
        options: dict[str, Any] = {"shuffle": True, "seed": args.seed, "framework": "numpy", "with_index": True}
        options |= {"split": args.split, "boxes": _boxes(args.data, args.split), "resampler": resampler, "rank": 0, "world": 1}
        with DataLoader(args.data, min(args.samples, 16), transform=_transform(args.transform), **options) as loader:
            stopped = False
            try:
                check(loader, args.samples, args.epoch, report)
            except KeyboardInterrupt:
                stopped = True
            _tell(report, loader, f"torchvision {importlib.metadata.version('torchvision')} on {_road(report, pillow)}")
    except (ImgfeedError, ValueError) as e:
        sys.exit(str(e).replace("with split=", "with --split"))
    except ModuleNotFoundError as e:
        sys.exit(f"imgfeed: the comparison needs {e.name}, which is not installed")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    sys.exit(_INTERRUPTED if stopped else 1 if report.differ or report.targets else 0)


def _boxes(data: str, split: str | None) -> Literal["xyxy"] | None:
    """Return a value for boxes= if the set has objects. Ends the program if torchvision is too old for boxes and masks."""
    with DataLoader(data, split=split, framework="numpy", rank=0, world=1) as loader:
        kinds = loader.dataset.fields.values()
    if "objects" not in kinds and "mask" not in kinds:
        return None
    try:
        importlib.import_module("torchvision.tv_tensors")
    except ImportError:
        sys.exit("imgfeed: boxes and masks are compared with torchvision.transforms.v2: install torchvision 0.16 or later")
    return "xyxy" if "objects" in kinds else None


def _transform(text: str) -> Any:
    """Return the value of --transform: a list or an object in JSON, or a name. Raises ValueError for invalid JSON."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError as e:
        said = f"{e.msg} (names stand in double quotes)"
        raise ValueError(f"imgfeed: --transform is not JSON at character {e.pos + 1}: {said}") from e


def _road(report: Report, pillow: str) -> str:
    """Say what torchvision worked on."""
    if not report.tensors:
        return f"Pillow {pillow}"
    torch = importlib.import_module("torch")
    return f"tensors of torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"


def _tell(report: Report, loader: DataLoader, other: str) -> None:
    for index, share, most, record in report.differ[:_NAMED]:
        print(f"{loader.dataset.key(index)}: {share:.4%} of the values differ, by up to {most}: {json.dumps(record)}")
    if len(report.differ) > _NAMED:
        print(f"… and {len(report.differ) - _NAMED} more")
    for index, why, record in report.targets[:_NAMED]:
        print(f"{loader.dataset.key(index)}: {why}: {json.dumps(record)}")
    differ = {index for index, *_ in (*report.differ, *report.targets)}  # several views of one may differ
    rounded = {index for index, *_ in report.rounded} - differ
    print(f"{report.compared - len(differ | rounded)} of {report.compared} samples are identical to {other}")
    if rounded:
        share = max(share for _, share, *_ in report.rounded)
        print(f"{len(rounded)} differ by one level in up to {share:.4%} of the values: torchvision's float blur rounds so")
    if report.decoded is None:
        return
    for index, why in list(report.decoded.items())[:_NAMED]:
        print(f"{loader.dataset.key(index)}: {why}")
    same, version = report.compared - len(report.decoded), importlib.metadata.version("torchcodec")
    print(f"{same} of {report.compared} files have the same pixels by torchcodec {version} as by Pillow")


if __name__ == "__main__":
    main()
