"""The slow decoder, written from the document, reads the blobs that the Go tests keep."""

import importlib.util
import json
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
TESTDATA = HERE.parents[1] / "internal" / "image" / "pixelcodec" / "testdata"

_spec = importlib.util.spec_from_file_location("pixels_reference", HERE / "pixels_reference.py")
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)

BLOBS = json.loads((TESTDATA / "index.json").read_text())


def read_ppm(path: pathlib.Path) -> tuple[int, int, bytes]:
    magic, size, limit, pixels = path.read_bytes().split(b"\n", 3)
    assert (magic, limit) == (b"P6", b"255")
    width, height = map(int, size.split())
    return width, height, pixels


def have_zstd() -> bool:
    return any(importlib.util.find_spec(name) for name in ("compression", "zstandard"))


def groups_of(params: dict) -> list:
    return params.get("groups") or reference.DEFAULT_GROUPS


@pytest.mark.parametrize("golden", BLOBS, ids=lambda golden: golden["blob"])
def test_reads_golden_blob(golden):
    if golden["params"]["codec"] == "zstd" and not have_zstd():
        pytest.skip("needs the Python package zstandard: pip install zstandard")
    blob = (TESTDATA / golden["blob"]).read_bytes()
    assert reference.decode(blob, groups_of(golden["params"])) == read_ppm(TESTDATA / golden["image"])


@pytest.mark.parametrize("codec", ["bitpack", "lz4", "none"])
def test_refuses_blob_cut_short(codec):
    golden = next(g for g in BLOBS if g["params"]["codec"] == codec)
    blob = (TESTDATA / golden["blob"]).read_bytes()
    with pytest.raises(reference.FormatError):
        reference.decode(blob[:-1], groups_of(golden["params"]))


def test_refuses_groups_that_do_not_fill_the_payload():
    blob = bytearray((TESTDATA / "example.bitpack").read_bytes())
    blob[14] ^= 0x10
    with pytest.raises(reference.FormatError):
        reference.decode(bytes(blob))
