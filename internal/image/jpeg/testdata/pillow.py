"""Decodes and makes JPEG files with Pillow for the Go tests. Reads requests, one a line:

    open PATH                                               answered by "width height", newline, RGB bytes
    make W H MODE QUALITY SUBSAMPLING PROGRESSIVE SEED PATH  the same, after saving a picture of that kind to PATH

or by "error message", and

    judge LENGTH...                                         followed by files of so many bytes, one after the other

answered by a line for each file: "width height" and the RGB bytes' SHA-256 in hexadecimal digits, or "error message". SUBSAMPLING is 0 (4:4:4), 1 (4:2:2) or 2 (4:2:0).
"""

import hashlib
import io
import random
import sys
from PIL import Image, features

Image.MAX_IMAGE_PIXELS = None
PIXELS_MAX = 1 << 18


def picture(width, height, mode, seed):
    """Smooth shapes with some noise, so that blocks have few and many coefficients."""
    rng = random.Random(seed)
    bands = len(Image.new(mode, (1, 1)).getbands())
    small = (width // 6 + 2, height // 6 + 2)
    smooth = Image.frombytes(mode, small, rng.randbytes(small[0] * small[1] * bands)).resize((width, height), Image.BICUBIC)
    noise = Image.frombytes(mode, (width, height), rng.randbytes(width * height * bands))
    return Image.blend(smooth, noise, 0.1 * (seed % 3))


def answer(request):
    command, _, rest = request.partition(" ")
    if command == "make":
        width, height, mode, quality, subsampling, progressive, seed, path = rest.split(" ", 7)
        image = picture(int(width), int(height), mode, int(seed))
        options = {} if mode == "L" else {"subsampling": int(subsampling)}
        encoded = io.BytesIO()
        image.save(encoded, "JPEG", quality=int(quality), progressive=progressive == "1", **options)
        with open(path, "wb") as file:
            file.write(encoded.getvalue())
        decoded = Image.open(encoded).convert("RGB")
    else:
        decoded = Image.open(rest).convert("RGB")
    return b"%d %d\n" % decoded.size + decoded.tobytes()


def judge(lengths, files):
    """Say of each file what decoding it gives."""
    for data in [files.read(int(n)) for n in lengths.split()]:  # all are read first: who writes them reads the answers later
        try:
            image = Image.open(io.BytesIO(data))
            if image.width * image.height > PIXELS_MAX:
                raise ValueError("too many pixels to be judged")
            pixels = image.convert("RGB").tobytes()
            yield b"%d %d %s\n" % (*image.size, hashlib.sha256(pixels).hexdigest().encode())
        except Exception as error:
            yield failure(error)


def failure(error):
    """Put an exception into a line."""
    return f"error {type(error).__name__}: {error}".replace("\n", " ").encode() + b"\n"


out = sys.stdout.buffer
out.write(f"Pillow {Image.__version__} libjpeg {features.version('jpg')}\n".encode())
out.flush()
for line in sys.stdin.buffer:
    request = line.decode().rstrip("\n")
    if request.startswith("judge "):
        out.write(b"".join(judge(request[6:], sys.stdin.buffer)))
    else:
        try:
            out.write(answer(request))
        except Exception as error:  # any failure is an answer
            out.write(failure(error))
    out.flush()
