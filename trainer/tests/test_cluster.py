"""Two nodes in two network namespaces, each with an address, a copy of its part of the data, a feed and a rank. Needs root."""

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
from conftest import PLAIN, TINY, command, events, same, weights
from imgfeed.programs import find_binary
from namespaces import Node, two_nodes

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


# How nodes learn of each other: the master by address, by name and port, and by both meanings of WORLD_SIZE.
@pytest.mark.parametrize("how", ["flags", "variables", "torchrun"])
def test_two_nodes_train_as_one(nodes: list[Node], dealt: Path, one_node: Path, tmp_path: Path, how: str) -> None:
    run = tmp_path / "run"
    tiny = TINY if how != "variables" else [word for word in TINY if word not in {"--workers", "1"}]  # a running feed's own
    arguments = ["--output", str(run), *tiny, *PLAIN, "--batch-size", "8"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "-m", "imgfeed_train"]
    torchrun[-2:-2] = ["--master-addr", "node0", "--master-port", str(PORT)]
    with ExitStack() as feeds:
        ranks = []
        for i, node in enumerate(nodes):
            data, env, words = str(dealt / node.name), {}, command()
            if how == "flags":
                words += ["-n", "2", "-g", "1", "-nr", str(i)]
                env = {"MASTER_ADDR": nodes[0].address}
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
        "flags": "ranks: 2 (2 x 1); master 10.211.77.1:29500",
        "variables": f"ranks: 2 (2 x 1); master node0:{PORT}",
        "torchrun": "ranks: 2; rank 0 on cpu",
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
            flags = ["-n", "2", "-g", "1", "-nr", str(i)]
            words = command(*folders, *TINY, *PLAIN, "--batch-size", "8", *flags, *more)
            ranks.append(start(node, words, MASTER_ADDR="node0"))
        said = [rank.communicate(timeout=LIMIT) for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0, 0], said
    assert "resumed" in said[0][0]
    assert not (tmp_path / "node1" / "checkpoints").exists()
    same(one_node, tmp_path / "node0")


def test_two_nodes_reach_what_one_rank_reaches_with_twice_the_batch(nodes: list[Node], sets: Path, tmp_path: Path) -> None:
    arguments = ["--data", str(sets), *TINY, *PLAIN, "--output"]
    subprocess.run(command(*arguments, str(tmp_path / "one")), check=True, capture_output=True, timeout=LIMIT)
    both = [*arguments, str(tmp_path / "two"), "--batch-size", "8", "-n", "2", "-g", "1"]
    ranks = [start(node, command(*both, "-nr", str(i)), MASTER_ADDR=nodes[0].address) for i, node in enumerate(nodes)]
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
