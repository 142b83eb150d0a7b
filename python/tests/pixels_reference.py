"""A slow decoder of pixels blobs, written from docs/format/pixels.md alone.

It is there to be compared with the fast one: it shares no code with it and follows the document section by section.
"""

import importlib.util
import struct

DEFAULT_GROUPS = [
    (0, 0), (8, -128), (4, -7), (6, -40), (3, -3), (5, -16), (2, -1), (7, -64),
    (2, -2), (3, -5), (4, -10), (5, -10), (4, -4), (5, -22), (3, -2), (6, -24),
]  # fmt: skip

BITPACK, ZSTD, LZ4, NONE = 1, 2, 3, 4


class FormatError(ValueError):
    """The blob is malformed."""


def decode(blob: bytes, groups=DEFAULT_GROUPS) -> tuple[int, int, bytes]:
    """Return width, height and the R, G, B bytes of the image in blob, row after row."""
    if len(blob) < 8:
        raise FormatError("the header is cut short")
    width, height, band_log, codec, zero = struct.unpack_from("<HHBBH", blob)
    if not (1 <= width <= 16384 and 1 <= height <= 16384 and 1 <= band_log <= 15 and zero == 0):
        raise FormatError("the header is out of range")
    if codec == NONE:
        if len(blob) != 8 + 3 * width * height:
            raise FormatError("the length is not what the width and height ask for")
        return width, height, blob[8:]
    if codec not in (BITPACK, ZSTD, LZ4):
        raise FormatError(f"unknown codec {codec}")
    band_rows = 1 << band_log
    bands = -(-height // band_rows)
    offsets = struct.unpack_from(f"<{bands}I", blob, 8)
    pixels = bytearray()
    for band, offset in enumerate(offsets):
        rows = min(band_rows, height - band * band_rows)
        if not 8 + 4 * bands <= offset <= len(blob):
            raise FormatError("a band offset is out of range")
        residuals = band_residuals(blob, offset, codec, width=width, rows=rows, groups=groups)
        pixels += band_pixels(residuals, width, rows)
    return width, height, bytes(pixels)


def band_residuals(blob, offset, codec, *, width, rows, groups) -> bytes:
    """Return a band's residuals in the order of the document: pair, chunk, plane, row, column."""
    chunks, pairs = -(-width // 32), -(-rows // 2)
    if codec == BITPACK:
        residuals = bytearray()
        for _ in range(pairs):
            offset, pair = unpack_pair(blob, offset, chunks, groups)
            residuals += pair
        return bytes(residuals)
    size = 192 * chunks * pairs
    (length,) = struct.unpack_from("<I", blob, offset)
    body = blob[offset + 4 : offset + 4 + length]
    if len(body) != length or length > size:
        raise FormatError("a band's length is out of range")
    if length == size:
        return body
    expanded = expand_lz4(body) if codec == LZ4 else expand_zstd(body)
    if len(expanded) != size:
        raise FormatError("a band does not expand to its residuals")
    return expanded


def unpack_pair(blob, offset, chunks, groups) -> tuple[int, bytes]:
    """Return where the next pair of rows starts, and the residuals of the one at offset."""
    (half,) = struct.unpack_from("<H", blob, offset)
    headers = offset + 2
    at = headers + 6 * chunks
    end = at + 2 * half
    if end > len(blob):
        raise FormatError("a pair of rows is cut short")
    residuals = bytearray()
    for chunk in range(chunks):
        for plane in range(3):
            first, second = blob[headers + 6 * chunk + 2 * plane :][:2]
            codes = [first & 15, first >> 4, second & 15, second >> 4]
            for _row in range(2):
                for code in codes:
                    planes, lowest = groups[code]
                    if at + planes > end:
                        raise FormatError("a pair's groups are longer than its payload")
                    for column in range(8):
                        value = sum((blob[at + j] >> column & 1) << j for j in range(planes))
                        residuals.append((value + lowest) % 256)
                    at += planes
    if at != end:
        raise FormatError("a pair's groups are shorter than its payload")
    return end, bytes(residuals)


def band_pixels(residuals, width, rows) -> bytes:
    """Return the pixels of a band from its residuals."""
    chunks = -(-width // 32)
    samples = [[[0] * (32 * chunks) for _ in range(rows + rows % 2)] for _plane in range(3)]
    source = iter(residuals)
    for top in range(0, rows, 2):
        for chunk in range(chunks):
            for plane in samples:
                for y in (top, top + 1):
                    for x in range(32 * chunk, 32 * chunk + 32):
                        left = plane[y][x - 1] if x % 32 else 128
                        prediction = plane[y - 1][x] if y > 0 else left
                        plane[y][x] = (prediction + next(source)) % 256
    out = bytearray()
    for y in range(rows):
        for x in range(width):
            g, r_g, b_g = (plane[y][x] for plane in samples)
            out += bytes(((r_g + g - 128) % 256, g, (b_g + g - 128) % 256))
    return bytes(out)


def expand_lz4(block: bytes) -> bytes:
    """Expand an LZ4 block: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md."""
    out = bytearray()
    at = 0

    def length(nibble: int) -> int:
        nonlocal at
        total = nibble
        while nibble == 15:
            total += block[at]
            at += 1
            if block[at - 1] != 255:
                break
        return total

    while at < len(block):
        token = block[at]
        at += 1
        literals = length(token >> 4)
        out += block[at : at + literals]
        at += literals
        if at >= len(block):
            break
        (distance,) = struct.unpack_from("<H", block, at)
        at += 2
        if not 1 <= distance <= len(out):
            raise FormatError("an LZ4 match starts before the block")
        for _ in range(4 + length(token & 15)):
            out.append(out[-distance])
    return bytes(out)


def expand_zstd(frame: bytes) -> bytes:
    """Expand a Zstandard frame with whichever library there is."""
    if importlib.util.find_spec("compression"):  # Python 3.14
        return importlib.import_module("compression.zstd").decompress(frame)
    return importlib.import_module("zstandard").ZstdDecompressor().decompressobj().decompress(frame)
