"""A plain reader of shard sets, written from docs/format/shard.md and index.md alone.

It is there to be compared with the programs: it shares no code with them and follows the document section by section. It checks
all that the document has a reader check, and it is slow.
"""

import hashlib
import json
import re
import struct
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

SLACK = 128
ENTRY = struct.Struct("<qIIIiiiB3sI")
FOOTER = struct.Struct("<6q4I16s2I8s")
LOCATION = struct.Struct("<2q2Iq")
TRAILER = struct.Struct("<8s2I5q2I")
NUMBERS = {"int64": "q", "float32": "f"}


class FormatError(Exception):
    """The bytes are not a shard set, or are damaged."""


def need(holds: bool, path: Path, what: str) -> None:
    if not holds:
        raise FormatError(f"{path}: {what}")


def _crc_table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [c >> 1 ^ (0x82F63B78 if c & 1 else 0) for c in table]
    return table


CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    crc, table = 0xFFFFFFFF, CRC_TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def known(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return those fields of an object in JSON that this reader knows: others are left alone."""
    return {name: fields[name] for name in names if name in fields}


def aligned(offset: int) -> int:
    return offset + 7 & ~7


def order_of(seed: int, key: bytes) -> tuple[bytes, bytes]:
    """What samples are sorted by."""
    return hashlib.sha256(b"imgshard order v1\0%d\0" % seed + key).digest()[:8], key


def load_manifest(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    need(re.fullmatch(rb'"crc32c": "[0-9a-f]{8}"\n}\n', data[-23:]) is not None, path, "does not end in its checksum")
    need(data[-12:-4] == b"%08x" % crc32c(data[:-23]), path, "checksum")
    manifest = json.loads(data)
    need(manifest["format"] == "imgshard", path, "is not a manifest of a shard set")
    need(manifest["version"] in {1, 2, 3}, path, f"is of version {manifest['version']}; this reader knows 1 to 3")
    need(manifest["version"] >= 2 or not manifest.get("fields"), path, "fields in version 1")
    need(1 <= manifest["world"] <= 65536 and 0 <= manifest["seed"] < 1 << 64, path, "world or seed out of range")
    world, samples = manifest["world"], manifest["samples"]
    of_rank = [0] * world
    numbers = [0] * world
    for shard in manifest["shards"]:
        rank = shard["rank"]
        need(shard["path"] == f"rank-{rank:04d}/{numbers[rank]:05d}.imgshard", path, f"shard {shard['path']} is out of order")
        need(shard["samples"] > 0, path, "an empty shard")
        of_rank[rank] += shard["samples"]
        numbers[rank] += 1
    need(of_rank == [(samples - r + world - 1) // world for r in range(world)], path, "counts of partitions")
    return manifest


@dataclass
class Sample:
    index: int
    key: bytes
    label: int
    width: int
    height: int
    format: int
    image: bytes
    aux: bytes
    fields: dict[str, Any]


def whole(path: Path, listed: dict[str, Any], index: dict[str, Any]) -> bytes:
    """Put a shard of an index together."""
    data, tail = path.read_bytes(), listed["index"]["tail"]
    need(len(data) == listed["index"]["bytes"], path, "length")
    magic, version, n, length, begin, end, tail_again, _, table_crc, crc = TRAILER.unpack(data[-TRAILER.size :])
    need(crc == crc32c(data[-TRAILER.size : -4]) and (magic, version, tail_again) == (b"imgindex", 1, tail), path, "trailer")
    table = data[len(data) - TRAILER.size - n * LOCATION.size : -TRAILER.size]
    need(table_crc == crc32c(table), path, "table: checksum")
    text = (path.parents[1] / "objects.jsonl").read_bytes()
    need(hashlib.sha256(text).hexdigest() == index["sha256"], path, "objects.jsonl: checksum")
    objects = [json.loads(line) for line in text.splitlines()]
    need(len(objects) == index["objects"], path, "objects")
    locations = list(LOCATION.iter_unpack(table))
    shard = bytearray(length)
    shard[:begin] = data[:begin]
    for (at, rest, image, number, offset), after in zip(locations, [one[1] for one in locations[1:]] + [tail], strict=True):
        source = Path(index["source"], objects[number]["path"])
        status = source.stat()
        need(status.st_size == objects[number]["bytes"], source, "length")
        need(str(status.st_mtime_ns) == objects[number]["version"], source, "version")
        with source.open("rb") as file:
            file.seek(offset)
            shard[at : at + image] = file.read(image)
        shard[at + image : at + image + after - rest] = data[rest:after]
    shard[end:] = data[tail : len(data) - TRAILER.size - len(table)]
    need(len(shard) == length, path, "length of the shard")
    return bytes(shard)


class Shard:
    """One shard file, as the manifest lists it."""

    def __init__(self, path: Path, listed: dict[str, Any], number: int, manifest: dict[str, Any]) -> None:
        self.path = path
        self.data = data = whole(path, listed, manifest["index"]) if "index" in manifest else path.read_bytes()
        self.fields = manifest.get("fields", [])
        need(len(data) == listed["bytes"], path, f"has {len(data)} bytes, the manifest says {listed['bytes']}")
        need(len(data) >= 16 + 4 + SLACK + FOOTER.size, path, "is too short")
        need(data[:8] == b"imgshard" and data[-8:] == b"imgshend", path, "magic")
        footer = FOOTER.unpack(data[-FOOTER.size :])
        records, end, entries, keys, key_bytes, length, n, header_crc, entries_crc, keys_crc, _, version, footer_crc, _ = footer
        need(version == manifest["version"], path, f"version {version}")
        need(footer_crc == crc32c(data[-FOOTER.size : -12]), path, "footer: checksum")
        need(listed["footer"] == f"{footer_crc:08x}", path, "is not the file that the manifest lists")
        need(length == len(data) and n == listed["samples"] and 0 < n <= 1 << 20, path, "footer")

        version_in_prefix, header_bytes = struct.unpack_from("<2I", data, 8)
        need(version_in_prefix == version and header_bytes <= 1 << 20, path, "prefix")
        need(records == aligned(16 + header_bytes + 4), path, "header and records")
        need(records <= end == aligned(end), path, "records")
        need(entries == end + SLACK and keys == entries + ENTRY.size * n, path, "entries and keys")
        need(aligned(keys + key_bytes) + FOOTER.size == length, path, "keys and footer")
        stored = struct.unpack_from("<I", data, 16 + header_bytes)[0]
        need(header_crc == stored == crc32c(data[: 16 + header_bytes]), path, "header: checksum")
        header = json.loads(data[16 : 16 + header_bytes])
        belongs = {"split": manifest["split"], "rank": listed["rank"], "world": manifest["world"], "shard": number}
        for name, value in belongs.items():
            need(header[name] == value, path, f"header: {name} is {header[name]}, the manifest says {value}")
        encoding = known(header["encoding"], "name", "params")
        need(encoding == known(manifest["encoding"], "name", "params"), path, "header: encoding")
        fields = [known(field, "name", "type", "size") for field in header.get("fields", [])]
        need(fields == [known(field, "name", "type", "size") for field in self.fields], path, "header: fields")

        need(entries_crc == crc32c(data[entries:keys]), path, "entries: checksum")
        self.entries = list(ENTRY.iter_unpack(data[entries:keys]))
        free = records
        for offset, image, aux, _, label, width, height, _, _, values in self.entries:
            need(offset == aligned(offset) and offset >= free, path, f"record at {offset}: offset")
            free = offset + image + aux + values
            need(free <= end and image + aux + values <= 1 << 30, path, f"record at {offset}: length")
            need(-1 <= label < (len(manifest["classes"]) or 1 << 31), path, f"record at {offset}: label")
            need(width > 0 and height > 0, path, f"record at {offset}: size")
            need(bool(self.fields) or values == 0, path, f"record at {offset}: fields of a set that has none")
        self.keys_at, self.key_bytes, self.keys_crc = keys, key_bytes, keys_crc

    def __len__(self) -> int:
        return len(self.entries)

    def keys(self) -> list[bytes]:
        section = self.data[self.keys_at : self.keys_at + self.key_bytes]
        need(crc32c(section) == self.keys_crc, self.path, "keys: checksum")
        n = len(self)
        offsets = struct.unpack_from(f"<{n + 1}I", section)
        text = section[4 * (n + 1) :]
        need(offsets[0] == 0 and offsets[-1] == len(text), self.path, "keys: offsets")
        need(all(1 <= b - a <= 4096 for a, b in pairwise(offsets)), self.path, "keys: lengths")
        return [text[a:b] for a, b in pairwise(offsets)]

    def record(self, number: int) -> tuple[bytes, bytes, dict[str, Any]]:
        """Return image, aux and values of fields."""
        offset, image, aux, crc, _, _, _, _, _, values = self.entries[number]
        data = self.data[offset : offset + image + aux + values]
        need(crc32c(data) == crc, self.path, f"record {number} at byte {offset}: checksum")
        return data[:image], data[image : image + aux], self.values(data[image + aux :])

    def values(self, data: bytes) -> dict[str, Any]:
        found: dict[str, Any] = {}
        at = 0
        for field in self.fields:
            if field["type"] in NUMBERS:
                numbers = struct.Struct(f"<{field.get('size', 1)}{NUMBERS[field['type']]}")
                need(at + numbers.size <= len(data), self.path, f"field {field['name']}: cut short")
                value: Any = list(numbers.unpack_from(data, at))
                at += numbers.size
                if "size" not in field:
                    (value,) = value
            else:
                need(at + 4 <= len(data), self.path, f"field {field['name']}: cut short")
                (length,) = struct.unpack_from("<I", data, at)
                at += 4
                room = min(field.get("bytes_max", 0), len(data) - at)
                need(length <= room, self.path, f"field {field['name']}: {length} bytes, and there is room for {room}")
                value = data[at : at + length]
                at += length
                if field["type"] in {"objects", "mask"}:
                    value = target(field, value)
                elif field["type"] != "bytes":
                    value = value.decode()
                if field["type"] == "json":
                    value = json.loads(value)
            found[field["name"]] = value
        need(at == len(data), self.path, "fields do not fill their bytes")
        return found


def target(field: dict[str, Any], value: bytes) -> dict[str, Any]:
    """Return a value of type objects, or the size of a mask."""
    if field["type"] == "mask":
        width, height = struct.unpack_from("<2I", value)
        need(value[8:12] == b"\x28\xb5\x2f\xfd", field["name"], "the mask is not a Zstandard frame")
        return {"width": width, "height": height}
    (n,) = struct.unpack_from("<I", value)
    numbers = struct.unpack_from(f"<{4 * n}f", value, 4)
    found: dict[str, Any] = {"boxes": [list(numbers[4 * i : 4 * i + 4]) for i in range(n)]}
    at = 4 + 16 * n
    for name, letter in [("labels", "q"), *((c["name"], NUMBERS[c["type"]]) for c in field.get("columns", []))]:
        column = struct.Struct(f"<{n}{letter}")
        found[name] = list(column.unpack_from(value, at))
        at += column.size
    need(at == len(value), field["name"], "objects do not fill their bytes")
    return found


class ShardSet:
    """A set: its manifest, and of each partition that is here the shards."""

    def __init__(self, folder: Path) -> None:
        self.manifest = load_manifest(folder / "manifest.json")
        self.world = self.manifest["world"]
        self.partitions: dict[int, list[Shard]] = {r: [] for r in range(self.world)}
        for listed in self.manifest["shards"]:
            shards = self.partitions.get(listed["rank"])
            if shards is None:
                continue
            if not (folder / listed["path"]).exists():
                del self.partitions[listed["rank"]]
                continue
            shards.append(Shard(folder / listed["path"], listed, len(shards), self.manifest))

    def __len__(self) -> int:
        return self.manifest["samples"]

    def locate(self, index: int) -> tuple[Shard, int]:
        number = index // self.world
        for shard in self.partitions[index % self.world]:
            if number < len(shard):
                return shard, number
            number -= len(shard)
        raise IndexError(index)

    def __getitem__(self, index: int) -> Sample:
        shard, number = self.locate(index)
        _, _, _, _, label, width, height, kind, _, _ = shard.entries[number]
        return Sample(index, shard.keys()[number], label, width, height, kind, *shard.record(number))

    def find(self, key: bytes) -> int | None:
        """Return the index of a key: the samples of each partition stand in the order of their hashes."""
        wanted = order_of(self.manifest["seed"], key)
        for rank, shards in self.partitions.items():
            keys = list(chain.from_iterable(shard.keys() for shard in shards))
            low, high = 0, len(keys)
            while low < high:
                middle = (low + high) // 2
                if order_of(self.manifest["seed"], keys[middle]) < wanted:
                    low = middle + 1
                else:
                    high = middle
            if low < len(keys) and keys[low] == key:
                return low * self.world + rank
        return None

    def fingerprint(self) -> str:
        classes = [name.encode() for name in self.manifest["classes"]]
        digest = hashlib.sha256(b"imgshard fingerprint v1\0" + struct.pack("<2I", self.world, len(classes)))
        for name in classes:
            digest.update(struct.pack("<I", len(name)) + name)
        before = None
        keys = {id(shard): shard.keys() for shards in self.partitions.values() for shard in shards}
        for index in range(len(self)):
            shard, number = self.locate(index)
            key, label = keys[id(shard)][number], shard.entries[number][4]
            now = order_of(self.manifest["seed"], key)
            need(before is None or before < now, shard.path, f"sample {index} is out of order")
            before = now
            digest.update(struct.pack("<I", len(key)) + key + struct.pack("<i", label))
        digest.update(struct.pack("<Q", len(self)))
        return digest.hexdigest()

    def content(self) -> str:
        encoding = self.manifest["encoding"]
        params = json.dumps(encoding["params"], separators=(",", ":")).encode() if "params" in encoding else b""
        digest = hashlib.sha256(b"imgshard content v1\0")
        for text in (encoding["name"].encode(), params):
            digest.update(struct.pack("<I", len(text)) + text)
        for index in range(len(self)):
            shard, number = self.locate(index)
            digest.update(struct.pack("<I", shard.entries[number][3]))
        return digest.hexdigest()
