"""Gives a packed set fields, of any bytes, as docs/format/shard.md has them: so tests have targets of their own."""

import hashlib
import json
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from shard_reader import ENTRY, FOOTER, SLACK, Sample, ShardSet, aligned, crc32c


def zstd(data: bytes) -> bytes:
    """Return a Zstandard frame of raw blocks (RFC 8878)."""
    frame = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data))  # one segment, its length in four bytes
    for at in range(0, len(data), 1 << 17):
        part = data[at : at + (1 << 17)]
        frame += (len(part) << 3 | (at + len(part) == len(data))).to_bytes(3, "little") + part
    return frame


def objects(boxes: Any, labels: Sequence[int], *columns: Any) -> bytes:
    """Return a value of type objects; columns are arrays of int64 or float32."""
    parts = [np.asarray(boxes, "<f4"), np.asarray(labels, "<i8"), *columns]
    return struct.pack("<I", len(labels)) + b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


def mask(labels: Any) -> bytes:
    """Return a value of type mask, of an array of uint8."""
    height, width = labels.shape
    return struct.pack("<2I", width, height) + zstd(labels.tobytes())


def with_fields(
    packed: Path,
    out: Path,
    fields: list[dict[str, Any]],
    values: Callable[[Sample], list[bytes]],
    classes: list[str] | None = None,
) -> Path:
    """Write a set of these fields with the samples of a packed one; values gives a sample's value of each field.

    Numbers are their bytes. classes replaces those of the set: with none of them samples have no labels.
    """
    read = ShardSet(packed)
    sets = [json.loads(json.dumps(field)) for field in fields]
    packed_again: list[dict[str, Any]] = []
    shutil.rmtree(out, ignore_errors=True)
    manifest = {**read.manifest, "version": 3}
    if classes is not None:
        manifest["classes"] = classes
    for listed in manifest["shards"]:
        assert listed["path"].endswith("/00000.imgshard")
        rank, n = listed["rank"], listed["samples"]
        header = {"split": manifest["split"], "rank": rank, "world": read.world, "shard": 0}
        header |= {"encoding": manifest["encoding"], "fields": fields}
        text = json.dumps(header).encode()
        data = bytearray(b"imgshard" + struct.pack("<2I", 3, len(text)) + text)
        header_crc = crc32c(data)
        data += struct.pack("<I", header_crc)
        data += bytes(aligned(len(data)) - len(data))
        records, entries, keys = len(data), b"", []
        for position in range(n):
            s = read[rank + position * read.world]
            made = b""
            for field, value in zip(sets, values(s), strict=True):
                if field["type"] not in {"int64", "float32"}:
                    field["bytes_max"] = max(field.get("bytes_max", 0), len(value))
                    made += struct.pack("<I", len(value))
                made += value
            record, label = s.image + s.aux + made, s.label if manifest["classes"] else -1
            entry = len(data), len(s.image), len(s.aux), crc32c(record), label, s.width, s.height, s.format, bytes(3), len(made)
            entries += ENTRY.pack(*entry)
            data += record + bytes(aligned(len(record)) - len(record))
            keys.append(s.key)
        end = len(data)
        section = struct.pack(f"<{n + 1}I", *np.cumsum([0, *map(len, keys)]).tolist()) + b"".join(keys)
        data += bytes(SLACK) + entries + section + bytes(aligned(len(section)) - len(section))
        layout = records, end, end + SLACK, end + SLACK + len(entries), len(section), len(data) + FOOTER.size, n
        footer = FOOTER.pack(*layout, header_crc, crc32c(entries), crc32c(section), bytes(16), 3, 0, b"imgshend")
        footer_crc = crc32c(footer[:-12])
        data += footer[:-12] + struct.pack("<I", footer_crc) + b"imgshend"
        path = out / listed["path"]
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        packed_again.append(
            {**listed, "bytes": len(data), "footer": f"{footer_crc:08x}", "sha256": hashlib.sha256(data).hexdigest()}
        )
    write_manifest(out, {**manifest, "fields": sets, "shards": packed_again, "fingerprint": "0" * 64, "content": "0" * 64})
    written = ShardSet(out)  # which say what these are
    write_manifest(out, {**written.manifest, "fingerprint": written.fingerprint(), "content": written.content()})
    return out


def write_manifest(out: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest, and its checksum at the end."""
    text = json.dumps({k: v for k, v in manifest.items() if k != "crc32c"}, indent=1)[:-2].encode() + b",\n "
    (out / "manifest.json").write_bytes(text + b'"crc32c": "%08x"\n}\n' % crc32c(text))


#: Fields of every kind of target.
CLASSES = ["car", "bus", "van"]
FIELDS: list[dict[str, Any]] = [
    {"name": "image_id", "type": "int64"},
    {
        "name": "objects",
        "type": "objects",
        "classes": CLASSES,
        "columns": [{"name": "area", "type": "float32"}, {"name": "iscrowd", "type": "int64"}],
    },
    {"name": "mask", "type": "mask", "classes": ["road", "sky"]},
]


def values_of(sample: Sample) -> dict[str, Any]:
    """Return a sample's targets: up to four objects, and a mask of blocks and noise."""
    rng = np.random.default_rng(sample.index)
    n, size = sample.index % 5, np.array([sample.width, sample.height] * 2, np.float32)
    corners = rng.uniform(0, 0.6, (n, 2))
    boxes = np.hstack([corners, corners + rng.uniform(0.01, 0.4, (n, 2))]).astype(np.float32) * size
    labels = rng.integers(0, 4, (sample.height, sample.width), np.uint8)
    labels[: sample.height // 2] = sample.index % 200
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1, dtype=np.float32)
    return {"boxes": boxes, "labels": rng.integers(0, 3, n), "area": area, "iscrowd": np.arange(n) % 2, "mask": labels}


def stored(sample: Sample) -> list[bytes]:
    """Return a sample's values of FIELDS."""
    of = values_of(sample)
    made = objects(*(of[name] for name in ("boxes", "labels", "area", "iscrowd")))
    return [np.int64(1000 + sample.index).tobytes(), made, mask(of["mask"])]
