"""Two nodes in two network namespaces, each with an address, a copy of its part of the data, a feed and a rank. Needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from conftest import PLAIN, TINY, command, events, weights
from imgfeed.launcher import find_binary
from namespaces import Node, two_nodes
from test_training import same

pytestmark = pytest.mark.long

TRAIN, VAL = 300, 45  # of both nodes together
PORT = 29511  # of the node's namespace, so nobody else has it
LIMIT = 280  # seconds after which a run hangs, on a machine that does much else too


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    with two_nodes(tmp_path_factory.mktemp("nodes"), "10.211.77") as made:
        yield made


@pytest.fixture(scope="module")
def dealt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with whole/, sets dealt to two ranks, and node0/ and node1/ with the partition of that node's rank alone."""
    folder = tmp_path_factory.mktemp("dealt")
    counts = ["--classes", "3", "--train", str(TRAIN // 3), "--val", str(VAL // 3)]
    for words in (
        ["synth", str(folder / "raw"), *counts, "--size", "64"],
        ["build", str(folder / "raw"), "-o", str(folder / "whole"), "--partitions", "2"],
    ):
        subprocess.run([find_binary("imgshard"), *words], check=True, capture_output=True)
    for i in range(2):
        other = shutil.ignore_patterns(f"rank-000{1 - i}")
        shutil.copytree(folder / "whole", folder / f"node{i}", ignore=other)
    return folder


@pytest.fixture(scope="module")
def one_node(dealt: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of two ranks on one machine, which has all the data."""
    run = tmp_path_factory.mktemp("one") / "run"
    arguments = ["--data", str(dealt / "whole"), "--output", str(run), *TINY, *PLAIN, "--batch-size", "8", "-g", "2"]
    subprocess.run(command(*arguments), check=True, capture_output=True, text=True, timeout=LIMIT)
    return run


def start(node: Node, words: list[str], **env: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(node.command(*words), env={**os.environ, **env}, stdout=pipe, stderr=pipe, text=True)


# How two nodes are told of each other: the master by address, by name and port, and by both meanings of WORLD_SIZE.
@pytest.mark.parametrize("how", ["flags", "variables", "torchrun"])
def test_two_nodes_train_as_one(nodes: list[Node], dealt: Path, one_node: Path, tmp_path: Path, how: str) -> None:
    run = tmp_path / "run"
    tiny = TINY if how != "variables" else [word for word in TINY if word not in {"--workers", "1"}]  # a running feed's own
    arguments = ["--output", str(run), *tiny, *PLAIN, "--batch-size", "8", "--rendezvous-timeout", "120"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "-m", "imgfeed_train"]
    torchrun[-2:-2] = ["--master-addr", "node0", "--master-port", str(PORT)]
    with ExitStack() as feeds:
        ranks = []
        for i, node in enumerate(nodes):
            data, env, words = str(dealt / node.name), {}, command()
            if how == "flags":
                words += ["-n", "2", "-g", "1", "-nr", str(i), "--master", nodes[0].address]
            elif how == "variables":
                env = {"MASTER_ADDR": "node0", "MASTER_PORT": str(PORT), "WORLD_SIZE": "2", "NODE_RANK": str(i)}
                socket = tmp_path / f"{node.name}.sock"
                feed = start(node, [find_binary("imgfeed"), "serve", data, "--socket", str(socket), "--log-level", "error"])
                feeds.callback(feed.communicate, timeout=20)
                feeds.callback(feed.terminate)
                await_socket(socket)
                data = f"unix:{socket}"
            else:
                words = [*torchrun[:-2], "--node-rank", str(i), *torchrun[-2:]]
            ranks.append(start(node, [*words, "--data", data, *arguments], **env))
        said = [rank.communicate(timeout=LIMIT) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    taken = {
        "flags": "ranks: 2 (-n -g -nr: 2 x 1 ranks); master 10.211.77.1:29500",
        "variables": f"WORLD_SIZE=2 taken as the number of nodes, since RANK is not set: 2 x 1 ranks); master node0:{PORT}",
        "torchrun": f"torchrun: WORLD_SIZE=2 taken as the number of processes); master node0:{PORT}",
    }
    assert taken[how] in said[0][0]
    same(one_node, run)
    assert [e["samples"] for e in events(run, "epoch")] == [VAL, VAL]


def test_only_the_first_node_has_the_checkpoint(nodes: list[Node], dealt: Path, one_node: Path, tmp_path: Path) -> None:
    """Nodes that share no storage go on from what rank 0 saved on its own."""
    for more in (["--max-steps", "24"], ["--resume", "auto"]):
        ranks = []
        for i, node in enumerate(nodes):
            folders = ["--data", str(dealt / node.name), "--output", str(tmp_path / node.name)]
            flags = ["-n", "2", "-g", "1", "-nr", str(i), "--master", "node0", "--rendezvous-timeout", "120"]
            ranks.append(start(node, command(*folders, *TINY, *PLAIN, "--batch-size", "8", *flags, *more)))
        said = [rank.communicate(timeout=LIMIT) for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0, 0], said
    assert "resumed" in said[0][0]
    assert not (tmp_path / "node1" / "checkpoints").exists()
    same(one_node, tmp_path / "node0")


def test_two_nodes_reach_what_one_rank_reaches_with_twice_the_batch(nodes: list[Node], sets: Path, tmp_path: Path) -> None:
    arguments = ["--data", str(sets), *TINY, *PLAIN, "--output"]
    subprocess.run(command(*arguments, str(tmp_path / "one")), check=True, capture_output=True, timeout=LIMIT)
    both = [*arguments, str(tmp_path / "two"), "--batch-size", "8", "-n", "2", "-g", "1", "--master", nodes[0].address]
    ranks = [start(node, command(*both, "-nr", str(i))) for i, node in enumerate(nodes)]
    said = [rank.communicate(timeout=LIMIT)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    theirs = weights(tmp_path / "two")["model"]
    for name, tensor in weights(tmp_path / "one")["model"].items():
        torch.testing.assert_close(theirs[name], tensor, rtol=1e-3, atol=2e-5, msg=name)


def await_socket(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_nodes_that_do_not_meet(nodes: list[Node], sets: Path, tmp_path: Path) -> None:
    """Every mistake ends in an error that names it; test_launch.py measures how soon."""
    listener = "import socket, sys; s = socket.create_server(('', int(sys.argv[1]))); print('up', flush=True); sys.stdin.read()"
    taken = subprocess.Popen(
        nodes[0].command(sys.executable, "-c", listener, str(PORT)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert taken.stdout is not None
    taken.stdout.readline()
    mistakes = [
        (1, "2", "10.211.77.99", "no answer from the master at 10.211.77.99:29500 within 8 s"),  # nobody has this address
        (1, "2", f"node0:{PORT}", f"what listens at node0:{PORT} is no rendezvous"),  # somebody else listens
        (0, "2", f"node0:{PORT}", f"port {PORT} can't be opened on this machine: it is in use"),
        (0, "3", "node0:29513", "met only 2 of 3 ranks at node0:29513 within 8 s; missing: [2]"),
        (1, "3", "node0:29513", "met only 2 of 3 ranks at node0:29513 "),  # it, too, after 8 s, or when the master has ended
    ]
    base = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, "--rendezvous-timeout", "8", "-g", "1"]
    ranks = [start(nodes[i], command(*base, "-n", n, "-nr", str(i), "--master", master)) for i, n, master, _ in mistakes]
    said = [rank.communicate(timeout=LIMIT)[1] for rank in ranks]
    taken.communicate(input="")
    for rank, words, (_, _, _, wanted) in zip(ranks, said, mistakes, strict=True):
        assert rank.returncode == 1, words
        assert wanted in words
        assert ("missing: [2]" in words) == ("met only" in wanted), words
