"""Every way to say which rank this is, and ranks that don't meet: an error in time, not a hang."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import pytest
from conftest import TINY, command, free_port

from imgfeed_train.errors import RendezvousError, TrainError
from imgfeed_train.launch.place import HOW, Place, discover
from imgfeed_train.launch.rendezvous import rendezvous
from imgfeed_train.settings import Settings, parse


def settings(*arguments: str) -> Settings:
    return parse(["--data", "d", "--output", "o", *arguments])


def test_nodes_and_gpus() -> None:
    place = discover(settings("-n", "2", "-g", "4", "-nr", "1", "--master", "10.0.0.1:1234"), {}, 8)
    assert (place.rank, place.world, place.spawn, place.host, place.port) == (4, 8, 4, "10.0.0.1", 1234)
    assert discover(settings(), {}, 0).world == 1
    assert discover(settings(), {}, 4).spawn == 4
    assert discover(settings("--strategy", "dp"), {}, 4).world == 1
    with pytest.raises(TrainError, match="node rank 2 of 2"):
        discover(settings("-n", "2", "-nr", "2", "--master", "h"), {}, 1)
    with pytest.raises(SystemExit):
        settings("-n", "2")


def test_both_meanings_of_world_size() -> None:
    address = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "77"}
    nodes = discover(settings(), {**address, "WORLD_SIZE": "2", "NODE_RANK": "1"}, 4)
    assert (nodes.rank, nodes.world, nodes.spawn, nodes.port) == (4, 8, 4, 77)
    assert "WORLD_SIZE=2 taken as the number of nodes" in nodes.how
    torchrun = {**address, "WORLD_SIZE": "8", "RANK": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "NODE_RANK": "1"}
    ranks = discover(settings(), torchrun, 4)
    assert (ranks.rank, ranks.world, ranks.local_rank, ranks.spawn) == (5, 8, 1, 0)
    assert "WORLD_SIZE=8 taken as the number of processes" in ranks.how
    with pytest.raises(TrainError, match="MASTER_ADDR is not set"):
        discover(settings(), {"WORLD_SIZE": "2", "NODE_RANK": "0"}, 1)
    with pytest.raises(TrainError, match="WORLD_SIZE is 'two'"):
        discover(settings(), {"WORLD_SIZE": "two", "RANK": "0"}, 1)


def test_slurm() -> None:
    slurm = {"SLURM_PROCID": "3", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_LOCALID": "1"}
    place = discover(settings(), {**slurm, "MASTER_ADDR": "n1", "SLURM_JOB_ID": "7"}, 2)
    assert (place.rank, place.world, place.local_rank, place.local_world, place.host, place.port) == (3, 4, 1, 2, "n1", 20007)
    assert discover(settings(), {**slurm, "SLURM_JOB_NODELIST": "n5"}, 2).host == "n5"


@pytest.mark.parametrize("spelt", [["-n1"], ["-n", "1"], ["--nodes=1", "--node-rank=0"]])
def test_a_child_is_one_by_its_environment(spelt: list[str]) -> None:
    """However the parent's arguments were spelt, which its children get as they are."""
    s = settings(*spelt, "-g", "2")
    assert discover(s, {}, 0).spawn == 2
    child = {HOW: "-n -g -nr: 1 x 2 ranks", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    place = discover(s, child, 0)
    assert (place.rank, place.world, place.spawn, place.how) == (1, 2, 0, child[HOW])


@pytest.mark.parametrize(("given", "meant"), [("--node-r 0", "--node-rank"), ("--eval-only", "--evaluate")])
def test_no_abbreviations(capsys: pytest.CaptureFixture[str], given: str, meant: str) -> None:
    with pytest.raises(SystemExit):
        settings(*given.split())
    assert capsys.readouterr().err.startswith(f"imgfeed-train: unrecognized arguments: {given}; is {meant} meant?")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (Place(1, 2, host="127.0.0.1", port=free_port()), "no answer from the master at 127.0.0.1:.* within 2 s"),
        (Place(1, 2, host="no-such-host.invalid"), "can't be resolved"),
        (Place(0, 3, host="127.0.0.1", port=free_port()), r"met only 1 of 3 ranks.*missing: \[1, 2\]"),
    ],
)
def test_ranks_that_do_not_meet(place: Place, said: str) -> None:
    begun = time.monotonic()
    with pytest.raises(RendezvousError, match=said):
        rendezvous(place, "gloo", 2, 30)
    assert time.monotonic() - begun < 15


def test_port_in_use() -> None:
    with socket.create_server(("", 0)) as taken:
        port = int(taken.getsockname()[1])
        with pytest.raises(RendezvousError, match="in use"):
            rendezvous(Place(0, 2, host="127.0.0.1", port=port), "gloo", 2, 30)


def test_master_that_is_another_machine() -> None:
    """192.0.2.7 is nobody's (RFC 5737), and so not this machine's."""
    with pytest.raises(RendezvousError, match=r"--master 192\.0\.2\.7 does not lead to this machine, .*its own -nr"):
        rendezvous(Place(0, 2, host="192.0.2.7", port=free_port()), "gloo", 2, 30)


def test_master_that_is_something_else() -> None:
    """A port on which another program listens and never answers: an error, in time."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = Place(1, 2, host="127.0.0.1", port=int(other.getsockname()[1]))
        begun = time.monotonic()
        with pytest.raises(RendezvousError, match="rank 1"):
            rendezvous(place, "gloo", 2, 30)
        assert time.monotonic() - begun < 30


@pytest.mark.long
def test_command_says_so_and_exits(tmp_path: Path) -> None:
    arguments = ["--data", "d", "--output", str(tmp_path), *TINY, "--rendezvous-timeout", "1"]
    alone = command(*arguments, "-n", "2", "-g", "1", "-nr", "1", "--master", f"127.0.0.1:{free_port()}")
    done = subprocess.run(alone, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("imgfeed-train: rank 1: no answer from the master")


@pytest.mark.long
def test_two_nodes_by_hand(sets: Path, tmp_path: Path) -> None:
    """Two single-rank nodes on this machine, as in WORLD_SIZE=2 NODE_RANK={0,1}."""
    import os  # noqa: PLC0415

    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    arguments = ["--data", str(sets), "--output", str(tmp_path / "run"), *TINY, "--epochs", "1", "--batch-size", "8"]
    nodes = [
        subprocess.Popen(
            command(*arguments), env={**os.environ, **shared, "NODE_RANK": str(n)}, stdout=subprocess.PIPE, text=True
        )
        for n in range(2)
    ]
    said = [node.communicate(timeout=280)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0]
    assert "WORLD_SIZE=2 taken as the number of nodes" in said[0]
    assert "Epoch: [0][6/6]" in said[0]
    assert all(line.startswith("node of rank 1: ") for line in said[1].splitlines()), said[1]  # what it stands on, no more
