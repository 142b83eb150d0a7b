"""What a server and a real feeder show of each other."""

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from conftest import PATIENCE, wait_for

from imgfeed import DataLoader
from imgfeed.programs import find_binary


def started(*command: str) -> tuple[subprocess.Popen[str], str]:
    """Start imgfeed, and return it with what it prints up to its page's address."""
    process = subprocess.Popen([find_binary(), *command, "--metrics", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    text = ""
    for line in process.stdout:
        text += line
        if "status on http" in line:
            return process, text
    raise AssertionError(text)


def page(text: str) -> str:
    found = re.search(r"http://\S+?/", text)
    assert found
    return found[0]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def status(text: str) -> dict[str, Any]:
    return dict(json.loads(get(page(text) + "status.json")))


def connections(text: str) -> int:
    """Return how many connections a server has to feeders, which it looks up after it has begun to serve."""
    return sum(feeder["connections"] for feeder in status(text)["feeders"]["each"])


def epoch(socket: Path) -> int:
    """Return the number of images of an epoch."""
    with DataLoader(f"unix:{socket}", 4, framework="numpy", transform=[{"op": "CenterCrop", "size": 16}]) as loader:
        return sum(len(batch[0]) for batch in loader)


def test_server_and_feeder_show_each_other(shards: Path, tmp_path: Path) -> None:
    feeder, feeds = started("feed", str(shards), "--listen", "127.0.0.1:0", "--threads", "1")
    listens = re.search(r"^on (\S+)$", feeds, re.MULTILINE)
    assert listens
    address = listens[1]
    socket = tmp_path / "s"
    server, serves = started("serve", str(shards), "--socket", str(socket), "--threads", "0", "--feeders", address)
    try:
        wait_for(lambda: connections(serves) > 0)
        images = epoch(socket)
        all_feeders = status(serves)["feeders"]
        assert all_feeders["each"][0]["address"] == address
        assert all_feeders["samples"] + all_feeders["again"] == images
        assert f'imgfeed_feeder_samples_total{{feeder="{address}"}} {all_feeders["samples"]}\n' in get(page(serves) + "metrics")

        seen = status(feeds)
        assert seen["images"] >= all_feeders["samples"] > 0
        assert seen["feeding"]["pieces"] > 0 and seen["feeding"]["connections"] > 0
        assert seen["verdict"].startswith("this is a feeder: ")
        assert get(page(feeds) + "healthz") == "ok\n"
        assert re.search(r"^imgfeed_feed_connections [1-9]", get(page(feeds) + "metrics"), re.MULTILINE)
        assert "feeders: 1 of 1 connected" in get(page(serves))

        feeder.kill()
        epoch(socket)  # a server sees that a feeder has gone when it asks for a piece
        wait_for(lambda: connections(serves) == 0)
        assert status(serves)["feeders"]["each"][0]["trouble"]
    finally:
        for process in (feeder, server):
            process.kill()
            process.communicate()


def test_certificates_of_the_document(shards: Path, tmp_path: Path) -> None:
    document = Path(__file__).parents[2] / "docs" / "scaling.md"
    [commands] = re.findall(r"```sh\n(mkdir tls\n.*?)```", document.read_text(), re.DOTALL)
    subprocess.run(["sh", "-ec", commands], cwd=tmp_path, check=True, capture_output=True)
    secured = ["--tls", str(tmp_path / "tls")]
    feeder, feeds = started("feed", str(shards), "--listen", "127.0.0.1:0", *secured)
    listens = re.search(r"^on (\S+)$", feeds, re.MULTILINE)
    assert listens
    socket = tmp_path / "s"
    server, serves = started("serve", str(shards), "--socket", str(socket), "--threads", "0", "--feeders", listens[1], *secured)
    try:
        wait_for(lambda: connections(serves) > 0)
        epoch(socket)
        assert status(serves)["feeders"]["samples"] > 0
    finally:
        for process in (server, feeder):
            process.kill()
            process.communicate()
