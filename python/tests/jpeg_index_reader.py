"""The row index of a JPEG record, read as docs/format/jpeg-index.md says, and made anew from the file by a slow decoder.

The decoder is ITU-T T.81's for sequential scans with all components: it counts bits, keeps DC predictors, and makes no pixels.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from shard_reader import crc32c


@dataclass
class Component:
    across: int  # horizontal sampling factor
    down: int
    dc: int = 0  # which Huffman tables
    ac: int = 0


@dataclass
class Scan:
    """What stands before the entropy-coded data, and that data without what was put into it."""

    begin: int
    mcus_across: int
    mcus_down: int
    step: int
    restart_interval: int
    components: list[Component]
    tables: dict[int, list[tuple[int, int]]]
    data: bytes = b""
    removed: list[int] = field(default_factory=list)  # for each byte of data, and for its end: bytes removed before it
    restarts: list[int] = field(default_factory=list)  # bytes of data before each marker


@dataclass
class Entry:
    """A position in the scan: bits before it, bytes removed before its byte, DC predictors."""

    bits: int
    removed: int | None  # None within a row
    predictors: list[int]


def huffman_table(counts: bytes, symbols: bytes) -> list[tuple[int, int]]:
    """Return for each 16 bits the length and the symbol of the code that they begin with."""
    table: list[tuple[int, int]] = []
    symbol = iter(symbols)
    for length, count in enumerate(counts, 1):
        for _ in range(count):
            table += [(length, next(symbol))] * (1 << 16 - length)
    return table + [(0, 0)] * ((1 << 16) - len(table))


def read_scan(file: bytes) -> Scan | None:
    """Read a file up to the end of its first scan; None if it is not sequential with one scan of all components."""
    at, interval = 2, 0
    height = width = 0
    frame: dict[int, Component] = {}
    tables: dict[int, list[tuple[int, int]]] = {}
    while True:
        while file[at + 1] == 0xFF:
            at += 1
        marker, (length,) = file[at + 1], struct.unpack_from(">H", file, at + 2)
        body = file[at + 4 : at + 2 + length]
        at += 2 + length
        if marker in {0xC0, 0xC1}:
            height, width = struct.unpack_from(">2H", body, 1)
            frame = {body[i]: Component(body[i + 1] >> 4, body[i + 1] & 15) for i in range(6, len(body), 3)}
        elif 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            return None
        elif marker == 0xC4:
            while body:
                symbols = sum(body[1:17])
                tables[body[0]] = huffman_table(body[1:17], body[17 : 17 + symbols])
                body = body[17 + symbols :]
        elif marker == 0xDD:
            (interval,) = struct.unpack(">H", body)
        elif marker == 0xDA:
            break
    if body[0] < len(frame):
        return None
    for i in range(body[0]):
        component = frame[body[1 + 2 * i]]
        component.dc, component.ac = body[2 + 2 * i] >> 4, 0x10 | body[2 + 2 * i] & 15
    components = list(frame.values())
    if len(components) == 1:  # its MCU is one block, whatever the factors say (T.81, A.2.2)
        components = [Component(1, 1, components[0].dc, components[0].ac)]
    across, down = 8 * max(c.across for c in components), 8 * max(c.down for c in components)
    scan = Scan(at, -(-width // across), -(-height // down), 64 // across, interval, components, tables)
    unstuff(file, scan)
    return scan


def unstuff(file: bytes, scan: Scan) -> None:
    data, at, end = bytearray(), scan.begin, scan.begin
    while True:
        byte, after = file[at : at + 2]
        if byte != 0xFF or after == 0:
            scan.removed.append(at - scan.begin - len(data))
            data.append(byte)
            at += 2 if byte == 0xFF else 1
            end = at
        elif 0xD0 <= after <= 0xD7 and scan.restart_interval:
            scan.restarts.append(len(data))
            at += 2
        elif after == 0xFF:
            at += 1
        else:
            break
    scan.removed.append(end - scan.begin - len(data))
    scan.data = bytes(data)


def mcus(scan: Scan) -> Iterator[Entry]:
    """Decode the scan; give the position before each MCU, and the one after the last."""
    data = scan.data + bytes(8)
    bits = 0
    predictors = [0] * len(scan.components)
    restarts = iter(scan.restarts)
    for mcu in range(scan.mcus_across * scan.mcus_down):
        if mcu and scan.restart_interval and mcu % scan.restart_interval == 0:
            bits = 8 * next(restarts)
            predictors = [0] * len(predictors)
        yield Entry(bits, scan.removed[bits // 8], predictors.copy())
        for i, component in enumerate(scan.components):
            dc, ac = scan.tables[component.dc], scan.tables[component.ac]
            for _ in range(component.across * component.down):
                bits, change = decode_block(data, bits, dc, ac)
                predictors[i] += change
    yield Entry(bits, scan.removed[bits // 8], predictors)


def decode_block(data: bytes, bits: int, dc: list[tuple[int, int]], ac: list[tuple[int, int]]) -> tuple[int, int]:
    """Pass over a block; return the bit after it and the difference of its DC coefficient."""

    def peek(count: int) -> int:
        word = int.from_bytes(data[bits // 8 : bits // 8 + 5], "big")
        return word >> 40 - bits % 8 - count & (1 << count) - 1

    length, size = dc[peek(16)]
    bits += length
    change = peek(size)
    if size and change < 1 << size - 1:
        change -= (1 << size) - 1
    bits += size
    coefficient = 1
    while coefficient < 64:
        length, symbol = ac[peek(16)]
        bits += length + (symbol & 15)
        if symbol == 0:
            break
        coefficient += (symbol >> 4) + 1
    return bits, change


def make_entries(scan: Scan) -> list[Entry]:
    """Return what an index of the scan has to say."""
    entries = []
    end = scan.mcus_across * scan.mcus_down
    for mcu, entry in enumerate(mcus(scan)):
        column = mcu % scan.mcus_across
        if mcu == end or column % scan.step == 0:
            if column:
                entry.removed = None
            entries.append(entry)
    return entries


class Varints:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        value = self.unsigned()
        return value >> 1 ^ -(value & 1)


def read_index(aux: bytes, file: bytes, scan: Scan) -> list[Entry]:
    """Take an index apart, and check what makes it that of the file."""
    version, step, head, size = struct.unpack_from("<BBII", aux)
    assert version == 1
    assert step == scan.step
    assert head == crc32c(file[: scan.begin])
    assert size == len(file)
    assert aux[-4:] == struct.pack("<I", crc32c(aux[:-4]))

    numbers = Varints(aux[10:-4])
    entries: list[Entry] = []
    bits = removed = 0
    predictors = [0] * len(scan.components)
    for row in range(scan.mcus_down + 1):
        for column in range(0, scan.mcus_across if row < scan.mcus_down else 1, step):
            bits += numbers.unsigned()
            if column == 0:
                removed += numbers.unsigned()
            predictors = [p + numbers.signed() for p in predictors]
            entries.append(Entry(bits, None if column else removed, predictors))
    assert numbers.at == len(numbers.data)
    return entries
