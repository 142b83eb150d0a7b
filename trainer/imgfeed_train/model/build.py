"""Models by name, from torchvision and timm."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, cast

from torch import nn

from ..data.loaders import Stats
from ..data.transforms import IMAGENET_STATS
from ..errors import TrainError
from ..launch.place import Place
from ..settings import Settings
from . import parts, weights


def build(s: Settings, classes: int, place: Place) -> tuple[nn.Module, Stats]:
    """Return the model with an output for each class, and the (mean, std) that its images are to be normalised by."""
    model, stats = _named(s, classes, place)
    stats = weights.stats(s.weights) or stats if s.weights else stats
    if s.blurpool:
        parts.blur(model)
    if s.grad_checkpointing:
        parts.recompute(model, s.arch)
    return model, stats


def published_classes(s: Settings) -> int:
    """Return how many classes the published weights of a model tell apart."""
    name = s.arch.removeprefix("timm/")
    if not s.arch.startswith("timm/"):
        import torchvision  # noqa: PLC0415 - slow to import

        if name in torchvision.models.list_models(module=torchvision.models):
            return len(torchvision.models.get_model_weights(name).DEFAULT.meta["categories"])
    import timm  # noqa: PLC0415 - optional

    known = timm.get_pretrained_cfg(name)
    if known is None:
        raise TrainError(f"--pretrained: no weights of {s.arch} are published")
    return int(known.num_classes)


def check(s: Settings) -> None:
    """Raise TrainError where there is no such model, or no file of weights, without making or reading anything."""
    _library(s)
    if s.weights and not Path(s.weights).is_file():
        raise TrainError(f"--weights {s.weights}: there is no such file")


def _library(s: Settings) -> Any:
    """Return the module that has the model: torchvision, or timm. Raises TrainError where neither has one of that name."""
    name = s.arch.removeprefix("timm/")
    if not s.arch.startswith("timm/"):
        import torchvision  # noqa: PLC0415 - slow to import

        if name in torchvision.models.list_models(module=torchvision.models):
            return torchvision
    try:
        import timm  # noqa: PLC0415 - optional
    except ImportError as e:
        raise TrainError(f"--arch {s.arch} is not in torchvision, and timm is not installed: pip install timm") from e
    if not timm.is_model(name):
        near = ", ".join(timm.list_models(f"*{name[:8]}*")[:5])
        raise TrainError(f"--arch {s.arch} is in neither torchvision nor timm{'; near it: ' + near if near else ''}")
    return timm


def _named(s: Settings, classes: int, place: Place) -> tuple[nn.Module, Stats]:
    name, has = s.arch.removeprefix("timm/"), _library(s)
    if has.__name__ == "torchvision":
        return _torchvision(has, name, s, classes, place), IMAGENET_STATS
    model = _timm(has, name, s, classes, place)
    if not s.pretrained and not s.weights:
        return model, IMAGENET_STATS
    config = has.data.resolve_model_data_config(model)
    return model, (config["mean"], config["std"])


def _torchvision(torchvision: Any, name: str, s: Settings, classes: int, place: Place) -> nn.Module:
    plain = {"aux_logits": False, "init_weights": True} if name in ("googlenet", "inception_v3") else {}
    depth = {"stochastic_depth_prob": s.drop_path} if s.drop_path else {}
    try:
        model: nn.Module = torchvision.models.get_model(name, num_classes=classes, **plain, **depth)
    except TypeError as e:
        raise _no_depth(s) if "stochastic_depth_prob" in str(e) else e from e
    if not s.pretrained and not s.weights:
        return model
    with weights.first_of_node(place):
        state, path = (weights.read(s.weights, s.blurpool), s.weights) if s.weights else weights.published(name)
    if plain:
        model.transform_input = True  # type: ignore[assignment,unused-ignore] # the published weights want it
    anew = weights.put(model, state, path, classes)
    if place.rank == 0:
        print(f"weights: {path}{f'; new for {classes} classes: ' + ', '.join(anew) if anew else ''}", flush=True)
    return model


def _timm(timm: Any, name: str, s: Settings, classes: int, place: Place) -> nn.Module:
    options = (
        weights.timm_options(name, s.weights, s.blurpool) if s.weights else {"pretrained": s.pretrained, "num_classes": classes}
    )
    options |= {"drop_path_rate": s.drop_path} if s.drop_path else {}
    with weights.first_of_node(place) if s.pretrained or s.weights else contextlib.nullcontext():
        try:
            try:
                model: Any = timm.create_model(name, img_size=s.size, **options)
            except TypeError as e:
                if "img_size" not in str(e):
                    raise
                model = timm.create_model(name, **options)  # convolutional models take no size
        except Exception as e:
            raise _timm_error(timm, name, s, e) from e
    if s.weights:
        model.pretrained_cfg["state_dict"] = None  # it would be copied with the model
        if options["num_classes"] != classes:  # taken strictly, and only then given another head
            model.reset_classifier(classes)
    if place.rank == 0 and (s.pretrained or s.weights):
        theirs = model.pretrained_cfg["num_classes"]
        head = f"; a new head for {classes} classes" if theirs != classes else ""
        print(f"weights: {s.weights or model.pretrained_cfg['hf_hub_id']}{head}", flush=True)
    return cast(nn.Module, model)


def _no_depth(s: Settings) -> TrainError:
    return TrainError(f"--drop-path {s.drop_path:g}: {s.arch} has no stochastic depth; timm's model of that name may have it")


def _timm_error(timm: Any, name: str, s: Settings, e: Exception) -> TrainError:
    if "drop_path_rate" in str(e):
        return _no_depth(s)
    if s.weights:
        return TrainError(f"{s.weights} does not fit {s.arch}: {str(e)[:300]}")
    source = timm.get_pretrained_cfg(name).hf_hub_id if s.pretrained else None
    if not source:
        return TrainError(f"--arch {s.arch}: {str(e)[:300]}")
    return TrainError(
        f"--pretrained: the weights of {s.arch}, {source} on timm's hub, are not on this machine and can't be fetched "
        f"({str(e)[:200]}). Where there is a network, fetch its model.safetensors, and say --weights FILE here"
    )
