"""Prints what torchvision's policies choose from, as JSON: the magnitudes for images of two sizes, and AutoAugment's pairs."""

import json

from torchvision.transforms import (
    AugMix,
    AutoAugment,
    AutoAugmentPolicy,
    RandAugment,
    TrivialAugmentWide,
)


def magnitudes(space: dict) -> dict:
    return {
        name: [float(m) for m in values] if values.ndim else []
        for name, (values, _) in space.items()
    }


def main() -> None:
    sizes = [(224, 224), (161, 97)]
    print(
        json.dumps(
            {
                "rand": [
                    magnitudes(RandAugment()._augmentation_space(31, size))
                    for size in sizes
                ],
                "wide": [
                    magnitudes(TrivialAugmentWide()._augmentation_space(31))
                    for _ in sizes
                ],
                "mix": [
                    magnitudes(AugMix()._augmentation_space(10, size)) for size in sizes
                ],
                "policies": {
                    p.value: AutoAugment(p).policies for p in AutoAugmentPolicy
                },
            }
        )
    )


if __name__ == "__main__":
    main()
