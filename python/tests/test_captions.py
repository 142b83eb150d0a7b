"""Images with several captions: choose= takes one of each sample's, by the sample's own draw."""

import functools
import http.server
import io
import json
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest
from conftest import SMALL, imgshard

from imgfeed import DataLoader

FIELDS = [
    "--field=captions=json.captions",
    "--field=caption=txt",
    "--field=url=json.url:text",
    "--field=tokens=json.tokens:int64[5]",
]


def pairs(images: Path, folder: Path) -> Path:
    """Pack images in the layout of img2dataset: a tar of numbered samples, each an image with its text and JSON."""
    with tarfile.open(folder / "00000.tar", "w") as tar:
        for i, file in enumerate(sorted(images.rglob("*.JPEG"))):
            colour = file.parent.name
            captions = [f"{colour} {word}" for word in ("picture", "photo", "image", "drawing")][: i % 5]
            meta = {
                "caption": colour,
                "url": f"https://example.org/{i}",
                "key": f"{i:09}",
                "status": "success",
                "captions": captions,
                "tokens": list(range(i, i + 5)),
            }
            for name, data in (("jpg", file.read_bytes()), ("json", json.dumps(meta).encode()), ("txt", f"no. {i}".encode())):
                member = tarfile.TarInfo(f"{i:09}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    imgshard("build", folder / "00000.tar", "-o", folder / "pairs-shards", "--no-labels", *FIELDS)
    return folder / "pairs-shards"


@pytest.fixture(scope="module")
def packed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pairs of a module's tests."""
    return pairs(images, tmp_path_factory.mktemp("pairs"))


def chosen(loader: DataLoader) -> dict[int, Any]:
    """Return each sample's caption in an epoch."""
    return {int(i): caption for *_, captions, index in loader for caption, i in zip(captions, index, strict=True)}


OPTIONS: dict[str, Any] = {
    "transform": SMALL, "framework": "numpy", "num_workers": 1, "shuffle": True, "seed": 3,
    "fields": ["captions"], "choose": ["captions"], "with_index": True,
}  # fmt: skip


def test_one_of_each_samples_captions(packed: Path) -> None:
    with DataLoader(packed, 7, **{**OPTIONS, "choose": ()}) as loader:
        lists = chosen(loader)
    with DataLoader(packed, 7, **OPTIONS) as loader:
        epochs = [chosen(loader) for _ in range(8)]
    varied = 0
    for index, captions in lists.items():
        seen = {epoch[index] for epoch in epochs}
        assert seen <= set(captions) if captions else seen == {None}
        varied += len(seen) > 1
    assert varied >= 0.9 * sum(len(captions) > 1 for captions in lists.values())
    with DataLoader(packed, 16, **OPTIONS, map=lambda image: image) as loader:
        assert [chosen(loader) for _ in range(2)] == epochs[:2]
    for world in (2, 3):
        got: dict[int, Any] = {}
        for rank in range(world):
            with DataLoader(packed, 5, **OPTIONS, rank=rank, world=world) as loader:
                loader.skip(2)
                got |= chosen(loader)
        assert len(got) < len(lists) and got == {index: epochs[0][index] for index in got}


def test_a_function_gets_the_chosen_caption(packed: Path) -> None:
    options = {**OPTIONS, "fields": ["caption", "captions"], "repeats": 2}
    with DataLoader(packed, 7, **options, map=lambda image, fields: (image, repr(fields))) as loader:
        for _ in range(2):
            for _, given, caption, captions, _ in loader:
                fields = [{"caption": a, "captions": b} for a, b in zip(caption, captions, strict=True)]
                assert given == [repr(values) for values in fields]


def test_fields_beside_it_and_draws_of_repeats(packed: Path) -> None:
    options = {
        **OPTIONS,
        "fields": ["tokens", "captions", "caption", "url"],
        "with_index": False,
        "repeats": 6,
        "shuffle": False,
    }
    with DataLoader(packed, 6, **options) as loader:
        varied = 0
        for _, labels, tokens, captions, caption, url in loader:
            n = int(tokens[0, 0])
            assert tokens.dtype == np.int64 and (tokens == np.arange(n, n + 5)).all() and (labels == -1).all()
            assert set(caption) == {f"no. {n}"} and set(url) == {f"https://example.org/{n}"}
            varied += len(set(captions)) > 1
    assert varied > 0.5 * len(loader)


@pytest.mark.parametrize("command", ["build", "index"])
def test_what_img2dataset_writes(images: Path, tmp_path: Path, command: str) -> None:
    """Its own program fetches images with captions from a server of this machine."""
    program = needs.program("img2dataset")  # before the server starts: if closed without shutdown(), its thread spins for good
    files = sorted(images.rglob("*.JPEG"))[:12]
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(images))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        rows = [{"url": f"{url}/{f.relative_to(images)}", "caption": f"picture {i}"} for i, f in enumerate(files)]
        (tmp_path / "list.json").write_text(json.dumps(rows))
        flags = "--input_format=json --url_col=url --caption_col=caption --output_format=webdataset --resize_mode=no"
        paths = [f"--url_list={tmp_path / 'list.json'}", f"--output_folder={tmp_path / 'out'}", "--processes_count=1"]
        subprocess.run([program, *flags.split(), *paths, "--number_sample_per_shard=5"], check=True, capture_output=True)
        server.shutdown()
    imgshard(command, tmp_path / "out", "-o", tmp_path / "set", "--no-labels", "--field=caption=txt")
    with DataLoader(tmp_path / "set", 5, transform=SMALL, framework="numpy", num_workers=1, fields=["caption"]) as loader:
        assert len(loader.dataset) == 12
        captions = [caption for _, labels, captions in loader for caption in captions if (labels == -1).all()]
        assert set(captions) == {row["caption"] for row in rows}


def test_what_can_not_be_chosen_from_is_refused(packed: Path) -> None:
    with pytest.raises(ValueError, match=r"^imgfeed: choose names captions: give fields= with it"):
        DataLoader(packed, choose=["captions"])
    with pytest.raises(ValueError, match=r"^imgfeed: choose names caption, a field of type text: pack lists as JSON"):
        DataLoader(packed, fields=["caption"], choose=["caption"])
