"""A slow reader of records of the encoding coefficients, written from docs/format/coefficients.md alone.

It takes a record apart to quantised coefficients, and makes the JPEG file again. It follows the document section by section.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "format" / "coefficients.md").read_text()
DICTIONARY = (ROOT / "internal" / "image" / "jpeg" / "dictionary.bin").read_bytes()
TABLE = DOCUMENT.split("<!-- presence codes -->")[1].split("```")[1]
PRESENCES = [int(word, 16) for word in re.findall(r"\b[0-9a-f]{4}\b", TABLE)]
ZIGZAG = sorted(range(64), key=lambda i: (i // 8 + i % 8, i // 8 if (i // 8 + i % 8) % 2 else i % 8))
DQT, SOF0, SOF1, DHT, DRI, SOS = 0xDB, 0xC0, 0xC1, 0xC4, 0xDD, 0xDA


class FormatError(ValueError):
    """The record is malformed."""


def check(condition: object, what: str) -> None:
    if not condition:
        raise FormatError(what)


@dataclass
class Component:
    across: int  # blocks in an MCU
    down: int
    dc: int = 0  # Huffman tables
    ac: int = 0


class Beginning:
    """The segments of a JPEG file up to its entropy-coded data, or those of a header."""

    def __init__(self, data: bytes) -> None:
        self.segments: list[tuple[int, int]] = []  # from the marker to the end
        self.interval = 0
        self.tables: dict[int, bytes] = {}  # by class and slot as in DHT: the counts and the symbols
        self.components: list[Component] = []  # of the scan, in its order
        frame: dict[int, Component] = {}
        check(data[:2] == b"\xff\xd8", "no SOI")
        at, marker = 2, 0
        while marker != SOS:
            while data[at + 1 : at + 2] == b"\xff":
                at += 1
            check(len(data) >= at + 4 and data[at] == 0xFF, "no marker")
            marker, (length,) = data[at + 1], struct.unpack_from(">H", data, at + 2)
            body = data[at + 4 : at + 2 + length]
            check(len(body) == length - 2, "a segment is cut short")
            self.segments.append((at, at + 2 + length))
            at += 2 + length
            if marker in {SOF0, SOF1}:
                check(body[0] == 8 and body[5] in {1, 3}, "another kind of frame")
                self.height, self.width = struct.unpack_from(">2H", body, 1)
                frame = {body[i]: Component(body[i + 1] >> 4, body[i + 1] & 15) for i in range(6, len(body), 3)}
            elif marker == DHT:
                while body:
                    end = 17 + sum(body[1:17])
                    self.tables[body[0]], body = body[1:end], body[end:]
            elif marker == DRI:
                (self.interval,) = struct.unpack(">H", body)
            elif marker == SOS:
                self.components = [frame[i] for i in body[1 : 1 + 2 * body[0] : 2]]
                check(len(self.components) == len(frame), "several scans")
                for component, slots in zip(self.components, body[2::2], strict=False):
                    component.dc, component.ac = slots >> 4, 0x10 | slots & 15
        self.size = at
        if len(self.components) == 1:  # its MCU is one block
            self.components[0].across = self.components[0].down = 1
        most = max(c.across for c in self.components), max(c.down for c in self.components)
        self.mcus_wide, self.mcus_high = -(-self.width // (8 * most[0])), -(-self.height // (8 * most[1]))

    def layout(self) -> tuple[int, int, list[tuple[int, int]]]:
        return self.mcus_wide, self.mcus_high, [(c.across, c.down) for c in self.components]


class Record:
    def __init__(self, data: bytes) -> None:
        check(len(data) >= 8 and data[:2] == b"\x01\x00", "another version")
        header, rest = struct.unpack_from("<HI", data, 2)
        at = 8 + header + rest
        check(at <= len(data), "header and rest are too long")
        self.header, self.rest = data[8 : 8 + header], data[8 + header : at]
        self.beginning = Beginning(self.header)
        check(self.beginning.size == header, "bytes behind SOS")
        self.quads = sum(c.across * c.down for c in self.beginning.components)  # in a batch
        batches = -(-self.beginning.mcus_wide // 4)
        self.row_tiles = [min(16, batches - first) for first in range(0, batches, 16)]
        count = len(self.row_tiles) * self.beginning.mcus_high
        check(at + 8 * count <= len(data), "the directory is cut short")
        directory = [struct.unpack_from("<4H", data, at + 8 * i) for i in range(count)]
        at += 8 * count
        self.rows: list[np.ndarray] = []  # of MCUs: quads of four blocks, tile after tile
        for y in range(self.beginning.mcus_high):
            tiles = []
            for x, batches in enumerate(self.row_tiles):
                quads, at = self.tile(data, at, directory[y * len(self.row_tiles) + x], batches)
                tiles.append(quads)
            self.rows.append(np.concatenate(tiles))
        check(at == len(data), "the tiles end elsewhere than the record")

    def tile(self, data: bytes, at: int, entry: tuple[int, ...], batches: int) -> tuple[np.ndarray, int]:
        """Return a tile's quads, and where the next one begins."""
        flags, cells_count, patches_count, planes_size = entry
        high, bundles = flags >> 15, flags & 0x7FFF
        quads = batches * self.quads
        chains = [c.across for c in self.beginning.components for _ in range(c.down)]  # the width of each in a batch
        fixed_count = (20 if high else 16) * quads

        def take(size: int) -> bytes:
            nonlocal at
            part, at = data[at : at + size], at + size
            check(len(part) == size, "a tile is cut short")
            return part

        carries = struct.unpack(f"<{len(chains)}h", take(2 * len(chains)))
        codes = take(quads)
        fixed_widths, widths = take(3 * -(-fixed_count // 64)), take(3 * bundles)
        cells = struct.unpack(f"<{cells_count}H", take(2 * cells_count))
        patches, planes = take(3 * patches_count), take(planes_size)

        out = np.zeros((quads, 4, 8, 8), np.int16)
        positions = list(coefficients_of(codes, cells))
        fixed, used = read_list(fixed_widths, planes, fixed_count)
        values, used_too = read_list(widths, planes[used:], len(positions))
        check(used + used_too == len(planes) and len(widths) == 3 * -(-len(positions) // 64), "a tile's parts are too long")
        for position, value in zip(positions, values, strict=True):
            out[position] = value + (value >= 0)

        lows = np.array(fixed[: 4 * quads]).reshape(quads, 4)
        highs = np.array(fixed[4 * quads : 8 * quads]).reshape(quads, 4) if high else 0
        differences = lows + 256 * highs
        first = 0
        for carry, wide in zip(carries, chains, strict=True):
            chain = [q for begin in range(first, quads, self.quads) for q in range(begin, begin + wide)]
            out[chain, :, 0, 0] = (carry + differences[chain].reshape(-1).cumsum()).astype(np.int16).reshape(-1, 4)
            first += wide
        for q, twelve in enumerate(np.array(fixed[-12 * quads :]).reshape(quads, 3, 4)):
            out[q, :, 0, 1], out[q, :, 1, 0], out[q, :, 1, 1] = twelve

        check(list(patches[::3]) == sorted(patches[::3]), "patches are out of order")
        for quad, packed, times in struct.iter_unpack("<BBb", patches):
            check(quad < quads, "a patch of a quad that is not there")
            out[quad, packed >> 3 & 3, packed >> 5, packed & 7] += 8 * times
        return out, at

    def blocks(self, row: int, mcu: int) -> Iterator[tuple[int, np.ndarray]]:
        """Give an MCU's blocks in the order of the scan, each with its component."""
        batch, within = divmod(mcu, 4)
        quad = batch * self.quads
        for i, component in enumerate(self.beginning.components):
            for _ in range(component.down):
                for x in range(component.across):
                    column = within * component.across + x
                    yield i, self.rows[row][quad + column // 4, column % 4]
                quad += component.across

    def file(self) -> bytes:
        """Make the JPEG file again."""
        inflate = zlib.decompressobj(-15, zdict=DICTIONARY)
        plain = inflate.decompress(self.rest, 1 << 24)
        check(inflate.eof and not inflate.unused_data, "the rest does not end where its data do")
        padding, at = plain[0], 1
        check(padding <= 1, "unknown padding")
        out, end = bytearray(self.header[:2]), 2
        for _, segment_end in self.beginning.segments:
            gap = shift = 0
            while True:
                gap |= (plain[at] & 0x7F) << shift
                at, shift = at + 1, shift + 7
                if plain[at - 1] < 0x80:
                    break
            check(gap <= len(plain) - at, "a gap is too long")
            out += plain[at : at + gap] + self.header[end:segment_end]
            at, end = at + gap, segment_end
        whole = Beginning(bytes(out))
        check(whole.layout() == self.beginning.layout() and whole.size == len(out), "the rest is another header's")
        return bytes(out) + self.scan(whole, padding) + plain[at:]

    def scan(self, whole: Beginning, padding: int) -> bytes:
        """Code the coefficients."""
        standard = Beginning(b"\xff\xd8" + DICTIONARY[4031:4463] + self.header[2:]).tables
        tables = {slot: codes_of(table) for slot, table in {**standard, **whole.tables}.items()}
        writer = Writer(padding)
        before = [0] * len(whole.components)
        mcus = ((y, x) for y in range(whole.mcus_high) for x in range(whole.mcus_wide))
        for n, (y, x) in enumerate(mcus):
            if whole.interval and n and n % whole.interval == 0:
                writer.end_segment()
                writer.out += bytes([0xFF, 0xD0 + (n // whole.interval - 1) % 8])
                before = [0] * len(before)
            for i, block in self.blocks(y, x):
                component = whole.components[i]
                zigzag = block.reshape(64)[ZIGZAG].tolist()
                writer.value(tables[component.dc], 0, zigzag[0] - before[i])
                before[i] = zigzag[0]
                run = 0
                last = max((k for k in range(64) if zigzag[k]), default=0)
                for value in zigzag[1 : last + 1]:
                    if value == 0:
                        run += 1
                        continue
                    for _ in range(run // 16):
                        writer.code(tables[component.ac], 0xF0)
                    writer.value(tables[component.ac], run % 16, value)
                    run = 0
                if last < 63:
                    writer.code(tables[component.ac], 0x00)
        writer.end_segment()
        return bytes(writer.out)


def coefficients_of(codes: bytes, cells: tuple[int, ...]) -> Iterator[tuple[int, int, int, int]]:
    """Give quad, block, row and column of each coefficient of the second list, in its order."""
    words = iter(cells)
    for quad, code in enumerate(codes):
        for cell in range(16):
            if PRESENCES[code] >> cell & 1:
                word = next(words, None)
                check(word is not None, "cells end early")
                for bit in range(16):
                    if word >> bit & 1:
                        yield quad, bit & 3, 2 * (cell >> 2) + (bit >> 3), 2 * (cell & 3) + (bit >> 2 & 1)
    check(next(words, None) is None, "cells that no quad has")


def read_list(widths: bytes, planes: bytes, count: int) -> tuple[list[int], int]:
    """Return a list's values, and how many bytes of planes they take."""
    values: list[int] = []
    at = 0
    for chunk in range(-(-count // 8)):
        bundle = int.from_bytes(widths[3 * (chunk // 8) : 3 * (chunk // 8) + 3], "little")
        width = (bundle >> 3 * (chunk % 8) & 7) + 1
        check(3 * (chunk // 8) + 3 <= len(widths) and at + width <= len(planes), "a list is cut short")
        sign, *lower = planes[at : at + width]
        at += width
        for i in range(8):
            value = 0
            for plane in lower:
                value = 2 * value + (plane >> i & 1)
            values.append(-1 - value if sign >> i & 1 else value)
    check(not any(values[count:]), "a chunk is filled up with other values than zero")
    return values[:count], at


def codes_of(table: bytes) -> dict[int, str]:
    """Return the code of each symbol of a table in DHT, as digits of 0 and 1 (T.81, annex C)."""
    codes: dict[int, str] = {}
    code, symbols = 0, iter(table[16:])
    for length, count in enumerate(table[:16], 1):
        for _ in range(count):
            codes.setdefault(next(symbols), f"{code:0{length}b}")
            code += 1
        code <<= 1
    return codes


class Writer:
    """Writes entropy-coded data."""

    def __init__(self, padding: int) -> None:
        self.out, self.bits, self.padding = bytearray(), "", str(padding)

    def code(self, table: dict[int, str], symbol: int) -> None:
        check(symbol in table, "the Huffman tables lack a code")
        self.bits += table[symbol]

    def value(self, table: dict[int, str], run: int, value: int) -> None:
        size = abs(value).bit_length()
        self.code(table, run << 4 | size)
        if size:
            self.bits += f"{value if value > 0 else value + (1 << size) - 1:0{size}b}"

    def end_segment(self) -> None:
        self.bits += self.padding * (-len(self.bits) % 8)
        if self.bits:
            self.out += int(self.bits, 2).to_bytes(len(self.bits) // 8, "big").replace(b"\xff", b"\xff\x00")
        self.bits = ""
