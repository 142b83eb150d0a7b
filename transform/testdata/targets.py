"""Repeats records of images with boxes and masks with torchvision.transforms.v2.functional, for TestTargetsAreTorchvisions.

Reads from standard input: one line of JSON (transform; width, height, objects; record; size of the result, [height, width]; format; kept), then
the image's pixels, its mask, its boxes (float32), and those of the result. Prints, as JSON, how many were compared, how often each transform and
function came, and which differ. Numbers of boxes that a rotation or an affine map has moved may be off by 1e-4 of a pixel, and a thousandth of a mask's
labels by any: of how many that was, and how many were, is printed too.
"""

import json
import sys
from collections import Counter

import numpy as np
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

sys.path.insert(0, "../python")
from imgfeed.replay import reference


def repeat(image, boxes, mask, record):
    """Return image, boxes, mask, and which of the boxes are left, after the calls of a record."""
    rows, later = torch.arange(len(boxes)), {}
    for i, call in enumerate(record):
        args = dict(call)
        op = args.pop("op")
        label = args.pop("mask_fill", 0)
        if i + 1 < len(record) and record[i + 1]["op"] == "mask_fill":
            label = record[i + 1]["label"]
        if op == "zero_boxes":
            boxes[torch.tensor(args["where"])] = 0
        elif op == "sanitize_bounding_boxes":
            _, valid = F.sanitize_bounding_boxes(boxes, **args)
            boxes, rows = tv_tensors.wrap(boxes[valid], like=boxes), rows[valid]
        elif op == "clamp_bounding_boxes":
            boxes = F.clamp_bounding_boxes(boxes)
        elif op == "convert_bounding_box_format":
            boxes = F.convert_bounding_box_format(boxes, new_format=args["new_format"].upper())
        elif op in {"crop", "center_crop", "resize", "hflip", "vflip", "pad", "affine", "rotate"}:
            if op == "crop":  # torchvision.transforms.functional takes the same arguments
                image = F.crop(image, **args)
            elif op == "center_crop":
                image = F.center_crop(image, **args)
            elif op == "pad":
                fill = args.pop("fill")
                image = F.pad(image, fill=fill, **args)
            else:
                image = reference(image, [call])
            args.pop("interpolation", None)
            args.pop("fill", None)
            moved = {"angle": 0, **args} if op == "affine" else args
            boxes = getattr(F, op)(boxes, **moved)
            if op in {"pad", "affine", "rotate"}:
                moved = {**moved, "fill": label}
            mask = getattr(F, op)(mask, **moved)
        elif op != "mask_fill":
            image = reference(image, [call])
    return image, boxes, mask, rows


def main() -> None:
    torch.set_num_threads(1)
    totals, transforms, functions, differ = Counter(), Counter(), Counter(), []
    read = sys.stdin.buffer.read
    for line in iter(sys.stdin.buffer.readline, b""):
        head = json.loads(line)
        w, h, n, (out_h, out_w) = head["width"], head["height"], head["objects"], head["size"]
        image = Image.frombytes("RGB", (w, h), read(w * h * 3))
        mask = tv_tensors.Mask(torch.from_numpy(np.frombuffer(read(w * h), np.uint8).reshape(h, w).copy()))
        boxes = tv_tensors.BoundingBoxes(
            torch.from_numpy(np.frombuffer(read(16 * n), np.float32).reshape(n, 4).copy()), format="XYXY", canvas_size=(h, w)
        )
        got_image = np.frombuffer(read(out_h * out_w * 3), np.uint8).reshape(out_h, out_w, 3)
        got_mask = np.frombuffer(read(out_h * out_w), np.uint8).reshape(out_h, out_w)
        got_boxes = np.frombuffer(read(16 * len(head["kept"])), np.float32).reshape(-1, 4)
        image, boxes, mask, rows = repeat(image, boxes, mask, head["record"])
        boxes = F.convert_bounding_box_format(boxes, new_format=head["format"].upper()).as_subclass(torch.Tensor).numpy()
        totals["compared"] += 1
        transforms[head["transform"]] += 1
        functions.update(call["op"] for call in head["record"])
        faults = []
        # A product of float32 matrices, which some processors' libraries round once and others twice.
        mapped = any(call["op"] in {"affine", "rotate"} for call in head["record"])
        if not np.array_equal(got_image, np.asarray(image)):
            faults.append("image")
        mask = mask.numpy()
        if mask.shape != got_mask.shape:
            faults.append(f"mask of {mask.shape}")
        elif mapped and (got_mask != mask).mean() < 1e-3:
            totals.update(mapped_labels=mask.size, labels_off=int((got_mask != mask).sum()))
        elif (got_mask != mask).any():
            faults.append(f"{(got_mask != mask).mean():.5f} of the mask")
        if rows.tolist() != head["kept"]:
            faults.append(f"kept {head['kept']}, and {rows.tolist()} are right")
        elif mapped and np.allclose(got_boxes, boxes, rtol=0, atol=1e-4):
            totals.update(mapped_numbers=boxes.size, numbers_off=int((got_boxes != boxes).sum()))
        elif not np.array_equal(got_boxes, boxes, equal_nan=True):
            k = int(np.argmax((got_boxes != boxes).any(1)))
            faults.append(f"box {k} is {got_boxes[k].tolist()}, and {boxes[k].tolist()} is right")
        if faults:
            differ.append(f"{w}×{h}: {'; '.join(faults)}: {json.dumps(head['record'])}")
    print(json.dumps({**totals, "transforms": transforms, "functions": functions, "differ": differ}))


if __name__ == "__main__":
    main()
