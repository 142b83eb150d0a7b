"""Prints what timm makes of its strings and of magnitudes, as JSON."""

import json
import math
import random

import numpy as np
from timm.data import auto_augment as timm
from timm.data import create_transform

CONFIGS = [
    "rand-m9-mstd0.5-inc1", "rand-m7-n3-p0.7", "rand-mstd101", "rand-m15-mmax20-inc1", "rand", "3a",
    "original-mstd0.5", "originalr", "v0", "v0r-mstd1", "augmix-m5-w4-d2-a0.5", "augmix-mstd0.3", "augmix-m5-b1",
]  # fmt: skip


def steps(ops: list) -> list:
    return [[op.name, op.prob, op.magnitude] for op in ops]


def transform(config: str) -> dict:
    made = create_transform(224, is_training=True, auto_augment=config).transforms[2]
    if config.startswith("rand"):
        return {
            "policies": [steps(made.ops)],
            "layers": made.num_layers,
            **spread(made.ops[0]),
        }
    if config.startswith("augmix"):
        return {
            "policies": [steps(made.ops)],
            "width": made.width,
            "depth": made.depth,
            "alpha": made.alpha,
            "blends": made.blended,
            **spread(made.ops[0]),
        }
    return {
        "policies": [steps(policy) for policy in made.policy],
        **spread(made.policy[0][0]),
    }


def spread(op: timm.AugmentOp) -> dict:
    deviation = op.magnitude_std
    return {
        "deviation": -1 if math.isinf(deviation) else deviation,
        "bound": op.magnitude_max or 10,
        "translate": op.hparams.get("translate_pct", 0.45),
    }


def main() -> None:
    assert np.__version__ and random.random is not None
    random.random = lambda: 0.0  # nothing is negated
    magnitudes = [k / 2 for k in range(25)]
    levels = {
        name: [level(m, dict(timm._HPARAMS_DEFAULT))[0] for m in magnitudes]
        for name, level in timm.LEVEL_TO_ARG.items()
        if level is not None
    }
    print(
        json.dumps(
            {
                "configs": {config: transform(config) for config in CONFIGS},
                "magnitudes": magnitudes,
                "levels": levels,
            }
        )
    )


if __name__ == "__main__":
    main()
