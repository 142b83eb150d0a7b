"""WebP files of many sizes and kinds, and what Pillow's Image.open(f).convert("RGB") makes of them.

Writes records to standard output: lengths of name and file, width, height, then name, file and pixels.
"""

import io
import itertools
import random
import struct
import sys

from kinds import animated, saved
from PIL import Image

SIZES = 40


def picture(rng: random.Random, mode: str, w: int, h: int) -> Image.Image:
    """Noise, or noise made larger, which has both edges and smooth areas."""
    coarse = rng.choice((1, 1, 3, 8))
    small = (max(w // coarse, 1), max(h // coarse, 1))
    image = Image.frombytes(mode, small, rng.randbytes(small[0] * small[1] * len(mode)))
    return image.resize((w, h), Image.Resampling.BICUBIC)


def record(name: str, data: bytes) -> None:
    image = Image.open(io.BytesIO(data)).convert("RGB")
    sys.stdout.buffer.write(struct.pack("<4I", len(name), len(data), *image.size) + name.encode() + data + image.tobytes())


def main() -> None:
    rng = random.Random(3)
    for w, h in itertools.product(range(1, SIZES + 1), repeat=2):
        quality, method = rng.choice((0, 20, 50, 75, 90, 100)), rng.randrange(5)
        record(f"lossy {w}x{h}", saved(picture(rng, "RGB", w, h), "WEBP", quality=quality, method=method))
        kind = (w + h) % 8
        if kind == 0:
            options = {"quality": quality, "method": method, "alpha_quality": rng.choice((0, 60, 100))}
            record(f"lossy {w}x{h} with alpha", saved(picture(rng, "RGBA", w, h), "WEBP", **options))
        elif kind == 1:
            options = {"lossless": True, "exact": True, "quality": quality, "method": method}
            record(f"lossless {w}x{h} with alpha", saved(picture(rng, "RGBA", w, h), "WEBP", **options))
        elif kind == 2:
            record(f"lossless {w}x{h}", saved(picture(rng, "RGB", w, h), "WEBP", lossless=True, method=method))
        elif kind == 3:
            frames = [picture(rng, "RGBA", w, h) for _ in range(3)]
            options = {"save_all": True, "append_images": frames[1:], "quality": quality, "allow_mixed": True}
            record(f"animated {w}x{h}", saved(frames[0], "WEBP", **options))
    for w, h, quality in ((500, 333, 75), (256, 640, 30), (333, 499, 95)):
        record(f"lossy {w}x{h}", saved(picture(rng, "RGB", w, h), "WEBP", quality=quality))
        record(f"lossless {w}x{h}", saved(picture(rng, "RGB", w, h).quantize(12).convert("RGB"), "WEBP", lossless=True))
    for x, y in itertools.product(range(0, 12, 2), repeat=2):
        still = saved(picture(rng, "RGB", 19, 13), "WEBP", quality=rng.randrange(101), lossless=rng.random() < 0.3)
        record(f"frame at ({x}, {y})", animated((30, 24), [(x, y, still), (0, 0, still)]))


if __name__ == "__main__":
    main()
