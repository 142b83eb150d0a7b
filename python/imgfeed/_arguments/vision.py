"""torchvision's transforms: the server does the operations on images; conversions to numbers are done to whole batches.

A pipeline begins with operations on images. Then come a conversion to a tensor, and changes of the tensor's type and scale.
These are torchvision's own objects, called with a batch, on its device.
"""

import copy
import importlib
import importlib.util
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .numbers import as_json, kind_of

#: The operations of a server and their parameters' names, as its hello lists them.
Known = Mapping[str, Sequence[str]]
#: These make a tensor of an image, with pixels from 0 to 255, as imgfeed gives them anyway.
TENSORS = ("ToImage", "PILToTensor", "ToPureTensor")
#: These change a tensor's type and scale, pixel by pixel: torchvision's own objects do them to batches, except ToTensor.
NUMBERS = ("ToTensor", "ConvertImageDtype", "ToDtype", "Normalize")
#: These change nothing: imgfeed's images are RGB.
NOTHING = ("Identity", "RGB")
#: timm's replacements for some of torchvision's, which do the same.
OF_TIMM = {
    "RandomResizedCropAndInterpolation": "RandomResizedCrop",
    "MaybePILToTensor": "PILToTensor",
    "MaybeToTensor": "ToTensor",
}

#: These give all images one size.
SIZED = ("CenterCrop", "RandomCrop", "RandomResizedCrop")
#: These make several images of one.
CROPS = ("FiveCrop", "TenCrop")
#: Parameters that torchvision's objects keep under another name.
RENAMED = {"sampler_options": "options"}
#: imgfeed's name for a policy of timm.
POLICY = "TimmAugment"
#: Classes of timm.data.auto_augment, and its functions that make them of strings.
MAKERS = {
    "RandAugment": "rand_augment_transform",
    "AutoAugment": "auto_augment_transform",
    "AugMixAugment": "augment_and_mix_transform",
}
_TRANSLATE = {"AugMixAugment": 0.3}  # of a side, at the largest magnitude, as create_transform has it
_TRANSLATE_OTHERS = 0.45


@dataclass(frozen=True)
class Step:
    """An object of torchvision for the server. The client knows the server's operations when it is connected."""

    name: str  # of the argument that holds it
    step: Any
    before: str  # the kind of the step before it, if there is one
    after_numbers: bool  # a step before it makes numbers of pixels
    tensor: bool = False  # torchvision does it to a tensor

    def __repr__(self) -> str:
        return repr(self.step)

    def operation(self, known: Known) -> dict[str, Any]:
        """Return the operation as the server takes it. Raises ValueError if the server lacks it."""
        kind = _kind(self.step)
        if kind not in known:
            raise ValueError(_unknown(self.name, self.step, known) + (_AFTER_CROPS if self.before in CROPS else ""))
        if self.after_numbers:
            raise ValueError(f"imgfeed: {self.name} has {kind} after {self.before}: operations on images come first")
        return _policy(self.name, self.step) if kind == POLICY else _operation(self, kind, known)


def known_by(schemas: Iterable[Mapping[str, Any]]) -> Known:
    """Return the operations of a server's hello, or of ``imgfeed version --json``."""
    return {of["op"]: tuple(of["parameters"]) for of in schemas}


def operations(value: Any, known: Known) -> Any:
    """Return a transform as it goes over the wire to a server that knows these operations."""
    if isinstance(value, Step):
        return as_json(value.name, value.operation(known))
    if isinstance(value, Mapping):
        return {key: operations(of, known) for key, of in value.items()}
    return [operations(one, known) for one in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Pipeline:
    """A pipeline of torchvision, in two parts."""

    operations: list[Any]  # for the server: Steps of torchvision, or operations as docs/transforms.md describes them
    numbers: tuple[Any, ...]  # for batches: objects of torchvision, in order
    views: dict[str, Any] | None = None  # for the server, instead of operations: several views of each image

    def finish(self, images: Any) -> Any:
        """Return a batch of uint8 images, shape (B, 3, H, W), as the pipeline's end makes it."""
        if not self.numbers:
            return images
        torch = importlib.import_module("torch")
        images = importlib.import_module("torchvision.tv_tensors").Image(images) if _of_v2(self.numbers[0]) else images
        for step in self.numbers:
            dtype = _divides_by_255(torch, step, images)
            if dtype is None:
                images = step(images)
            else:  # by a tensor: for a number torch multiplies by its reciprocal on a GPU, and misses a bit
                images = images.to(dtype).div_(torch.full((), 255, dtype=dtype, device=images.device))
        return images.as_subclass(torch.Tensor)


def is_torchvisions(value: Any) -> bool:
    """Return whether a value is a transform of torchvision, the same by timm, or torch's Sequential of some."""
    module = type(value).__module__
    return bool(_kind(value)) or (module.startswith("torch.nn") and _steps(value) is not None)


def pipeline(name: str, value: Any, tensor: bool = False, held: bool = False) -> Pipeline:
    """Return a transform of torchvision in two parts. name is the argument's.

    tensor says that images come as tensors, and held that another operation holds the transform.
    """
    steps: list[Any] = []
    numbers: list[Any] = []
    before, said = "", tensor
    to_image: dict[str, Any] | None = None
    for step in _flat(value):
        kind = _kind(step)
        if kind and _of_v2(step) and importlib.util.find_spec("torchvision.tv_tensors") is None:
            raise ValueError(
                f"imgfeed: {name} holds {kind} of transforms.v2, which takes torchvision 0.16 or later: use transforms"
            )
        if kind in NOTHING:
            continue
        if kind in TENSORS:
            tensor = tensor or kind != "ToPureTensor"  # which leaves an image of Pillow as it is
            if held and tensor and not said:  # what comes after the holder may work on the tensor
                steps.append(to_image := {"op": "ToImage"})
                said = True
        elif kind in NUMBERS:
            numbers.append(_in_place(step) if kind == "Normalize" else step)
            before = kind
        else:
            if tensor and not said:
                steps.append(to_image := {"op": "ToImage"})
                said = True
            if tensor and to_image is not None and not _all_of_v2(step):
                to_image["v1"] = True
            steps.append(Step(name, copy.deepcopy(step) if kind else step, before, bool(numbers), tensor))
            before = kind if not numbers else before
    return Pipeline(steps, tuple(numbers))


def split(value: Any, known: Known) -> tuple[list[Any], list[Any]]:
    """Return a pipeline's steps in two lists: those that a server does, and those that are left to Python.

    The second begins with the first step that the server lacks, or with a conversion to numbers before it. It has all steps if
    no crop comes before, as a server's images must have one size.
    """
    steps = list(_flat(value))
    kinds = [_kind(step) for step in steps]
    foreign = next((i for i, kind in enumerate(kinds) if kind not in (*known, *TENSORS, *NUMBERS, *NOTHING)), len(steps))
    first = next((i for i in range(foreign) if kinds[i] in TENSORS + NUMBERS), foreign)
    if foreign == len(steps) or set(kinds) & set(CROPS):
        return steps, []
    return (steps[:first], steps[first:]) if set(kinds[:first]) & set(SIZED) else ([], steps)


def by_python(steps: Sequence[Any]) -> Callable[..., Any]:
    """Return a function for ``map=`` that does steps to an image of Pillow, with all generators seeded by the sample."""
    torch, pillow = importlib.import_module("torch"), importlib.import_module("PIL.Image")

    def step(image: Any, rng: np.random.Generator) -> Any:
        states = random.getstate(), np.random.get_state(), torch.default_generator.get_state()
        random.seed(int(rng.integers(1 << 63)))
        np.random.seed(int(rng.integers(1 << 32)))
        torch.default_generator.manual_seed(int(rng.integers(1 << 63)))
        try:
            done = pillow.fromarray(image)
            for one in steps:
                done = one(done)
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            torch.default_generator.set_state(states[2])
        return done

    return step


def ends_in_tensors(value: Any) -> bool:
    """Return whether a transform leaves tensors: one of imgfeed does, and one of torchvision where it says so."""
    if not is_torchvisions(value):
        return True
    return any(_kind(step) in TENSORS + NUMBERS for step in _flat(value))


def boxes_format(transform: Any) -> str:
    """Return the format of boxes in which a transform of torchvision ends."""
    steps = [step for step in _flat(transform) if _kind(step) == "ConvertBoundingBoxFormat"]
    return str(getattr(steps[-1].format, "name", steps[-1].format)).lower() if steps else "xyxy"


def _in_place(step: Any) -> Any:
    """Return Normalize as one that changes its batch, which nobody else has: a copy costs more than the computation."""
    step = copy.copy(step)
    step.inplace = True
    return step


def _divides_by_255(torch: Any, step: Any, images: Any) -> Any:
    """Return the type of a step's results if it divides pixels by 255, else None."""
    kind = _kind(step)
    if kind == "ToTensor":  # which takes images of Pillow only
        return torch.get_default_dtype()
    divides = kind == "ConvertImageDtype" and not _of_v2(step)  # v2 multiplies
    return step.dtype if divides and images.dtype == torch.uint8 and step.dtype.is_floating_point else None


def _kind(step: Any) -> str:
    """Return a transform's name in torchvision; "" if it is not one of torchvision or timm."""
    module, kind = type(step).__module__, type(step).__name__
    if module.startswith("torchvision.transforms") or (module.startswith("torch.nn") and kind in NOTHING):
        return kind
    if module == "timm.data.auto_augment" and kind in MAKERS:
        return POLICY
    return OF_TIMM.get(kind, "") if module.startswith("timm.data.transforms") else ""


def _steps(value: Any) -> Sequence[Any] | None:
    """Return a container's transforms; None for anything else."""
    kind = type(value).__name__
    if kind == "Compose":
        return list(value.transforms)
    if kind == "Sequential":
        return list(value)
    if kind == "ImageClassification":  # of torchvision's Weights.transforms()
        v1 = importlib.import_module("torchvision.transforms")
        torch = importlib.import_module("torch")
        return [
            v1.Resize(value.resize_size, interpolation=value.interpolation),
            v1.CenterCrop(value.crop_size),
            v1.PILToTensor(),
            v1.ConvertImageDtype(torch.float),
            v1.Normalize(value.mean, value.std),
        ]
    return None


def _flat(value: Any) -> Iterator[Any]:
    steps = _steps(value) if is_torchvisions(value) else None
    if steps is None:
        yield value
        return
    for step in steps:
        yield from _flat(step)


def _operation(of: Step, kind: str, known: Known) -> dict[str, Any]:
    """Return an operation as the server takes it. The server itself refuses parameters that it lacks."""
    name, step, own = of.name, of.step, ("resampler", "antialias", "mask_fill")
    given = {parameter: getattr(step, RENAMED.get(parameter, parameter)) for parameter in known[kind] if parameter not in own}
    if "mask_fill" in known[kind] and "fill" in given:
        given |= _fills(given["fill"])
    if "format" in given:
        given["format"] = str(getattr(given["format"], "name", given["format"])).lower()
    if of.tensor and getattr(step, "antialias", True) is not True:
        given["antialias"] = False
    if kind == "RandomCrop" and _of_v2(step) and step.padding is not None:
        # It keeps left, right, top, bottom of left, top, right, bottom, and pads once where the other version pads twice.
        left, right, top, bottom = step.padding
        given["padding"] = [left, top, right, bottom]
        if step.pad_if_needed and step.padding_mode in ("reflect", "symmetric"):
            raise ValueError(f"imgfeed: {name}'s {kind} pads twice with {step.padding_mode!r}: put a Pad before it")
    if "interpolation" in given:
        if isinstance(given["interpolation"], (tuple, list)):  # timm's "random", its default: one of them for each image
            each = [{"op": kind, **given, "interpolation": _filter(one, of.tensor)} for one in given["interpolation"]]
            return {"op": "RandomChoice", "transforms": each}
        given["interpolation"] = _filter(given["interpolation"], of.tensor)
    if "policy" in given:
        given["policy"] = str(getattr(given["policy"], "value", given["policy"]))
    if "transforms" in given:
        given["transforms"] = _held(of, kind, given["transforms"], known)
    return {"op": kind, **given}


def _fills(fill: Any) -> dict[str, Any]:
    """Return the fill of images and the label of masks: torchvision's fill may be a dictionary by type."""
    label = fill
    if isinstance(fill, dict):
        by = {key if isinstance(key, str) else key.__name__: value for key, value in fill.items()}
        fill, label = by.get("Image", by.get("others")), by.get("Mask", by.get("others"))
    label = int(label) if isinstance(label, (int, float)) and math.isfinite(label) else 0
    return {"fill": 0 if fill is None else fill, **({"mask_fill": label} if label else {})}


def _policy(name: str, step: Any) -> dict[str, Any]:
    """Return a policy of timm as the server takes it."""
    config = _policy_config(step)
    if config is None:
        raise ValueError(f"imgfeed: {name} holds {kind_of(step)} of timm that imgfeed has no string for")
    first = step.policy[0][0] if hasattr(step, "policy") else step.ops[0]
    how = first.kwargs["resample"]
    interpolation = "random" if isinstance(how, (tuple, list)) else _filter(how)
    return {"op": POLICY, "config": config, "fill": list(first.kwargs["fillcolor"]), "interpolation": interpolation}


def _policy_config(step: Any) -> str | None:
    """Return the string from which timm makes this policy, or None.

    The objects do not keep it: a string is made of their content, and timm's policy of that string compared with them.
    """
    kind, first = type(step).__name__, _policy_steps(step)[0]
    if first.hparams.get("translate_pct", _TRANSLATE_OTHERS) != _TRANSLATE.get(kind, _TRANSLATE_OTHERS):
        return None
    timm = importlib.import_module("timm.data.auto_augment")
    others = {k: v for k, v in first.hparams.items() if not k.startswith("magnitude_")}  # those are in the string
    for config in _configs(kind, step, first):
        if _content(getattr(timm, MAKERS[kind])(config, dict(others))) == _content(step):
            return config
    return None


def _configs(kind: str, step: Any, first: Any) -> Iterator[str]:
    """Yield the strings that a policy may be of."""
    deviation = first.magnitude_std
    spread = "" if not deviation or (kind == "AugMixAugment" and math.isinf(deviation)) else f"-mstd{min(deviation, 101)}"
    if kind == "AutoAugment":
        yield from (name + spread for name in ("v0", "v0r", "original", "originalr", "3a"))
    elif kind == "AugMixAugment":
        depth = f"-d{step.depth}" if step.depth > 0 else ""
        yield f"augmix-m{first.magnitude}-w{step.width}{depth}-a{step.alpha}-b{int(step.blended)}{spread}"
    else:
        bound = f"-mmax{first.magnitude_max}" if first.magnitude_max else ""
        for choice in ("", "-inc1"):
            magnitude = int(first.magnitude) if first.magnitude == int(first.magnitude) else first.magnitude
            yield f"rand-m{magnitude}-n{step.num_layers}-p{first.prob}{spread}{bound}{choice}"


def _policy_steps(step: Any) -> list[Any]:
    return [one for pair in step.policy for one in pair] if hasattr(step, "policy") else list(step.ops)


def _content(step: Any) -> tuple[Any, ...]:
    return (
        [(one.name, one.prob, one.magnitude, one.magnitude_std, one.magnitude_max, one.kwargs) for one in _policy_steps(step)],
        [len(pair) for pair in getattr(step, "policy", [])],
        getattr(step, "choice_weights", None) is None,
        *(getattr(step, name, None) for name in ("num_layers", "width", "depth", "alpha", "blended")),
    )


def _held(of: Step, kind: str, steps: Sequence[Any], known: Known) -> list[dict[str, Any]]:
    """Return what RandomApply, RandomChoice or RandomOrder holds, as one operation for each.

    A Compose is one, too, and so is what does nothing: RandomChoice counts it.
    """
    held: list[dict[str, Any]] = []
    for step in steps:
        inner = pipeline(f"{of.name}'s {kind}", step, of.tensor, held=True)
        if inner.numbers:
            raise ValueError(
                f"imgfeed: {of.name}'s {kind} holds {type(inner.numbers[0]).__name__}: numbers are made of whole batches"
            )
        made = operations(inner.operations, known)
        held += made if len(made) == 1 else [{"op": "RandomApply", "transforms": made, "p": 1}]
    return held


def _filter(mode: Any, tensor: bool = False) -> str:
    """Return a filter by its name: torchvision has an enumeration, its values, and Pillow's numbers."""
    if isinstance(mode, int):
        functional = importlib.import_module("torchvision.transforms.functional")
        mode = functional._interpolation_modes_from_int(mode)
    text = str(getattr(mode, "value", mode))
    return "nearest" if text == "nearest-exact" and not tensor else text  # of a Pillow image they are the same


def _unknown(name: str, step: Any, known: Known) -> str:
    kind = type(step)
    what = f"{kind.__module__}.{kind.__qualname__}" if isinstance(step, Callable) else repr(step)[:60]  # type: ignore[arg-type]
    return (
        f"imgfeed: {name} holds {what}, which imgfeed does not do. It does {', '.join(known)} of torchvision, then "
        f"{', '.join((*TENSORS, *NUMBERS))}. Do others after a crop by map=, a function of your own, or to the batch in the "
        "loop, on the GPU where there is one"
        + (". imgfeed.batch.RandomErasing is that for batches" if kind.__name__ == "RandomErasing" else "")
    )


_AFTER_CROPS = (
    ". Of the crops before it imgfeed makes a list of batches: leave it out, and torch.stack(images, 1) is (B, crops, C, H, W)"
)


def _all_of_v2(step: Any) -> bool:
    """Return whether a step, and all those that it holds, are of transforms.v2."""
    return _of_v2(step) and all(_all_of_v2(one) for one in getattr(step, "transforms", ()) if _kind(one) not in TENSORS)


def _of_v2(step: Any) -> bool:
    return type(step).__module__.startswith("torchvision.transforms.v2")
