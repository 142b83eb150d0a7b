"""Sets in a bucket: built, copied, indexed and read there, on moto's server of S3."""

import io
import json
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from conftest import contents, imgshard, wait_for
from moto.server import ThreadedMotoServer

from imgfeed import DataLoader
from imgfeed.programs import find_binary


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    """A client of a server that has the bucket ``sets``."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        client = boto3.client("s3")
        client.create_bucket(Bucket="sets")
        yield client
    server.stop()


def names(s3: Any, prefix: str) -> list[str]:
    found = s3.list_objects_v2(Bucket="sets", Prefix=prefix).get("Contents", [])
    return [item["Key"].removeprefix(prefix) for item in found]


def fails(*args: str | Path) -> str:
    done = subprocess.run([find_binary("imgshard"), *map(str, args)], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    return done.stderr


def batches(source: str | Path, **options: Any) -> list[tuple[bytes, bytes]]:
    with DataLoader(source, batch_size=16, transform="train", shuffle=True, seed=5, **options) as loader:
        return [(np.asarray(x).tobytes(), np.asarray(y).tobytes()) for x, y in loader]


@pytest.fixture(scope="module")
def large(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Class folders whose set goes up in parts, as noise follows each image, with a file that is not an image."""
    folder = shutil.copytree(images, tmp_path_factory.mktemp("large") / "train")
    for path in folder.rglob("*.*"):
        path.write_bytes(path.read_bytes() + np.random.default_rng(1).bytes(400_000))
    (next(folder.iterdir()) / "text.jpg").write_text("no image")
    return folder


@pytest.fixture(scope="module")
def here(large: Path) -> Path:
    """The same, packed on the disk."""
    imgshard("build", large, "-o", large.parent / "here", "--partitions", 2)
    return large.parent / "here"


def test_build_writes_a_bucket(large: Path, here: Path, s3: Any):
    assert max(path.stat().st_size for path in here.rglob("*.imgshard")) > 16 << 20
    out = imgshard("build", large, "-o", "s3://sets/there", "--partitions", 2)
    assert "at s3://sets/there" in out and "s3://sets/there/rejects.jsonl" in out
    there = {name: s3.get_object(Bucket="sets", Key="there/" + name)["Body"].read() for name in names(s3, "there/")}
    assert there == contents(here)
    kept = imgshard("build", large, "-o", "s3://sets/there", "--partitions", 2)
    assert "nothing to do" in kept and "--force" not in kept
    other = fails("build", large, "-o", "s3://sets/there", "--partitions", 3)
    assert "in a bucket none is replaced: remove it" in other and "--force" not in other
    assert "none is replaced" in fails("build", large, "-o", "s3://sets/there", "--force")
    assert "every checksum is right" in imgshard("verify", "s3://sets/there")
    assert "and --strict was given" in fails("build", large, "-o", "s3://sets/strict", "--strict")
    assert names(s3, "strict/") == []
    assert s3.list_multipart_uploads(Bucket="sets").get("Uploads", []) == []


def test_parts_are_merged_in_a_bucket(large: Path, here: Path, s3: Any, tmp_path: Path):
    for part in "2/3", "3/3":
        imgshard("build", large, "-o", "s3://sets/merged", "--partitions", 2, "--part", part)
    assert "lacks parts of 3: 1" in fails("merge", "s3://sets/merged")
    imgshard("build", large, "-o", "s3://sets/merged", "--partitions", 2, "--part", "1/3")
    assert "s3://sets/merged/rejects.jsonl" in imgshard("merge", "s3://sets/merged")
    imgshard("copy", "s3://sets/merged", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(here)
    assert names(s3, ".merged.parts/") == []


@pytest.mark.parametrize("whole", [False, True])
def test_interrupted_build_leaves_nothing(large: Path, s3: Any, whole: bool):
    """The interrupt comes while the first file goes up, or when it is whole."""

    def seen() -> Any:
        return names(s3, f"cut-{whole}/") if whole else s3.list_multipart_uploads(Bucket="sets").get("Uploads")

    command = [find_binary("imgshard"), "build", large, "-o", f"s3://sets/cut-{whole}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as build:
        wait_for(lambda: seen() or build.poll() is not None)
        build.send_signal(signal.SIGINT)
        text = build.stderr.read().decode()
    if build.returncode == 0:
        pytest.skip("the build was faster than the interrupt")
    assert build.returncode == 130 and "interrupted" in text
    assert names(s3, f"cut-{whole}/") == []
    assert s3.list_multipart_uploads(Bucket="sets").get("Uploads", []) == []


def test_copy(shards: Path, s3: Any, tmp_path: Path):
    assert "2 files copied, 0 kept" in imgshard("copy", shards, "s3://sets/copy")
    s3.delete_object(Bucket="sets", Key="copy/manifest.json")  # as if it had been interrupted
    s3.put_object(Bucket="sets", Key="copy/rank-0001/00000.imgshard", Body=b"half")
    assert "1 file copied, 1 kept" in imgshard("copy", shards, "s3://sets/copy")
    assert "2 files copied" in imgshard("copy", "s3://sets/copy", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(shards)
    assert "0 files copied, 2 kept" in imgshard("copy", "s3://sets/copy", tmp_path / "back")
    shard = tmp_path / "back" / "rank-0000" / "00000.imgshard"
    data = bytearray(shard.read_bytes())
    data[5000] ^= 1
    shard.write_bytes(data)
    assert "SHA-256" in fails("copy", tmp_path / "back", "s3://sets/damaged")
    assert "manifest.json" not in names(s3, "damaged/") and "rank-0000/00000.imgshard" not in names(s3, "damaged/")
    shutil.rmtree(tmp_path / "back" / "rank-0000")
    assert "only a whole set is copied" in fails("copy", tmp_path / "back", "s3://sets/part")
    assert "nothing can be written there" in fails("copy", shards, "https://example.invalid/x")
    assert batches("s3://sets/copy") == batches(shards)


def test_index_of_tars_in_a_bucket(images: Path, s3: Any, tmp_path: Path):
    files = sorted(images.rglob("*.*"))
    for part in range(3):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for number, file in enumerate(files[part::3]):
                label = str(sorted(p.name for p in images.iterdir()).index(file.parent.name)).encode()
                for extension, data in (("jpg", file.read_bytes()), ("cls", label)):
                    member = tarfile.TarInfo(f"{part}-{number:04}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        (tmp_path / "tars").mkdir(exist_ok=True)
        (tmp_path / "tars" / f"train-{part}.tar").write_bytes(buffer.getvalue())
        s3.put_object(Bucket="sets", Key=f"wds/train-{part}.tar", Body=buffer.getvalue())
    assert "would write s3://sets/wds-shards" in imgshard("inspect", "s3://sets/wds")
    imgshard("build", tmp_path / "tars", "-o", tmp_path / "packed")
    imgshard("index", "s3://sets/wds", "-o", tmp_path / "index")
    imgshard("index", "s3://sets/wds", "-o", "s3://sets/index")
    assert contents(tmp_path / "index").keys() == {"manifest.json", "objects.jsonl", "rank-0000/00000.imgshard"}
    whole = batches(tmp_path / "packed")
    for source in (tmp_path / "index", "s3://sets/index"):
        for _ in range(2):
            assert batches(source, cache=str(tmp_path / "cache")) == whole
    packed, indexed = (
        [
            (line["key"], line["class"], line["checksum"])
            for line in map(json.loads, imgshard("ls", "--json", source).splitlines())
        ]
        for source in (tmp_path / "packed", "s3://sets/index")
    )
    assert len(packed) == 105 and packed == indexed
    listed = tmp_path / "list.csv"
    s3.put_object(Bucket="sets", Key="raw/a.jpg", Body=files[0].read_bytes())
    s3.put_object(Bucket="sets", Key="raw/b.jpg", Body=files[1].read_bytes())
    listed.write_text("path,label\ns3://sets/raw/a.jpg,0\ns3://sets/raw/b.jpg,1\n")
    imgshard("index", listed, "--images", "s3://sets/raw", "-o", tmp_path / "listed")
    assert "every checksum is right" in imgshard("verify", tmp_path / "listed")
    s3.put_object(Bucket="sets", Key="wds/train-1.tar", Body=buffer.getvalue() + bytes(512))
    with pytest.raises(Exception, match=r"s3://sets/wds/train-1\.tar.*it has changed since it was indexed"):
        batches(tmp_path / "index")


def test_images_in_a_bucket(images: Path, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A prefix with images, not packed, is indexed once, and again when an image comes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files = sorted(images.rglob("*.*"))[::5]
    for path in files:
        s3.put_object(Bucket="sets", Key=f"loose/{path.relative_to(images)}", Body=path.read_bytes())
    for i in range(3):
        with DataLoader("s3://sets/loose", batch_size=16) as loader:
            assert sum(len(x) for x, _ in loader) == len(loader.dataset) == len(files) + (i == 2)
            first = loader.dataset.key(0)
        if i == 1:
            s3.put_object(Bucket="sets", Key=f"loose/{first}.png", Body=files[0].read_bytes())
    assert len(list(tmp_path.glob("imgfeed/indexes/*/manifest.json"))) == 2
