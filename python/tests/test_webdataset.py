"""Tars as the package webdataset writes them are packed to what the package reads from them."""

import gc
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import imgshard

from imgfeed import DataLoader

webdataset = pytest.importorskip("webdataset")


def write(images: Path, out: Path) -> int:
    """Write every fourth image to the validation split, the others to the training split, and return the number of all."""
    paths = sorted(images.glob("*/*"))
    classes = sorted({path.parent.name for path in paths})
    for split, chosen in ("train", lambda i: i % 4 != 0), ("val", lambda i: i % 4 == 0):
        with webdataset.ShardWriter(str(out / f"imagenet-{split}-%06d.tar"), maxcount=16, verbose=0) as writer:
            for i, path in enumerate(paths):
                if chosen(i):
                    label = classes.index(path.parent.name)
                    sample = {"__key__": path.stem, "jpg": path.read_bytes(), "cls": label, "json": {"label": label}}
                    writer.write(sample)
    return len(paths)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # of webdataset's, as soon as its readers are collected
def test_sets_hold_what_webdataset_reads(images: Path, tmp_path: Path) -> None:
    tars = tmp_path / "wds"
    tars.mkdir()
    count = write(images, tars)
    imgshard("build", tars)
    total = 0
    for split in "train", "val":
        names = sorted(str(path) for path in tars.glob(f"imagenet-{split}-*.tar"))
        assert len(names) > 1
        want = {s["__key__"]: (s["jpg"], int(s["cls"])) for s in webdataset.WebDataset(names, shardshuffle=False)}
        gc.collect()
        shards = tmp_path / f"wds-{split}-shards"
        rows = [json.loads(line) for line in imgshard("ls", shards, "--json").splitlines()]
        assert {row["key"]: row["label"] for row in rows} == {key: label for key, (_, label) in want.items()}
        key = rows[0]["key"]
        imgshard("cat", shards, key, "-o", tmp_path / f"{split}.jpg")
        assert (tmp_path / f"{split}.jpg").read_bytes() == want[key][0]
        with DataLoader(shards, 8, transform="eval", framework="numpy", with_index=True) as loader:
            served = np.concatenate([np.array(labels) for _, labels, _ in loader])
        assert sorted(served) == sorted(label for _, label in want.values())
        total += len(rows)
    assert total == count
