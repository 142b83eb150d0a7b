"""Which rank this process is: under torchrun, under Slurm, by -n -g -nr --master, or as the child of such a process.

WORLD_SIZE has two meanings in the wild: torchrun's counts processes, many a script's counts nodes. The rule here: where
RANK is set, or Slurm says the task, it counts processes; with NODE_RANK and no RANK it counts nodes. What was taken is printed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..errors import TrainError
from ..settings import Settings

PORT = 29500
#: What the parent of a node's ranks tells its children: how their place was found, the file of each for its note, and its own
#: process. The first makes a process a child, whatever its arguments are.
HOW, NOTES, PARENT = "IMGFEED_TRAIN_HOW", "IMGFEED_TRAIN_NOTES", "IMGFEED_TRAIN_PARENT"


@dataclass(frozen=True)
class Place:
    """One process among all. ``spawn`` > 0 makes it the parent of that many ranks, with ``rank`` the first of them.

    A parent whose ranks are all there are has port 0: it opens their store itself, at any free port.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1
    host: str = "127.0.0.1"
    port: int = PORT
    how: str = "one process"
    attempt: int = 0
    agent_store: bool = False
    spawn: int = 0
    notes: str = ""  # the file in which this rank's parent reads what it does; empty: nobody does


def discover(s: Settings, env: Mapping[str, str], gpus: int) -> Place:
    """Return this process's place. gpus is how many this node has. Raises TrainError for contradictory variables."""
    if HOW in env:
        return _from_ranks(env)
    if s.nodes is not None or s.node_rank is not None:
        return _own(s, s.nodes or 1, s.node_rank or 0, gpus, master=s.master, how="-n -g -nr")
    if "RANK" in env and "WORLD_SIZE" in env:
        return _from_ranks(env)
    if "SLURM_PROCID" in env and "SLURM_STEP_ID" in env:
        return _slurm(env)
    if "WORLD_SIZE" in env and "NODE_RANK" in env:
        nodes = _number(env, "WORLD_SIZE")
        host, port = env.get("MASTER_ADDR", ""), env.get("MASTER_PORT", str(PORT))
        if nodes > 1 and not host and not s.master:
            raise TrainError(f"WORLD_SIZE={nodes} nodes, but MASTER_ADDR is not set: name an address of node 0")
        how = f"MASTER_ADDR and NODE_RANK: WORLD_SIZE={nodes} taken as the number of nodes, since RANK is not set"
        master = s.master or (f"{host}:{port}" if host else None)
        return _own(s, nodes, _number(env, "NODE_RANK"), gpus, master=master, how=how)
    return _own(s, 1, 0, gpus, master=s.master, how="one node")


def _own(s: Settings, nodes: int, node: int, gpus: int, *, master: str | None, how: str) -> Place:
    if not 0 <= node < nodes:
        raise TrainError(f"node rank {node} of {nodes} nodes: want 0 to {nodes - 1}")
    here = 1 if s.strategy == "dp" else s.gpus or gpus or 1
    host, _, port = (master or "127.0.0.1").partition(":")
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise TrainError(f"--master {master}: {port!r} is no port")
    if not master and nodes == 1:
        port = "0" if here > 1 else port
    place = Place(node * here, nodes * here, 0, here, host, int(port or PORT), f"{how}: {nodes} x {here} ranks")
    return replace(place, spawn=here if here > 1 else 0)


def _from_ranks(env: Mapping[str, str]) -> Place:
    rank, world = _number(env, "RANK"), _number(env, "WORLD_SIZE")
    if not 0 <= rank < world:
        raise TrainError(f"RANK={rank} and WORLD_SIZE={world}: want 0 <= RANK < WORLD_SIZE (processes, since RANK is set)")
    who = "torchrun" if "TORCHELASTIC_RUN_ID" in env else "RANK"
    return Place(
        rank,
        world,
        _number(env, "LOCAL_RANK", 0),
        _number(env, "LOCAL_WORLD_SIZE", 1),
        env.get("MASTER_ADDR", "127.0.0.1"),
        _number(env, "MASTER_PORT", PORT),
        env.get(HOW) or f"{who}: WORLD_SIZE={world} taken as the number of processes",
        _number(env, "TORCHELASTIC_RESTART_COUNT", 0),
        env.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        notes=env.get(NOTES, "") if HOW in env else "",
    )


def _slurm(env: Mapping[str, str]) -> Place:
    world, nodes = _number(env, "SLURM_NTASKS"), _number(env, "SLURM_NNODES", 1)
    host = env.get("MASTER_ADDR") or _first_host(env)
    job = _number(env, "SLURM_JOB_ID", 0)
    return Place(
        _number(env, "SLURM_PROCID"),
        world,
        _number(env, "SLURM_LOCALID", 0),
        max(1, world // nodes),
        host,
        _number(env, "MASTER_PORT", 20000 + job % 20000),
        f"Slurm: {world} tasks on {nodes} nodes, from SLURM_NTASKS; WORLD_SIZE not looked at",
        _number(env, "SLURM_RESTART_COUNT", 0),
    )


def _first_host(env: Mapping[str, str]) -> str:
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")
    if not any(c in nodes for c in "[,"):
        return nodes or "127.0.0.1"
    try:
        done = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        raise TrainError(f"cannot ask scontrol for the first of {nodes}: {e}; set MASTER_ADDR") from e
    return done.stdout.split()[0]


def _number(env: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = env.get(name, "")
    if not text and default is not None:
        return default
    try:
        return int(text)
    except ValueError:
        raise TrainError(f"the environment variable {name} is {text!r}, want a number") from None
