"""Sets behind a network: the same batches as from a folder, whatever the server answers in between."""

import json
import os
import random
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import needs
import pytest
from conftest import PATIENCE, RANDOM, copied, free_port, imgshard, listens, same, wait_for

from imgfeed import DataLoader, ServerError


class Store(ThreadingHTTPServer):
    """A web server with ranges. Each third of its first requests, of so many, may fail."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, folder: Path, port: int = 0, certificate: Path | None = None, fails: int = 0) -> None:
        self.lock = threading.Lock()

        class Handler(SimpleHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # or a body waits 40 ms for the acknowledgement of its headers

            def __init__(self, *args: Any, **named: Any) -> None:
                super().__init__(*args, directory=str(folder), **named)

            def do_GET(self) -> None:
                with self.server.lock:
                    self.server.count += 1
                    self.server.asked.append(self.path)
                    refused = self.server.count % 3 == 0 and self.server.count < self.server.fails
                if refused:
                    self.send_error(503)
                    return
                path = Path(self.translate_path(self.path))
                if not path.is_file():
                    self.send_error(404)
                    return
                data = path.read_bytes()
                asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                first, last = (int(asked[1]), min(int(asked[2]), len(data) - 1)) if asked else (0, len(data) - 1)
                self.send_response(206 if asked else 200)
                if asked:
                    self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
                self.send_header("Content-Length", str(last + 1 - first))
                self.end_headers()
                self.wfile.write(data[first : last + 1])
                with self.server.lock:
                    self.server.sent += last + 1 - first

            def log_message(self, *args: Any) -> None:
                pass

        self.fails = fails
        self.count = self.sent = 0  # requests, and bytes of answers
        self.asked: list[str] = []  # paths
        super().__init__(("127.0.0.1", port), Handler)
        self.scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def end(self) -> None:
        self.shutdown()
        self.server_close()


@pytest.fixture
def store(shards: Path) -> Iterator[Store]:
    store = Store(shards.parent, free_port(), fails=60)
    yield store
    store.end()


def batches(data: str | Path, **options: Any) -> list[Any]:
    with DataLoader(data, batch_size=8, transform=RANDOM, seed=3, rank=0, world=1, **options) as loader:
        return [copied(b) for _ in range(2) for b in loader]


def test_the_batches_of_a_folder(shards: Path, store: Store) -> None:
    here, there = batches(shards), batches(f"{store.url}/{shards.name}")
    assert all(same(a, b) for a, b in zip(here, there, strict=True))


def test_https(shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is read if an authority of this machine vouches for it, and no other."""
    certificate = tmp_path / "certificate.pem"
    options = ["-subj", "/CN=store", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-nodes"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run(
        [needs.program("openssl"), "req", "-x509", "-newkey", "rsa:2048", *options, *files], check=True, capture_output=True
    )
    certificate.write_bytes((tmp_path / "key.pem").read_bytes() + (tmp_path / "cert.pem").read_bytes())
    store = Store(shards.parent, certificate=certificate)
    with pytest.raises(ServerError, match="certificate"):
        batches(f"{store.url}/{shards.name}")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    here, there = batches(shards), batches(f"{store.url}/{shards.name}")
    assert all(same(a, b) for a, b in zip(here, there, strict=True))
    store.end()


def test_a_store_that_goes_away(shards: Path, store: Store) -> None:
    """Batches go on where they were once it is back."""
    want = batches(shards)
    want = want[: len(want) // 2]
    with DataLoader(
        f"{store.url}/{shards.name}", batch_size=8, transform=RANDOM, seed=3, rank=0, world=1, prefetch_factor=1
    ) as loader:
        iterator = iter(loader)
        got = [copied(next(iterator)) for _ in range(3)]
        port = store.server_address[1]
        store.end()
        again: list[Store] = []
        back = threading.Timer(2, lambda: again.append(Store(shards.parent, port)))
        back.start()
        got += [copied(b) for b in iterator]
        back.join()
        again[0].end()
    assert all(same(a, b) for a, b in zip(got, want, strict=True))


def test_a_cache_on_the_disk(shards: Path, store: Store, tmp_path: Path) -> None:
    """The second loader makes requests for the manifest and for the version of each shard, and no other. The page says so."""
    want = batches(shards)
    for first in (True, False):
        store.count = 0
        options: dict[str, Any] = {"cache": tmp_path / "cache", "cache_size": "1GB", "metrics": "127.0.0.1:0"}
        with DataLoader(
            f"{store.url}/{shards.name}", transform=RANDOM, batch_size=8, seed=3, rank=0, world=1, **options
        ) as loader:
            got = [copied(b) for _ in range(2) for b in loader]
            with urllib.request.urlopen(f"{loader.stats()['page']}status.json", timeout=PATIENCE) as reply:
                seen = json.load(reply)["store"]
        assert all(same(a, b) for a, b in zip(got, want, strict=True))
        assert store.count == seen["requests"] and seen["hit_bytes"] > 0 and seen["cache_used"] > 0
        assert first or store.count - seen["retries"] <= 3 + len(list(shards.rglob("*.imgshard")))
        assert seen["set_bytes"] > 0 and (not first or "503" in seen["failure"])


@pytest.mark.parametrize("partitions", [1, 2])
def test_two_nodes(tmp_path: Path, partitions: int) -> None:
    """In an epoch they fetch the set once. Of a set with a partition for each, a node fetches its part once."""
    imgshard("synth", tmp_path / "images", "--classes", "4", "--train", "40", "--val", "0", "--size", "150")
    imgshard("build", tmp_path / "images" / "train", "-o", tmp_path / "sets" / "train", "--partitions", str(partitions))
    parts = [path.stat().st_size for path in sorted((tmp_path / "sets").rglob("*.imgshard"))]
    store = Store(tmp_path / "sets")

    def fetched(rank: int, node: int, epochs: int) -> float:
        """Share of the set that a node has fetched for some epochs."""
        store.sent = 0
        cache = tmp_path / f"node-{node}"
        with DataLoader(
            f"{store.url}/train", transform=RANDOM, batch_size=8, seed=3, rank=rank, world=2, cache=cache
        ) as loader:
            assert sum(len(y) for _ in range(epochs) for _, y in loader) >= epochs * 4 * 40 / 2
        return store.sent / sum(parts)

    assert fetched(0, 0, 1) + fetched(1, 1, 1) == pytest.approx(1, abs=0.05)
    if partitions == 2:
        assert fetched(0, 0, 3) + fetched(1, 1, 3) < 0.01
        assert fetched(1, 0, 1) == pytest.approx(parts[1] / sum(parts), abs=0.03)
        assert fetched(0, 0, 1) < 0.01
    store.end()


@pytest.mark.long
def test_kills_with_a_cache_half_full(shards: Path, store: Store, tmp_path: Path) -> None:
    """A hundred servers are killed while they fill a cache of half the set: every epoch has the same bits."""
    want = batches(shards)
    want = want[: len(want) // 2]
    size = sum(path.stat().st_size for path in shards.rglob("*.imgshard")) // 2
    options: dict[str, Any] = {"cache": tmp_path / "cache", "cache_size": str(size)}
    store.fails, chance, kills = sys.maxsize, random.Random(7), 0
    with DataLoader(f"{store.url}/{shards.name}", transform=RANDOM, batch_size=8, seed=3, rank=0, world=1, **options) as loader:
        while kills < 100:
            loader.set_epoch(0)
            got = []
            for batch in loader:
                got.append(copied(batch))
                if chance.random() < 0.3:
                    time.sleep(chance.random() * 0.02)
                    loader._service.server.kill()
                    kills += 1
            assert all(same(a, b) for a, b in zip(got, want, strict=True))


def test_what_is_not_there(store: Store) -> None:
    with pytest.raises(ServerError, match="/nothing: there is no such file or folder"):
        DataLoader(f"{store.url}/nothing", batch_size=8, transform="eval")
    with pytest.raises(
        ValueError, match="unknown kind: want a folder, or a URL that begins with s3://, https://, http://, hf://, gs://"
    ):
        DataLoader("ftp://bucket/x", batch_size=8, transform="eval")


def test_secrets_reach_no_command_line(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL with a secret starts no server, which would show it to everybody on the machine, and no error shows it."""
    started: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *command, **_: started.append(command))
    for url in (
        "https://user:hunter2@host/x",
        "s3://bucket/x?signature=hunter2",
        "ftp://user:hunter2@host/x",
        "https://host/#hunter2",
    ):
        wrong: list[tuple[Any, dict[str, Any]]] = [(url, {}), ([shards, url], {}), (shards, {"feeders": [url]})]
        wrong += [(shards, {name: url}) for name in ("cache", "cache_size", "allow_source", "tls", "metrics")]
        for data, options in wrong:
            with pytest.raises(ValueError, match="password") as refused:
                DataLoader(data, batch_size=8, transform="eval", **options)
            assert "hunter2" not in str(refused.value)
    assert not started


def test_an_index_of_a_stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index on a web server has its images there, unless the user allows another address. It gets no query."""
    imgshard("synth", tmp_path / "images", "--classes", "2", "--train", "4", "--val", "0")
    images = Store(tmp_path / "images")
    with tarfile.open(tmp_path / "images" / "train.tar", "w") as tar:
        tar.add(tmp_path / "images" / "train", "train")
    imgshard("index", f"{images.url}/train.tar", "-o", tmp_path / "sets" / "index")
    store = Store(tmp_path / "sets")
    monkeypatch.setenv("IMGFEED_URL_QUERY", "signature=hunter2")
    options: dict[str, Any] = {"batch_size": 8, "transform": "eval", "shuffle": False, "rank": 0, "world": 1}
    with pytest.raises(ServerError, match=r"may use only its own host and bucket: .*--allow-source"):
        DataLoader(f"{store.url}/index", **options)
    images.asked.clear()
    with DataLoader(tmp_path / "sets" / "index", **options) as loader:
        here = [copied(b) for b in loader]
    assert images.asked and not any("hunter2" in path for path in images.asked)
    monkeypatch.delenv("IMGFEED_URL_QUERY")
    with DataLoader(f"{store.url}/index", allow_source=images.url, **options) as loader:
        assert all(same(a, b) for a, b in zip(here, loader, strict=True))
    images.end()
    store.end()


def test_a_bucket(shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versity's gateway is a real server of S3."""
    gateway = needs.program("versitygw")
    port = free_port()
    shutil.copytree(shards, tmp_path / "root" / "bucket" / "sets" / "train")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    command = [gateway, "--port", f"127.0.0.1:{port}", "posix", str(tmp_path / "root")]
    environment = {**os.environ, "ROOT_ACCESS_KEY": "key", "ROOT_SECRET_KEY": "secret"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            wait_for(lambda: listens(port))
            here, there = batches(shards), batches("s3://bucket/sets")
            assert all(same(a, b) for a, b in zip(here, there, strict=True))
        finally:
            running.terminate()
