"""A reader of records of the encoding coefficients makes files again: those of golden records, and those imgshard packs."""

import hashlib
import re
from pathlib import Path

import pytest
from coefficients_reader import DICTIONARY, DOCUMENT, PRESENCES, ROOT, FormatError, Record
from conftest import imgshard
from shard_reader import ShardSet

IMAGES = ROOT / "internal" / "image"
TESTDATA = IMAGES / "coefficients" / "testdata"
RECORDS = sorted(TESTDATA.glob("*.coefficients"))
FILES = {path.stem: path for path in [*(IMAGES / "jpeg" / "testdata" / "files").glob("*.jpg"), *TESTDATA.glob("*.jpg")]}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_makes_the_file_of_a_golden_record(path: Path):
    assert Record(path.read_bytes()).file() == FILES[path.stem].read_bytes()


def test_the_document_has_what_the_programs_have():
    table = re.findall(r"0x(\w{4})\b", (IMAGES / "coefficients" / "presence.go").read_text())
    assert [int(word, 16) for word in table] == PRESENCES
    assert hashlib.sha256(DICTIONARY).hexdigest() in DOCUMENT
    lines = DOCUMENT.split("<!-- example record -->")[1].split("```")[1]
    example = bytes.fromhex(re.sub(r"^ *\d+:|;.*", "", lines, flags=re.MULTILINE))
    assert example == (TESTDATA / "example.coefficients").read_bytes()


def test_the_worked_example():
    block = Record((TESTDATA / "example.coefficients").read_bytes()).rows[0][0]
    values = {(b, y, x): int(block[b, y, x]) for b, y, x in zip(*block.nonzero(), strict=True)}
    dc = {(0, 0, 0): 20, (1, 0, 0): 22, (2, 0, 0): -120, (3, 0, 0): -120}
    first = {(0, 0, 1): 3, (0, 1, 0): -1, (1, 0, 1): -2, (3, 0, 1): 300}
    others = {(0, 2, 0): 5, (1, 0, 2): 1, (1, 0, 3): -1, (2, 2, 0): 200, (3, 2, 0): 1, (3, 4, 4): -2}
    assert values == dc | first | others


def test_makes_the_files_that_are_packed(tmp_path: Path):
    """The files have patches, high bytes, rows of two tiles, restarts and every sampling; one has no Huffman tables."""
    files = {name: path.read_bytes() for name, path in FILES.items()}
    noise = files["noise"]
    files["no-tables"] = noise[: noise.index(b"\xff\xc4")] + noise[noise.index(b"\xff\xda") :]
    files["trailer"] = files["baseline-4x1"] + b"\xff\xd8 and more"
    for name, data in files.items():
        path = tmp_path / "source" / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    imgshard("build", tmp_path / "source", "-o", tmp_path / "train-shards", "--encoding", "coefficients", "--no-labels")
    mine = ShardSet(tmp_path / "train-shards")
    assert mine.manifest["encoding"] == {"name": "coefficients"}
    taken = set()
    for sample in map(mine.__getitem__, range(len(mine))):
        name = Path(sample.key.decode()).stem
        if sample.format == 3:
            record = Record(sample.image)
            assert (record.beginning.width, record.beginning.height) == (sample.width, sample.height)
            assert record.file() == files[name], name
            taken.add(name)
        else:
            assert (sample.format, sample.image) == (1, files[name]), name
    assert {"noise", "no-tables", "trailer", "grey", "optimised-restart-2x2", "baseline-2x2,1x2,2x1"} <= taken
    assert not [name for name in taken if re.search("progressive|scans|cmyk", name)]


def test_refuses_a_record_cut_short():
    data = (TESTDATA / "grey.coefficients").read_bytes()
    for size in range(len(data)):
        with pytest.raises(FormatError):
            Record(data[:size])
