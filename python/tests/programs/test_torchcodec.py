"""imgfeed.check says which files torchcodec decodes to Pillow's pixels, and why others differ."""

from pathlib import Path

import numpy as np
import pytest
from conftest import imgshard
from PIL import Image

from imgfeed import check as checks

pytest.importorskip("torchcodec.decoders", reason="needs torchcodec: pip install torchcodec")


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Return a set of six images of noise: plain JPEGs and PNG, one that EXIF turns, and a BMP, which torchcodec can't read."""
    images = tmp_path / "images"
    images.mkdir()
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, (30, 40, 3), dtype=np.uint8))
    turned = Image.Exif()
    turned[0x0112] = 6
    noise.save(images / "444.jpg", subsampling=0)
    noise.save(images / "420.jpg", subsampling=2)
    noise.convert("L").save(images / "grey.jpg")
    noise.save(images / "plain.png")
    noise.save(images / "turned.jpg", exif=turned)
    noise.save(images / "simple.bmp")
    imgshard("build", images, "-o", tmp_path / "set", "--no-labels")
    return tmp_path / "set"


def test_files_that_torchcodec_decodes_otherwise_are_named(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        checks.main([str(shards), "--transform", '[{"op": "CenterCrop", "size": 24}]'])
    said = capsys.readouterr().out
    assert ended.value.code == 0 and "6 of 6 samples are identical to torchvision" in said
    assert "4 of 6 files have the same pixels by torchcodec" in said
    assert "turned.jpg: torchcodec turns it as its EXIF orientation says" in said
    assert "simple.bmp: torchcodec refuses it" in said
