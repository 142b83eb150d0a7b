"""Reference for the Go tests: answers requests on stdin with what Pillow does.

resize SRC_W SRC_H OUT_W OUT_H FILTER X0 Y0 X1 Y1   then SRC_W*SRC_H*3 bytes of RGB
    -> the box X0,Y0,X1,Y1 of the resized image, RGB
weights IN OUT FROM N FILTER
    -> int32 taps; N int32 first inputs; N int32 counts; N*taps int32 weights, those of one output together
"""
import math
import sys
from array import array

from PIL import Image

FILTERS = {
    "nearest": Image.NEAREST,
    "box": Image.BOX,
    "bilinear": Image.BILINEAR,
    "hamming": Image.HAMMING,
    "bicubic": Image.BICUBIC,
    "lanczos": Image.LANCZOS,
}


def float32(x):
    return array("f", [x])[0]


def box(x):
    return 1.0 if -0.5 < x <= 0.5 else 0.0


def bilinear(x):
    x = abs(x)
    return 1.0 - x if x < 1.0 else 0.0


def hamming(x):
    x = abs(x)
    if x == 0.0:
        return 1.0
    if x >= 1.0:
        return 0.0
    x = x * math.pi
    return math.sin(x) / x * (float32(0.54) + float32(0.46) * math.cos(x))


def bicubic(x):
    a = -0.5
    x = abs(x)
    if x < 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    if x < 2.0:
        return (((x - 5) * x + 8) * x - 4) * a
    return 0.0


def sinc(x):
    if x == 0.0:
        return 1.0
    x = x * math.pi
    return math.sin(x) / x


def lanczos(x):
    return sinc(x) * sinc(x / 3) if -3.0 <= x < 3.0 else 0.0


SUPPORT = {
    "box": (box, 0.5),
    "bilinear": (bilinear, 1.0),
    "hamming": (hamming, 1.0),
    "bicubic": (bicubic, 2.0),
    "lanczos": (lanczos, 3.0),
}


def weights(size, out, start, n, name):
    """Pillow's precompute_coeffs and normalize_coeffs_8bpc, operation by operation, in Python's doubles."""
    function, support = SUPPORT[name]
    scale = float32(size) / out
    filterscale = max(scale, 1.0)
    support = support * filterscale
    taps = int(math.ceil(support)) * 2 + 1
    lows, counts, table = array("i"), array("i"), array("i")
    for i in range(start, start + n):
        center = (i + 0.5) * scale
        ss = 1.0 / filterscale
        low = max(int(center - support + 0.5), 0)
        count = min(int(center + support + 0.5), size) - low
        k = [function((x + low - center + 0.5) * ss) for x in range(count)]
        total = 0.0
        for w in k:
            total += w
        if total != 0.0:
            k = [w / total for w in k]
        k += [0.0] * (taps - count)
        table.extend(int(-0.5 + w * (1 << 22)) if w < 0 else int(0.5 + w * (1 << 22)) for w in k)
        lows.append(low)
        counts.append(count)
    return array("i", [taps]).tobytes() + lows.tobytes() + counts.tobytes() + table.tobytes()


def answer(stdin, words):
    if words[0] == "resize":
        src_w, src_h, out_w, out_h = map(int, words[1:5])
        pixels = stdin.read(src_w * src_h * 3)
        image = Image.frombytes("RGB", (src_w, src_h), pixels).resize((out_w, out_h), FILTERS[words[5]])
        return image.crop(tuple(map(int, words[6:10]))).tobytes()
    if words[0] == "weights":
        return weights(*map(int, words[1:5]), words[5])
    raise ValueError(words)


def main():
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while line := stdin.readline():
        data = answer(stdin, line.decode().split())
        stdout.write(array("i", [len(data)]).tobytes())
        stdout.write(data)
        stdout.flush()


main()
