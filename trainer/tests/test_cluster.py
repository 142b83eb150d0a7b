"""Two nodes in two network namespaces, each with an address, a feed and a rank of its own. Needs root and iproute2."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PLAIN, TINY, VAL, Train, command, events, weights

ADDRESSES = ("10.211.77.1", "10.211.77.2")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[str]]:
    """The names of two namespaces with a cable between them."""
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces need root and the ip command")
    names = [f"imgfeed-train-{os.getpid()}-{i}" for i in range(2)]
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "node0", "netns", names[0], "type", "veth", "peer", "name", "node1", "netns", names[1])
            for i, name in enumerate(names):
                ip("-n", name, "addr", "add", f"{ADDRESSES[i]}/24", "dev", f"node{i}")
                ip("-n", name, "link", "set", f"node{i}", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as e:
            pytest.skip(f"no network namespaces here: {e.stderr.strip()}")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def test_two_nodes_reach_what_one_reaches(train: Train, sets: Path, tmp_path: Path, nodes: list[str]) -> None:
    import torch  # noqa: PLC0415

    one = train("one")
    arguments = ["--data", str(sets), *TINY, *PLAIN, "--batch-size", "8", "-n", "2", "-g", "1", "--master", ADDRESSES[0]]
    arguments += ["--output", str(tmp_path / "two"), "--rendezvous-timeout", "60"]
    ranks = [
        subprocess.Popen(["ip", "netns", "exec", name, *command(*arguments, "-nr", str(i))], stderr=subprocess.PIPE, text=True)
        for i, name in enumerate(nodes)
    ]
    said = [rank.communicate(timeout=150)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    theirs = weights(tmp_path / "two")["model"]
    for name, tensor in weights(one)["model"].items():
        torch.testing.assert_close(theirs[name], tensor, rtol=1e-3, atol=2e-5, msg=name)
    assert [e["samples"] for e in events(tmp_path / "two", "epoch")] == [VAL, VAL]


def test_address_of_nobody(sets: Path, tmp_path: Path, nodes: list[str]) -> None:
    arguments = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, "--rendezvous-timeout", "3"]
    lost = command(*arguments, "-n", "2", "-g", "1", "-nr", "1", "--master", "10.211.77.99")
    begun = time.monotonic()
    done = subprocess.run(["ip", "netns", "exec", nodes[1], *lost], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "no answer from the master at 10.211.77.99:29500 within 3 s" in done.stderr
    assert time.monotonic() - begun < 45
