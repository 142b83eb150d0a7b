"""timm's policies: from the objects that its create_transform makes, back to their strings.

The objects do not keep their strings. So a string is made from their content, and timm's policy of it compared with them.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import Any

#: Classes of timm.data.auto_augment, and its functions that make them of strings.
MAKERS = {
    "RandAugment": "rand_augment_transform",
    "AutoAugment": "auto_augment_transform",
    "AugMixAugment": "augment_and_mix_transform",
}
_TRANSLATE = {"AugMixAugment": 0.3}  # of a side, at the largest magnitude, as create_transform has it
_TRANSLATE_OTHERS = 0.45


def is_policy(step: Any) -> bool:
    """Return whether an object is a policy of timm."""
    return type(step).__module__ == "timm.data.auto_augment" and type(step).__name__ in MAKERS


def policy_config(step: Any) -> str | None:
    """Return the string from which timm makes this policy, or None."""
    kind, first = type(step).__name__, _steps(step)[0]
    if first.hparams.get("translate_pct", _TRANSLATE_OTHERS) != _TRANSLATE.get(kind, _TRANSLATE_OTHERS):
        return None
    timm = importlib.import_module("timm.data.auto_augment")
    others = {
        name: value for name, value in first.hparams.items() if not name.startswith("magnitude_")
    }  # those are in the string
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


def _steps(step: Any) -> list[Any]:
    return [one for pair in step.policy for one in pair] if hasattr(step, "policy") else list(step.ops)


def _content(step: Any) -> tuple[Any, ...]:
    return (
        [(one.name, one.prob, one.magnitude, one.magnitude_std, one.magnitude_max, one.kwargs) for one in _steps(step)],
        [len(pair) for pair in getattr(step, "policy", [])],
        getattr(step, "choice_weights", None) is None,
        *(getattr(step, name, None) for name in ("num_layers", "width", "depth", "alpha", "blended")),
    )
