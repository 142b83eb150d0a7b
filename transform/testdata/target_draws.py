"""Prints how often torchvision.transforms.v2 draws what, for TestTargetDraws: JSON of each operation's quantities, in cells.

Needs torch 2 and torchvision 0.29 or later; takes a minute.
"""

import json
from collections import Counter, defaultdict

import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2

COUNT = 20_000
W, H = 100, 80
BOXES = [[10.0, 10, 60, 50], [40, 30, 95, 75]]


def cell(x: float, n: int = 10) -> str:
    return str(min(int(n * x), n - 1))


def main() -> None:
    torch.manual_seed(20)
    image = Image.new("RGB", (W, H))
    boxes = tv_tensors.BoundingBoxes(torch.tensor(BOXES), format="XYXY", canvas_size=(H, W))
    made: dict[str, dict[str, Counter]] = defaultdict(lambda: defaultdict(Counter))
    for _ in range(COUNT):
        left, top, right, bottom = v2.RandomZoomOut().make_params([image])["padding"]
        w, h, of = W + left + right, H + top + bottom, made["RandomZoomOut"]
        of["width"][cell((w - W) / (3 * W))] += 1
        of["height"][cell((h - H) / (3 * H))] += 1
        if w >= 2 * W:
            of["left"][cell(left / (w - W + 1))] += 1
            of["top"][cell(top / (h - H + 1))] += 1

        params, of = v2.RandomIoUCrop().make_params([image, boxes]), made["RandomIoUCrop"]
        of["whole"][str(not params)] += 1
        if params:
            of["width"][cell(params["width"] / (W + 1))] += 1
            of["height"][cell(params["height"] / (H + 1))] += 1
            of["left"][cell(params["left"] / W)] += 1
            of["top"][cell(params["top"] / H)] += 1
            of["kept"][",".join(map(str, params["is_within_crop_area"].int().tolist()))] += 1

        params, of = v2.RandomPhotometricDistort().make_params([image]), made["RandomPhotometricDistort"]
        drawn = [params[f"{name}_factor"] for name in ("brightness", "contrast", "saturation", "hue")]
        of["which"]["".join("-" if f is None else "x" for f in drawn)] += 1
        for name, f, (low, high) in zip(
            ("brightness", "contrast", "saturation", "hue"), drawn, ((0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05)), strict=True
        ):
            if f is not None:
                of[name][cell((f - low) / (high - low))] += 1
        if drawn[1] is not None and drawn[2] is not None:
            of["order"]["contrast first" if params["contrast_before"] else "contrast last"] += 1
        order = params["channel_permutation"]
        of["channels"]["0,1,2" if order is None else ",".join(map(str, order.tolist()))] += 1

        made["RandomResize"]["size"][str(v2.RandomResize(10, 17).make_params([image])["size"])] += 1
        height, width = v2.ScaleJitter((60, 50)).make_params([image])["size"]
        made["ScaleJitter"]["width"][cell(width / 125)] += 1
        made["RandomShortestSize"]["size"][",".join(map(str, v2.RandomShortestSize([20, 33, 50], 60).make_params([image])["size"]))] += 1
    print(json.dumps(made, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
