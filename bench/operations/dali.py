"""DALI's operations for run.py: those it has of run.py's, as pipelines on the CPU that are used as DALI means them to be.

A pipeline takes batches of BATCH images out of memory, without a copy, and has one thread. It runs in turn with what waits for it: on one
core its readying of batches ahead brings nothing, and would spread a batch's time over several calls. An operation's time is what it adds to a
pipeline that hands on the images' shapes only, not the images: a pipeline without any operation copies the batch out, which a pipeline with
one does not, as what the operation writes is handed on as it is.

DALI takes a batch through an operation, imgfeed an image through all: DALI's images come from the last cache or memory, imgfeed's from the first caches.
That is the way of each, and is left as it is.
"""

import time
import warnings
from collections.abc import Callable
from importlib.metadata import distributions
from typing import Any

import numpy as np
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.auto_aug import (
    augmentations,
    auto_augment,
    rand_augment,
    trivial_augment,
)

BATCH = 64
NEAREST, LINEAR = types.INTERP_NN, types.INTERP_LINEAR
Body = Callable[[Any], Any]


def level(value: int) -> Any:
    return types.Constant(value, dtype=types.UINT8)


def solarize(x: Any) -> Any:
    """As its auto_aug has it, with a constant threshold: one fused operator of arithmetic."""
    kept = x < level(128)
    return kept * x + (kept ^ True) * (level(255) - x)


def sharpness(x: Any) -> Any:
    """As its auto_aug has it: Pillow's smoothing kernel blended into the filter, here by 1.7."""
    smooth = np.float32([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13
    same = np.float32([[0, 0, 0], [0, 1, 0], [0, 0, 0]])
    return fn.filter(x, types.Constant(np.float32(1.7 * same - 0.7 * smooth)))


def operations() -> dict[str, tuple[Body, str]]:
    """Each operation by run.py's name, with why its results are not torchvision's, where they are not."""
    listed: dict[str, tuple[Body, str]] = {}
    tangent = float(np.tan(np.radians(11.3)))
    for name, how, why in (("nearest", NEAREST, "rounding of positions"), ("bilinear", LINEAR, "mixes the fill in at borders, rounds otherwise")):
        kept = {"interp_type": how, "fill_value": 0}
        listed[f"rotate by 15 degrees, {name}"] = (lambda x, kept=kept: fn.rotate(x, angle=15.0, keep_size=True, **kept), why)
        for axis, matrix in (("x", [1, tangent, 0, 0, 1, 0]), ("y", [1, 0, 0, tangent, 1, 0])):
            slant = {"matrix": [float(v) for v in matrix], **kept}
            listed[f"shear along {axis}, {name}"] = (lambda x, slant=slant: fn.warp_affine(x, **slant), why)
    for kernel in (3, 23):
        blur = {"window_size": kernel, "sigma": 1.5}
        listed[f"torchvision's blur, kernel {kernel}"] = (lambda x, blur=blur: fn.gaussian_blur(x, **blur), "rounding")
    return listed | {
        "vertical flip": (lambda x: fn.flip(x, horizontal=0, vertical=1), ""),
        "invert": (augmentations.invert, ""),
        "posterize": (lambda x: x & level(0xF0), ""),
        "solarize": (solarize, ""),
        "autocontrast": (augmentations.auto_contrast, "rounding; five operators, as its auto_aug has it"),
        "equalize": (fn.equalize, "OpenCV's formula"),
        "grayscale": (lambda x: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.GRAY), "one channel, not three; rounding"),
        "sharpness": (sharpness, "sharpens the border, too; rounds once"),
        "brightness": (lambda x: fn.brightness(x, brightness=1.3), "rounding"),
        "contrast": (lambda x: fn.contrast(x, contrast=1.3), "about level 128, not the image's mean"),
        "saturation": (lambda x: fn.saturation(x, saturation=1.3), "a matrix for all colours; rounding"),
        "hue": (lambda x: fn.hue(x, hue=36.0), "a rotation in YIQ, not in HSV"),
        "color jitter, all four": (
            lambda x: fn.color_twist(x, brightness=1.3, contrast=1.3, saturation=1.3, hue=36.0),
            "one matrix in one order; contrast and hue as above",
        ),
    }


def policies() -> dict[str, tuple[Body, str]]:
    """Each policy by run.py's name, with torchvision's defaults of interpolation and fill, and what is not torchvision's."""
    alike = {"shape": (224, 224), "fill_value": 0, "interp_type": NEAREST}
    why = "draws and ranges of its own"
    return {
        "AutoAugment": (lambda x: auto_augment.auto_augment(x, "image_net", **alike), why),
        "RandAugment(2, 9)": (lambda x: rand_augment.rand_augment(x, 2, 9, **alike), why),
        "TrivialAugmentWide": (lambda x: trivial_augment.trivial_augment_wide(x, **alike), why),
    }


class Pipelines:
    """Pipelines that all take the same batch: copies of one image, each in memory of its own."""

    def __init__(self, image: np.ndarray) -> None:
        self.batch = np.stack([image] * BATCH)
        self.alone = self.build(lambda x: x.shape())

    def build(self, body: Body, choosing: bool = False) -> Any:
        """Return a pipeline that has run; choosing is for bodies that do different things to images of a batch."""
        with warnings.catch_warnings(record=True):  # auto_aug's own calls are of deprecated names, which no filter silences

            @pipeline_def(
                batch_size=BATCH, num_threads=1, device_id=None, seed=1, exec_async=False, exec_pipelined=False, enable_conditionals=choosing
            )
            def pipeline() -> Any:
                source = {"batch": True, "no_copy": True, "layout": "HWC", "dtype": types.UINT8, "ndim": 3}
                return body(fn.external_source(source=lambda: self.batch, **source))

            made = pipeline()
            made.build()
        for _ in range(2):
            made.run()
        return made

    def shortest(self, pipeline: Any, seconds: float) -> float:
        """Return what a pipeline adds to an empty one, by the shortest run of each: microseconds of CPU time for an image."""
        return self._run(pipeline, 3 * seconds / 4, min) - self._run(self.alone, seconds / 4, min)

    def mean(self, pipeline: Any, seconds: float) -> float:
        """Return the same by the mean of the pipeline's runs, whose draws differ."""
        return self._run(pipeline, seconds, lambda times: sum(times) / len(times)) - self._run(self.alone, 0.05, min)

    def alone_and_copying(self, seconds: float) -> tuple[float, float]:
        """Return what the empty pipeline takes, and what one adds that hands the images on."""
        return self._run(self.alone, seconds, min), self.shortest(self.build(lambda x: x), seconds)

    @staticmethod
    def _run(pipeline: Any, seconds: float, of: Callable[[list[float]], float]) -> float:
        """Run for as many seconds, twice at least. It is CPU time, of DALI's thread and Python's: a batch is long enough to be interrupted."""
        times: list[float] = []
        began = time.perf_counter()
        while len(times) < 2 or time.perf_counter() - began < seconds:
            started = time.process_time()
            pipeline.run()
            times.append(time.process_time() - started)
        return of(times) * 1e6 / BATCH


def difference(pipeline: Any, expected: np.ndarray, why: str) -> str:
    """Say how the pipeline's image differs from the one expected; of a single channel, from the first."""
    made = np.asarray(pipeline.run()[0].at(0))
    off = np.abs(made.astype(int) - expected[..., : made.shape[2]])
    if not off.any() and made.shape == expected.shape:
        return "same"
    share = (off > 0).mean() * 100
    return f"{f'{share:.1f}' if share >= 0.05 else 'under 0.1'} % of values off by up to {off.max()}: {why}"


def version() -> str:
    """Return the distribution's name and version: CUDA's is part of the name."""
    return next(f"{d.name} {d.version}" for d in distributions() if d.name.startswith("nvidia-dali"))
