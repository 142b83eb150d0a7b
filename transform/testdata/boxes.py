"""Histograms of the boxes that torchvision's RandomResizedCrop draws, as Go source for boxes_test.go.

Run: python3 boxes.py > ../boxes_test.go  (needs torch and torchvision; takes some minutes)
"""

import math

import torch
import torchvision
from torchvision.transforms import RandomResizedCrop

COUNT = 100_000
CASES = [
    (500, 375, (0.08, 1.0), (3 / 4, 4 / 3)),
    (120, 600, (0.08, 1.0), (3 / 4, 4 / 3)),
    (333, 500, (0.25, 0.5), (0.5, 2.0)),
    (32, 32, (0.08, 1.0), (3 / 4, 4 / 3)),
]


def cell(x: float) -> int:
    return min(max(math.floor(10 * x), 0), 9)


def main() -> None:
    torch.manual_seed(20)
    print("package transform\n")
    print(f"// Made by testdata/boxes.py with torchvision {torchvision.__version__}: {COUNT:,} boxes for each case.")
    print("var torchvisionBoxes = []struct {\n\tw, h  int\n\tspec  string\n\tcells [4][10]float64\n}{")
    for w, h, scale, ratio in CASES:
        image = torch.empty(3, h, w)
        cells = [[0] * 10 for _ in range(4)]
        for _ in range(COUNT):
            top, left, bh, bw = RandomResizedCrop.get_params(image, list(scale), list(ratio))
            for i, x in enumerate((bw * bh / (w * h), (math.log2(bw / bh) + 1) / 2, top / h, left / w)):
                cells[i][cell(x)] += 1
        spec = f'[{{"op":"RandomResizedCrop","size":224,"scale":{list(scale)},"ratio":{list(ratio)}}}]'
        rows = ",\n\t\t".join("{" + ", ".join(map(str, row)) + "}" for row in cells)
        print(f"\t{{{w}, {h}, `{spec}`, [4][10]float64{{\n\t\t{rows},\n\t}}}},")
    print("}")


if __name__ == "__main__":
    main()
