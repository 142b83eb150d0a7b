"""Repeats a record on the original with torchvision, so that anyone can check the server's work."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: Functions of torchvision that move boxes and masks too.
MOVES = ("crop", "center_crop", "pad", "resize", "hflip", "vflip", "rotate", "affine")
#: Functions of torchvision.transforms.functional that records name.
FUNCTIONS = (
    *MOVES, "rgb_to_grayscale", "invert", "posterize", "solarize", "autocontrast", "equalize", "adjust_brightness",
    "adjust_contrast", "adjust_saturation", "adjust_hue", "adjust_sharpness", "gaussian_blur",
)  # fmt: skip
#: Steps on boxes and masks alone.
OF_TARGETS = ("zero_boxes", "sanitize_bounding_boxes", "clamp_bounding_boxes", "convert_bounding_box_format", "mask_fill")

Call = dict[str, Any]


def reference(image: Any, record: Sequence[Call], target: Mapping[str, Any] | None = None) -> Any:
    """Return the image that torchvision makes of an original, an RGB image of Pillow, by the functions of a record.

    The pixels are the batch's. From ``to_image`` on the image is a tensor, of shape (3, H, W), and the functions are those of
    ``torchvision.transforms.v2``; with ``v1`` they are those of ``torchvision.transforms``. It needs torchvision. Images that
    Pillow resizes need its release of the loader's ``resampler``. Raises ValueError for a function that it does not know, such
    as one of a later server.

    With target it returns image and target. That is a dictionary of boxes (float32, (n, 4): left, top, right, bottom), a mask
    (uint8, (H, W)) or both. torchvision.transforms.v2 moves them, and of other arrays with n rows those stay that are left.
    Boxes come in the format that the transform has reached, as their ``format`` says.
    """
    original = image
    for call in record:
        if call["op"] not in OF_TARGETS:
            image = _call(image, {name: value for name, value in call.items() if name != "mask_fill"})
    return image if target is None else (image, _moved(target, original.size, record))


def _moved(target: Mapping[str, Any], size: tuple[int, int], record: Sequence[Call]) -> dict[str, Any]:
    """Return a target of an image of this width and height after the functions of a record."""
    torch, tv = importlib.import_module("torch"), importlib.import_module("torchvision.tv_tensors")
    functional = importlib.import_module("torchvision.transforms.v2.functional")
    moved = {name: torch.as_tensor(target[name]).clone() for name in ("boxes", "mask") if name in target}
    if "boxes" in moved:
        moved["boxes"] = tv.BoundingBoxes(moved["boxes"], format="XYXY", canvas_size=size[::-1])
    if "mask" in moved:
        moved["mask"] = tv.Mask(moved["mask"])
    count = len(target["boxes"]) if "boxes" in target else 0
    left = torch.arange(count)
    for call, after in zip(record, [*record[1:], {"op": ""}], strict=True):
        name, given = call["op"], {k: v for k, v in call.items() if k not in ("op", "interpolation", "fill", "mask_fill")}
        if name in MOVES:
            if name in ("pad", "rotate", "affine"):
                given["fill"] = after["label"] if after["op"] == "mask_fill" else call.get("mask_fill", 0)
            moved = {of: getattr(functional, name)(value, **given) for of, value in moved.items()}
        elif "boxes" not in moved:
            continue
        elif name == "zero_boxes":
            moved["boxes"][torch.tensor(given["where"])] = 0
        elif name == "sanitize_bounding_boxes":
            boxes, valid = functional.sanitize_bounding_boxes(moved["boxes"], **given)
            moved["boxes"], left = tv.wrap(boxes, like=moved["boxes"]), left[valid]
        elif name in OF_TARGETS and name != "mask_fill":
            if "new_format" in given:
                given["new_format"] = given["new_format"].upper()
            moved["boxes"] = getattr(functional, name)(moved["boxes"], **given)
    rows = {k: v for k, v in target.items() if k not in moved and hasattr(v, "ndim") and v.ndim and len(v) == count}
    return {**target, **moved, **{k: v[left if torch.is_tensor(v) else left.numpy()] for k, v in rows.items()}}


def _call(image: Any, arguments: Call) -> Any:
    name = arguments.pop("op")
    if name in _OWN:
        return _OWN[name](image, **arguments)
    if name not in FUNCTIONS:
        raise ValueError(f"imgfeed: a record names the function {name!r}, which this release does not know")
    tensor = not hasattr(image, "getbands")
    v2 = tensor and type(image).__module__.startswith("torchvision.tv_tensors")
    functional = importlib.import_module(f"torchvision.transforms.{'v2.' if v2 else ''}functional")
    if "interpolation" in arguments:
        arguments["interpolation"] = functional.InterpolationMode(arguments["interpolation"])
    if name == "posterize" and arguments["bits"] == 0 and not tensor:  # which Pillow refuses from release 12 on
        return image.point([0] * 256 * 3)
    return getattr(functional, name)(image, **arguments)


def _to_image(image: Any, v1: bool = False) -> Any:
    """Make a tensor of an image, of the type that its functions know it by."""
    name = "functional.pil_to_tensor" if v1 else "v2.functional.to_image"
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(f"torchvision.transforms.{module}"), function)(image)


def _pillow_transform(image: Any, data: Sequence[float], resample: str, fillcolor: int | Sequence[int]) -> Any:
    """Map an image by Pillow's Image.transform, as timm does."""
    pil = importlib.import_module("PIL.Image")
    filters = {"nearest": pil.NEAREST, "bilinear": pil.BILINEAR, "bicubic": pil.BICUBIC}
    fill = (fillcolor,) * 3 if isinstance(fillcolor, int) else tuple(fillcolor)
    return image.transform(image.size, pil.AFFINE, tuple(data), filters[resample], fillcolor=fill)


def _mixture(image: Any, share: float, weights: Sequence[float], chains: Sequence[Sequence[Call]], factor: float) -> Any:
    """Sum up an image and the results of its chains, in float32, and blend the image with the sum: AugMix."""
    np = importlib.import_module("numpy")
    mixed = np.float32(share) * np.asarray(image, dtype=np.float32)
    for weight, chain in zip(weights, chains, strict=True):
        mixed += np.float32(weight) * np.asarray(reference(image, chain), dtype=np.float32)
    made = np.clip(mixed, 0, 255).astype(np.uint8)
    if not hasattr(image, "getbands"):  # a tensor, which only torchvision's own AugMix mixes, and which it replaces
        return importlib.import_module("torch").from_numpy(made).as_subclass(type(image))
    pil = importlib.import_module("PIL.Image")
    return pil.blend(image, pil.fromarray(made), factor)


def _blends(image: Any, weights: Sequence[float], chains: Sequence[Sequence[Call]]) -> Any:
    """Blend an image with the results of chains on the original, one after the other: AugMix of timm with b1."""
    blend, blended = importlib.import_module("PIL.Image").blend, image
    for weight, chain in zip(weights, chains, strict=True):
        blended = blend(blended, reference(image, chain), weight)
    return blended


def _permute_channels(image: Any, permutation: Sequence[int]) -> Any:
    """Give an image the channels of these numbers, as torchvision.transforms.v2 does."""
    if not hasattr(image, "getbands"):  # a tensor
        return image[list(permutation)].as_subclass(type(image))
    bands = image.split()
    return importlib.import_module("PIL.Image").merge("RGB", [bands[i] for i in permutation])


_OWN: dict[str, Callable[..., Any]] = {
    "permute_channels": _permute_channels,
    "to_image": _to_image,
    "solarize_add": lambda image, add, threshold: image.point(
        [min(255, i + add) if i < threshold else i for i in range(256)] * 3  # as timm does
    ),
    "pillow_transform": _pillow_transform,
    "pillow_gaussian_blur": lambda image, radius: image.filter(importlib.import_module("PIL.ImageFilter").GaussianBlur(radius)),
    "mixture": _mixture,
    "blends": _blends,
}
