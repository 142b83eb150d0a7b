"""Measures which operations have bits that are not torchvision's, and writes them to transform/exceptions.json.

    python scripts/exceptions.py SET_OF_PHOTOGRAPHS

It compares each operation's results with torchvision's, by imgfeed.check: on images of Pillow, on tensors, and on tensors by
torchvision.transforms without v2. With more releases of torch, run it with each: shares and levels become the largest of all.
Rows of single releases of Pillow or torch stay as they are: run torch 2.6 to 2.8 with ATEN_CPU_CAPABILITY=avx2. Then
``go test ./transform -run Documented -update`` writes the table of docs/transforms.md.
"""

import argparse
import importlib.metadata
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from imgfeed import DataLoader
from imgfeed.check import Report, check

TABLE = Path(__file__).parent.parent / "transform" / "exceptions.json"

JITTERS = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}
OPERATIONS: list[dict[str, Any]] = [
    {"op": "Resize", "size": [117, 98]},
    {"op": "Resize", "size": [300, 280], "interpolation": "bicubic"},
    {"op": "RandomResizedCrop", "size": 160},
    {"op": "RandomCrop", "size": 200, "padding": 16},
    {"op": "Pad", "padding": 9, "padding_mode": "reflect"},
    {"op": "RandomHorizontalFlip"},
    {"op": "RandomVerticalFlip"},
    {"op": "RandomRotation", "degrees": 90},
    {"op": "RandomRotation", "degrees": 90, "interpolation": "bilinear", "fill": 7},
    {
        "op": "RandomAffine",
        "degrees": 30,
        "translate": [0.2, 0.1],
        "scale": [0.6, 1.7],
        "shear": 20,
        "interpolation": "bilinear",
    },
    {"op": "GaussianBlur", "kernel_size": 9},
    {"op": "GaussianBlur", "kernel_size": 23},
    {"op": "RandomInvert"},
    {"op": "RandomGrayscale", "p": 0.5},
    {"op": "Grayscale", "num_output_channels": 3},
    {"op": "RandomAdjustSharpness", "sharpness_factor": 2, "p": 1},
    {"op": "RandomPosterize", "bits": 3},
    {"op": "RandomSolarize", "threshold": 128},
    {"op": "RandomAutocontrast", "p": 1},
    {"op": "RandomEqualize", "p": 1},
    *({"op": "ColorJitter", name: value} for name, value in JITTERS.items()),
    {"op": "AutoAugment"},
    {"op": "AutoAugment", "policy": "cifar10", "interpolation": "bilinear"},
    {"op": "RandAugment"},
    {"op": "RandAugment", "interpolation": "bilinear", "fill": 128},
    {"op": "TrivialAugmentWide"},
    {"op": "TrivialAugmentWide", "interpolation": "bilinear"},
    {"op": "AugMix"},
]
#: These have contrast, which sums up an image: of whole photographs the sum exceeds what float32 holds exactly.
OF_SUMS = ("ColorJitter", "AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix")


def _release(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def measure(data: str, ops: list[dict[str, Any]], samples: int) -> tuple[float, int]:
    """Return the share of a transform's values that differ, and by how many levels at most."""
    report = Report()
    with DataLoader(data, 8, transform=ops, framework="numpy", with_index=True, shuffle=True) as loader:
        check(loader, samples, report=report)
    apart = report.differ + report.rounded
    return sum(share for _, share, *_ in apart) / report.compared, max((most for *_, most, _ in apart), default=0)


def measure_mix(data: str, samples: int) -> tuple[float, int]:
    """Return what measure does of AugMix on an image of Pillow, which torchvision makes a tensor of."""
    size, made = {"op": "Resize", "size": [224, 224]}, []
    for begins in ([], [{"op": "ToImage"}]):
        with DataLoader(data, 8, transform=[size, *begins, {"op": "AugMix"}], framework="numpy", shuffle=True) as loader:
            made.append(np.concatenate([images.astype(int) for images, _ in itertools.islice(loader, samples // 8)]))
    apart = np.abs(made[0] - made[1])
    return float((apart > 0).mean()), int(apart.max())


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs", help="a set of photographs, with their files")
    parser.add_argument("--samples", type=int, default=500, help="how many of them (default 500)")
    args = parser.parse_args()
    torch = importlib.metadata.version("torch").partition("+")[0].rpartition(".")[0]
    rows = {(row["on"], row["op"]): row for row in json.loads(TABLE.read_text())}
    small, crop = {"op": "Resize", "size": [224, 224]}, {"op": "CenterCrop", "size": 224}
    for on, begins in {
        "images of Pillow": [],
        "tensors": [{"op": "ToImage"}],
        "tensors of v1": [{"op": "ToImage", "v1": True}],
    }.items():
        for op in OPERATIONS:
            whole = on == "tensors" and op["op"] in OF_SUMS
            for first in ([small], []) if whole else ([small],):
                if on == "images of Pillow" and op["op"] == "AugMix":
                    share, levels = measure_mix(args.photographs, args.samples)
                else:
                    share, levels = measure(args.photographs, [*first, *begins, op, crop], args.samples)
                print(f"{on}, {op}{'' if first else ', whole'}: {share:.3g}, {levels}", flush=True)
                if share:
                    row = rows.setdefault((on, op["op"]), {"on": on, "op": op["op"], "share": 0, "levels": 0, "torch": torch})
                    row.update(share=float(f"{max(share, row['share']):.2g}"), levels=max(levels, row["levels"]))
                    row["torch"] = ", ".join(sorted({*row["torch"].split(", "), torch}, key=_release))
    text = ",\n".join("  " + json.dumps(row, sort_keys=True, ensure_ascii=False) for row in rows.values())
    TABLE.write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
