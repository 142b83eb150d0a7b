"""Small images of every kind, and what Pillow's Image.open(f).convert("RGB") makes of them.

Run: python3 kinds.py  (needs Pillow 13 and numpy). Writes kinds/NAME.EXT and, as raw pixels, kinds/NAME.EXT.rgb after
their width and height as two bytes. unusual/ has kinds that Pillow reads and few programs write.
"""

import io
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image

W, H = 19, 13
OUT = pathlib.Path(__file__).parent


def png(depth: int, colour: int, rows: bytes, extra: tuple[tuple[bytes, bytes], ...] = ()) -> bytes:
    """A PNG from its packed rows, for kinds that Pillow does not write."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    stride = len(rows) // H
    filtered = b"".join(b"\0" + rows[y * stride : (y + 1) * stride] for y in range(H))
    head = struct.pack(">IIBBBBB", W, H, depth, colour, 0, 0, 0)
    body = b"".join(chunk(n, d) for n, d in extra) + chunk(b"IDAT", zlib.compress(filtered)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + body


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buf = io.BytesIO()
    image.save(buf, kind, **options)
    return buf.getvalue()


def animated(canvas: tuple[int, int], frames: list[tuple[int, int, bytes]]) -> bytes:
    """A WebP of still ones at offsets of their own, on an opaque background; what Pillow writes begins at (0, 0)."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    def numbers(*values: int) -> bytes:
        return b"".join(struct.pack("<I", v)[:3] for v in values)

    body = chunk(b"VP8X", b"\2\0\0\0" + numbers(canvas[0] - 1, canvas[1] - 1)) + chunk(b"ANIM", b"\x10\x20\x30\xff\0\0")
    for x, y, still in frames:
        body += chunk(b"ANMF", numbers(x // 2, y // 2, W - 1, H - 1, 100) + b"\0" + still[12:])
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def bmp(bits: int, pixels: bytes, header: int = 40, palette: bytes = b"", colours: int = 0, masks: tuple[int, ...] = (), gap: int = 0, height: int = H) -> bytes:
    """A BMP of kinds that Pillow does not write. Its last row has no padding."""
    if header == 12:
        head = struct.pack("<IHHHH", 12, W, height, 1, bits)
    else:
        head = struct.pack("<IiiHHIIiiII", header, W, height, 1, bits, 3 if masks else 0, 0, 0, 0, colours, 0)
        head = (head + struct.pack(f"<{len(masks)}I", *masks)).ljust(header, b"\0")
    stride = (W * bits + 31) // 32 * 4
    used = stride * (abs(height) - 1) + (W * bits + 7) // 8
    start = 14 + len(head) + len(palette) + gap
    return b"BM" + struct.pack("<IHHI", start + used, 0, 0, start) + head + palette + bytes(gap) + pixels[:used]


def unusual() -> dict[str, bytes]:
    rng = np.random.default_rng(8)
    pixels = rng.integers(0, 256, 4 * (W + 3) * H, dtype=np.uint8).tobytes()
    palette = rng.integers(0, 256, 1024, dtype=np.uint8).tobytes()
    ramp = b"".join(bytes((i, i, i, 0)) for i in range(256))
    out = {
        "rgb555.bmp": bmp(16, pixels),
        "rgb565.bmp": bmp(16, pixels, masks=(0xF800, 0x7E0, 0x1F), gap=3),
        "rgb565-v4.bmp": bmp(16, pixels, 108, masks=(0xF800, 0x7E0, 0x1F, 0)),
        "os2.bmp": bmp(24, pixels, 12),
        "os2-palette.bmp": bmp(4, pixels, 12, palette[:48]),
        "os2-v2.bmp": bmp(24, pixels, 64),
        "gap.bmp": bmp(24, pixels, gap=6, height=-H),
        "rgbx.bmp": bmp(32, pixels),
        "palette1.bmp": bmp(1, pixels, palette=palette[:8]),
        "palette-short.bmp": bmp(8, pixels, palette=palette[:400], colours=100),
        "grey-ramp.bmp": bmp(8, pixels, palette=ramp[:400], colours=100),
        "grey-two.bmp": bmp(8, pixels, palette=ramp[:4] + ramp[-4:], colours=2),
    }
    for i, masks in enumerate(((0xFF000000, 0xFF0000, 0xFF00, 0), (0xFF, 0xFF00, 0xFF0000, 0xFF000000), (0xFF000000, 0xFF00, 0xFF, 0xFF0000), (0, 0, 0, 0))):
        out[f"masks{i}.bmp"] = bmp(32, pixels, 124, masks=masks)
    out["no-palette.png"] = png(8, 3, pixels[: W * H])
    out["long-palette.png"] = png(2, 3, pixels[: (W + 3) // 4 * H], ((b"tRNS", b"\1"), (b"PLTE", palette[:99])))
    return out


def files() -> dict[str, bytes]:
    rng = np.random.default_rng(7)
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
    out = {}
    palette = bytes(rng.integers(0, 256, 768, dtype=np.uint8))
    for colour, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items():
        for depth in depths:
            stride = (W * channels[colour] * depth + 7) // 8
            rows = rng.integers(0, 256, H * stride, dtype=np.uint8)
            if (colour, depth) == (0, 16):
                rows[::4] = 0  # half of the values below 256
            plte = ((b"PLTE", palette[: 3 << depth]),) if colour == 3 else ()
            out[f"type{colour}-depth{depth}.png"] = png(depth, colour, rows.tobytes(), plte)
    plte, trns = (b"PLTE", palette), (b"tRNS", bytes(range(0, 250, 10)))
    indices = rng.integers(0, 256, W * H, dtype=np.uint8).tobytes()
    out["palette-transparent.png"] = png(8, 3, indices, (plte, trns))
    out["grey-transparent.png"] = png(8, 0, indices, ((b"tRNS", b"\0\x20"),))
    out["grey16-transparent.png"] = png(16, 0, b"\0\x20" * (W * H // 2) + b"\1\0" * (W * H // 2) + b"\0\0" * (W * H % 2), ((b"tRNS", b"\0\x20"),))
    out["rgb-transparent.png"] = png(8, 2, indices * 3, ((b"tRNS", b"\0\x20\0\x30\0\x40"),))
    rgb = Image.fromarray(rng.integers(0, 256, (H, W, 3), dtype=np.uint8))
    out["rgb.bmp"] = saved(rgb, "BMP")
    out["palette.bmp"] = saved(rgb.quantize(64), "BMP")
    out["grey.bmp"] = saved(rgb.convert("L"), "BMP")
    out["palette.gif"] = saved(rgb.quantize(32), "GIF")
    out["transparent.gif"] = saved(rgb.quantize(32), "GIF", transparency=3)
    out["grey.gif"] = saved(rgb.convert("L"), "GIF")
    for name in ("palette", "transparent"):  # a frame smaller than the screen, with a background colour
        small = bytearray(out[name + ".gif"])
        small[6:12] = struct.pack("<HHBB", W + 5, H + 3, small[10], 2)
        out[name + "-small-frame.gif"] = bytes(small)
    out["interlaced.gif"] = saved(rgb.quantize(32).resize((W + 2, H + 8)), "GIF")
    for name, height in (("palette", H), ("interlaced", H + 8)):  # data after the image: rows of pixels, bytes after the last code
        whole = bytearray(out[name + ".gif"])
        out[name + "-surplus.gif"] = bytes(whole[:-2] + b"\3abc" + whole[-2:])
        at = whole.index(struct.pack("<BHH", 0x2C, 0, 0)) + 7
        out[name + "-surplus-before.gif"] = bytes(whole[: at - 7] + b"\0\0" + whole[at - 7 :])
        whole[at : at + 2] = struct.pack("<H", height - 3)
        out[name + "-surplus-small-frame.gif"] = bytes(whole)
    out["lossless.webp"] = saved(rgb, "WEBP", lossless=True)
    alpha = rgb.copy()
    alpha.putalpha(Image.fromarray(rng.integers(0, 256, (H, W), dtype=np.uint8)))
    out["alpha-lossless.webp"] = saved(alpha, "WEBP", lossless=True, exact=True)
    out["bytes.jpg"] = saved(rgb, "JPEG", quality=90)
    out["grey.jpg"] = saved(rgb.convert("L"), "JPEG", quality=90)
    out["cmyk.jpg"] = saved(rgb.convert("CMYK"), "JPEG", quality=90)
    out["lossy.webp"] = saved(rgb, "WEBP", quality=80)
    out["alpha-lossy.webp"] = saved(alpha, "WEBP", quality=80)
    out["animated.webp"] = animated((24, 17), [(4, 2, out["lossy.webp"]), (0, 0, out["lossless.webp"])])
    return out


def main() -> None:
    for folder, made in (("kinds", files()), ("unusual", unusual())):
        (OUT / folder).mkdir(exist_ok=True)
        for name, data in made.items():
            (OUT / folder / name).write_bytes(data)
            image = Image.open(io.BytesIO(data)).convert("RGB")
            (OUT / folder / (name + ".rgb")).write_bytes(bytes(image.size) + image.tobytes())


if __name__ == "__main__":
    main()
