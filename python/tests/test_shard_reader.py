"""Readers written from the documents alone read what imgshard packs, and find what is damaged; what is written by the documents
alone, imgshard reads."""

import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jpeg_index_reader
import numpy as np
import pixels_reference
import pytest
from conftest import imgshard, listed
from shard_reader import ENTRY, FormatError, Sample, ShardSet, aligned, crc32c, order_of

from imgfeed.programs import find_binary

ROOT = Path(__file__).parents[2]
GOLDEN = sorted((ROOT / "shard" / "testdata").glob("v*/*-shards"))
JPEGS = ROOT / "internal" / "image" / "jpeg" / "testdata" / "files"

PNG = b"\x89PNG\r\n\x1a\n"
SEED = (1 << 63) - 1  # a double has no such number
WHOLE = -(2**53) - 1


def png(pixels: np.ndarray) -> bytes:
    """Return an image of (height, width, 3) bytes as a PNG without filters."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    return PNG + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def painting(number: int) -> np.ndarray:
    """Return an image of its own for each number, in part smooth."""
    height, width = 33 + number, 70 - number
    y, x = np.mgrid[:height, :width]
    noise = np.random.default_rng(number).integers(0, 1 + number % 3 * 90, (height, width, 3))
    return ((y + x)[..., None] * [1, 2, 3] + noise + number).astype(np.uint8)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> dict[bytes, bytes]:
    """Class folders, the files by their keys: every kind of JPEG, and PNGs. What lies beside them becomes fields."""
    folder = tmp_path_factory.mktemp("source")
    files: dict[bytes, bytes] = {}
    values: dict[str, dict[str, Any]] = {}
    images = {path.stem: path.read_bytes() for path in JPEGS.iterdir()}
    grey = bytearray(images["grey"])
    frame = grey.index(b"\xff\xc0")
    grey[frame + 11] = 0x22  # sampling factors that mean nothing, as the file has one component
    images["grey-2x2"] = bytes(grey)
    images |= {f'"{n}" \N{SNOWMAN}\n': png(painting(n)) for n in range(9)}
    for number, (name, data) in enumerate(sorted(images.items())):
        key = f"{('chat', 'naïve', '犬')[number % 3]}/{name}.{'png' if data.startswith(PNG) else 'jpg'}"
        path = folder / key
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        meta = {"score": number / 4, "box": [number, WHOLE]}
        mask = f"{chr(number)}\x7f" * (30_000 if number < 40 else 0)
        values[key] = {"all": meta, "caption": "" if number == 3 else f"Bild № {number}", "mask": mask}
        files[key.encode()] = data
    files[b""] = bytes(listed(folder, values))
    return files


FIELDS = ("score=all.score:float32", "box=all.box:int64[2]", "caption=caption:text", "all=json.all", "mask=mask:bytes")


@pytest.fixture(scope="module")
def original(source: dict[bytes, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The original files in two partitions of several shards, with a field of each type."""
    out = tmp_path_factory.mktemp("original") / "train-shards"
    fields = [arg for field in FIELDS for arg in ("--field", field)]
    imgshard(
        "build", os.fsdecode(source[b""]), "-o", out, "--partitions", "2", "--shard-size", "1MiB", "--seed", str(SEED), *fields
    )
    return out


def listing(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in imgshard("ls", folder, "--json", "--fields").splitlines()]


def cat(folder: Path, *args: str | bytes) -> bytes:
    return subprocess.run([find_binary("imgshard"), "cat", folder, *args], capture_output=True, check=True).stdout


def compare(mine: ShardSet, folder: Path) -> list[Sample]:
    """Compare all that a reader finds with what imgshard says; return it."""
    assert mine.fingerprint() == mine.manifest["fingerprint"]
    assert mine.content() == mine.manifest.get("content", mine.content())
    rows = listing(folder)
    assert [row["index"] for row in rows] == list(range(len(mine)))
    samples = [mine[i] for i in range(len(mine))]
    for sample, row in zip(samples, rows, strict=True):
        assert sample.key.decode() == row["key"]
        assert mine.find(sample.key) == row["index"]
        assert (sample.label, sample.width, sample.height) == (row["label"], row["width"], row["height"])
        assert len(sample.image) == row["bytes"]
        fields = {name: base64.b64encode(v).decode() if isinstance(v, bytes) else v for name, v in sample.fields.items()}
        assert fields == row.get("fields", {})
    for sample in (samples[0], samples[-1]):
        assert cat(folder, str(sample.index)) == cat(folder, sample.key) == sample.image
    assert mine.find(b"no such key") is None
    return samples


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_reads_the_sets_that_are_kept(folder: Path):
    compare(ShardSet(folder), folder)


def test_crc():
    assert crc32c(b"123456789") == 0xE3069283


def test_reads_originals(source: dict[bytes, bytes], original: Path):
    mine = ShardSet(original)
    assert [len(shards) for shards in mine.partitions.values()] == [2, 2]
    assert mine.manifest["seed"] == SEED
    samples = compare(mine, original)
    assert {s.key: s.image for s in samples} == {key: data for key, data in source.items() if key}
    rows = {row["path"]: row for row in map(json.loads, Path(os.fsdecode(source[b""])).read_text().splitlines())}
    for sample in samples:
        assert mine.manifest["classes"][sample.label] == sample.key.decode().split("/")[0]
        expected = rows[sample.key.decode()]
        assert sample.fields["box"] == expected["all"]["box"]
        assert sample.fields["score"] == expected["all"]["score"]
        assert sample.fields["all"] == expected["all"]
        assert sample.fields["caption"] == expected["caption"]
        assert sample.fields["mask"] == expected["mask"].encode()


def test_reads_indexes(source: dict[bytes, bytes], original: Path, tmp_path: Path):
    fields = [argument for field in FIELDS for argument in ("--field", field)]
    imgshard("index", source[b""].decode(), "-o", tmp_path / "index", "--partitions", 2, "--seed", SEED, *fields)
    found, packed = ShardSet(tmp_path / "index"), ShardSet(original)
    assert found.content() == packed.content() == found.manifest["content"]
    assert found.fingerprint() == packed.fingerprint()
    assert [found[i] for i in range(len(found))] == [packed[i] for i in range(len(packed))]


def test_row_indices_are_those_of_the_files(original: Path):
    mine = ShardSet(original)
    with_index = set()
    for sample in map(mine.__getitem__, range(len(mine))):
        scan = jpeg_index_reader.read_scan(sample.image) if sample.format == 1 else None
        if scan is None:
            assert sample.aux == b"", sample.key
            continue
        assert jpeg_index_reader.read_index(sample.aux, sample.image, scan) == jpeg_index_reader.make_entries(scan), sample.key
        with_index.add(sample.key.split(b"/")[1])
    assert {b"grey.jpg", b"grey-2x2.jpg", b"baseline-4x2.jpg", b"optimised-restart-2x2.jpg", b"magick-cmyk.jpg"} <= with_index


def test_the_end_of_a_scan_counts_no_fill_bytes(tmp_path: Path):
    """Of a scan that ends with a byte, fill bytes before the next marker do not count; the zero after a last ff does."""
    file = next(data for data in map(Path.read_bytes, sorted(JPEGS.iterdir())) if ends_with_a_byte(data))
    end = file.rindex(b"\xff\xd9")
    for number, inserted in enumerate((b"", b"\xff\xff\xff", b"\xff\x00")):
        path = tmp_path / "source" / str(number % 2) / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(file[:end] + inserted + file[end:])
    imgshard("build", tmp_path / "source", "-o", tmp_path / "train-shards")
    mine = ShardSet(tmp_path / "train-shards")
    for sample in map(mine.__getitem__, range(3)):
        scan = jpeg_index_reader.read_scan(sample.image)
        assert scan is not None
        assert jpeg_index_reader.read_index(sample.aux, sample.image, scan) == jpeg_index_reader.make_entries(scan), sample.key


def ends_with_a_byte(file: bytes) -> bool:
    scan = jpeg_index_reader.read_scan(file)
    return scan is not None and list(jpeg_index_reader.mcus(scan))[-1].bits == 8 * len(scan.data)


@pytest.mark.parametrize("codec", ["bitpack", "none"])
def test_reads_pixels(codec: str, original: Path, tmp_path: Path):
    folder = tmp_path / "train-pixels"
    imgshard("repack", original, "-o", folder, "--encoding", "pixels", "--resize", "none", "--codec", codec)
    mine, before = ShardSet(folder), ShardSet(original)
    assert mine.manifest["fingerprint"] == before.manifest["fingerprint"]
    samples = compare(mine, folder)
    params = mine.manifest["encoding"]["params"]
    groups = params.get("groups") or pixels_reference.DEFAULT_GROUPS
    paintings = {png(painting(n)): painting(n) for n in range(9)}
    for sample in samples:
        file = before[sample.index]
        assert (sample.key, sample.fields, sample.format) == (file.key, file.fields, 3)
        width, height, pixels = pixels_reference.decode(sample.image, groups)
        assert (width, height) == (sample.width, sample.height) == (file.width, file.height)
        if file.image in paintings:
            assert pixels == paintings.pop(file.image).tobytes()
    assert not paintings


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.copytree(ROOT / "shard" / "testdata" / "v2" / "val-shards", folder)
    return folder


@contextmanager
def changed(path: Path, at: int) -> Iterator[None]:
    """Have a bit of a file changed, in place."""
    with path.open("r+b", buffering=0) as file:
        byte = file.read(at + 1)[at]
        os.pwrite(file.fileno(), bytes([byte ^ 0x01]), at)
        yield
        os.pwrite(file.fileno(), bytes([byte]), at)


def test_a_changed_byte_is_found(copied: Path):
    """In any byte of a shard but padding, slack, and zeros that are for versions to come: readers do not look at those."""
    path = copied / "rank-0000" / "00000.imgshard"
    unseen = []
    for at in range(path.stat().st_size):
        with changed(path, at):
            try:
                mine = ShardSet(copied)
                assert mine.fingerprint() == mine.manifest["fingerprint"]
                assert [mine[i].index for i in range(len(mine))] == [0, 1]
                unseen.append(at)
            except FormatError:
                pass
    assert unseen == [*range(0xD1, 0xD8), 0xFE, 0xFF, *range(0x11A, 0x1A0)]
    # One in each part. imgshard verify has the hash of the whole file too.
    for at in (0x08, 0x20, 0xD8, 0xE3, 0xFA, 0x120, 0x1A0, 0x200, 0x208, 0x260):
        with changed(path, at):
            done = subprocess.run([find_binary("imgshard"), "verify", copied], capture_output=True, text=True, check=False)
            assert done.returncode == 1, at
            assert "00000.imgshard" in done.stderr


def test_a_changed_manifest_is_found(copied: Path):
    path = copied / "manifest.json"
    for at in range(path.stat().st_size):
        with changed(path, at), pytest.raises(FormatError):
            ShardSet(copied)


def test_partitions_that_are_not_here(original: Path, tmp_path: Path):
    folder = tmp_path / "train-shards"
    shutil.copytree(original, folder)
    shutil.rmtree(folder / "rank-0001")
    mine = ShardSet(folder)
    rows = listing(folder)
    assert [row["index"] for row in rows] == list(range(0, len(mine), 2))
    assert [mine.find(row["key"].encode()) for row in rows] == [row["index"] for row in rows]


def write_set(folder: Path, samples: list[tuple[bytes, int, bytes]], seed: int, **more: Any) -> None:
    """Write a set of one partition by the document: samples are key, label and image. What more says is in its JSON."""
    samples = sorted(samples, key=lambda sample: order_of(seed, sample[0]))
    common = {"split": "train", "world": 1, "encoding": {"name": "example", "params": {"a": 1}}, **more}
    header = json.dumps({**common, "rank": 0, "shard": 0}, indent=2).encode()
    data = b"imgshard" + struct.pack("<2I", 1, len(header)) + header
    header_crc = crc32c(data)
    data += struct.pack("<I", header_crc)
    records = aligned(len(data))
    entries = b""
    for _, label, image in samples:
        data = data.ljust(aligned(len(data)), b"\0")
        entries += ENTRY.pack(len(data), len(image), 0, crc32c(image), label, 5, 7, 2, bytes(3), 0)
        data += image
    end = aligned(len(data))
    data = data.ljust(end + 128, b"\0") + entries
    keys = b"".join(key for key, _, _ in samples)
    offsets = [0]
    for key, _, _ in samples:
        offsets.append(offsets[-1] + len(key))
    section = struct.pack(f"<{len(offsets)}I", *offsets) + keys
    keys_at = len(data)
    data += section
    data = data.ljust(aligned(len(data)), b"\0")
    layout = (records, end, end + 128, keys_at, len(section), len(data) + 96)
    footer = struct.pack("<6q4I16xI", *layout, len(samples), header_crc, crc32c(entries), crc32c(section), 1)
    data += footer + struct.pack("<I", crc32c(footer)) + b"imgshend"
    fingerprint = b"imgshard fingerprint v1\0" + struct.pack("<2I", 1, 1) + struct.pack("<I", 3) + b"cat"
    for key, label, _ in samples:
        fingerprint += struct.pack("<I", len(key)) + key + struct.pack("<i", label)
    fingerprint += struct.pack("<Q", len(samples))
    path = "rank-0000/00000.imgshard"
    shard: dict[str, Any] = {"path": path, "rank": 0, "samples": len(samples), "bytes": len(data)}
    shard["footer"] = f"{crc32c(footer):08x}"
    manifest = {"format": "imgshard", "version": 1, "fingerprint": hashlib.sha256(fingerprint).hexdigest(), **common}
    shard["sha256"] = hashlib.sha256(data).hexdigest()
    manifest |= {"samples": len(samples), "seed": seed, "classes": ["cat"], "shards": [shard]}
    manifest["encoding"] |= {"later": None}
    (folder / path).parent.mkdir(parents=True)
    (folder / path).write_bytes(data)
    text = json.dumps(manifest).encode()[:-1] + b","
    (folder / "manifest.json").write_bytes(text + b'"crc32c": "%08x"\n}\n' % crc32c(text))


@pytest.mark.parametrize("seed", [0, 2**53 + 1, 2**64 - 1])
def test_imgshard_reads_what_is_written_by_the_document(seed: int, tmp_path: Path):
    """With keys that are not UTF-8, the largest seed, and fields of JSON that no version has."""
    keys = (b"a", b"\xff\xfe", b"\xc3\xa9", b"k" * 4096)
    samples = [(key, number % 2 - 1, b"image %d" % number) for number, key in enumerate(keys)]
    folder = tmp_path / "train-shards"
    write_set(folder, samples, seed, later={"x": [1]})
    imgshard("verify", folder)
    mine = ShardSet(folder)
    assert {mine[i].key for i in range(4)} == {key for key, _, _ in samples}
    for row in listing(folder):  # JSON has no such bytes
        assert mine[row["index"]].key.decode(errors="replace") == row["key"]
        assert mine[row["index"]].label == row["label"]
    for key, _, image in samples:
        assert cat(folder, key) == image == mine[mine.find(key)].image


def refused(mine: Callable[[], Any], folder: Path) -> None:
    with pytest.raises(FormatError):
        mine()
    assert subprocess.run([find_binary("imgshard"), "verify", folder], capture_output=True, check=False).returncode == 1


def test_what_the_document_forbids(tmp_path: Path):
    for name, samples in {
        "a label of no class": [(b"a", 1, b"image")],
        "a key that is too long": [(b"k" * 4097, 0, b"image")],
        "a key of no bytes": [(b"", 0, b"image")],
        "a key that is there twice": [(b"a", 0, b"image"), (b"a", 0, b"image")],
    }.items():
        folder = tmp_path / name
        write_set(folder, samples, 0)
        refused(lambda folder=folder: ShardSet(folder).fingerprint(), folder)
