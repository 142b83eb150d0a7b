"""Which rank this process is and how it meets the others: under torchrun, under Slurm, or by -n -g -nr --master.

WORLD_SIZE has two meanings in the wild: torchrun's counts processes, many a script's counts nodes. The rule here: where
RANK is set, or Slurm says the task, it counts processes; with NODE_RANK and no RANK it counts nodes. What was taken is printed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from .errors import RendezvousError, TrainError
from .settings import Settings

PORT = 29500
LISTENER = "IMGFEED_TRAIN_LISTENER"  # tells rank 0 the descriptor of its port


@dataclass(frozen=True)
class Place:
    """One process among all. ``spawn`` > 0 makes it the parent of that many ranks, with ``rank`` the first of them.

    A parent whose ranks are all there are has port 0: it chooses one when it starts them.
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
    listener: int = -1  # descriptor of a socket that is bound to port, for rank 0; -1: it opens the port itself


def discover(s: Settings, env: Mapping[str, str], gpus: int) -> Place:
    """Return this process's place. gpus is how many this node has. Raises TrainError for contradictory variables."""
    if s.nodes is not None or s.node_rank is not None:
        return _own(s, s.nodes or 1, s.node_rank or 0, gpus, "-n -g -nr")
    if "RANK" in env and "WORLD_SIZE" in env:
        return _from_ranks(env)
    if "SLURM_PROCID" in env and "SLURM_STEP_ID" in env:
        return _slurm(env)
    if "WORLD_SIZE" in env and "NODE_RANK" in env:
        nodes = _number(env, "WORLD_SIZE")
        host, port = env.get("MASTER_ADDR", ""), env.get("MASTER_PORT", str(PORT))
        if nodes > 1 and not host and not s.master:
            raise TrainError(f"WORLD_SIZE={nodes} nodes, but MASTER_ADDR is not set: name an address of node 0")
        taken = replace_master(s, f"{host}:{port}" if host else None)
        how = f"MASTER_ADDR and NODE_RANK: WORLD_SIZE={nodes} taken as the number of nodes, since RANK is not set"
        return _own(taken, nodes, _number(env, "NODE_RANK"), gpus, how)
    return _own(s, 1, 0, gpus, "one node")


def replace_master(s: Settings, master: str | None) -> Settings:
    """Return the settings with this master, unless they name one."""
    return Settings(**{**vars(s), "master": s.master or master})


def _own(s: Settings, nodes: int, node: int, gpus: int, how: str) -> Place:
    if not 0 <= node < nodes:
        raise TrainError(f"node rank {node} of {nodes} nodes: want 0 to {nodes - 1}")
    here = 1 if s.strategy == "dp" else s.gpus or gpus or 1
    host, _, port = (s.master or "127.0.0.1").partition(":")
    if port and not port.isdecimal():
        raise TrainError(f"--master {s.master}: {port!r} is no port")
    if not s.master and nodes == 1:
        port = "0" if here > 1 else port
    place = Place(node * here, nodes * here, 0, here, host, int(port or PORT), f"{how}: {nodes} x {here} ranks")
    return replace(place, spawn=here if here > 1 else 0)


def _from_ranks(env: Mapping[str, str]) -> Place:
    rank, world = _number(env, "RANK"), _number(env, "WORLD_SIZE")
    if not 0 <= rank < world:
        raise TrainError(f"RANK={rank} and WORLD_SIZE={world}: want 0 <= RANK < WORLD_SIZE (processes, since RANK is set)")
    who = env.get("IMGFEED_TRAIN_HOW") or ("torchrun" if "TORCHELASTIC_RUN_ID" in env else "RANK")
    return Place(
        rank,
        world,
        _number(env, "LOCAL_RANK", 0),
        _number(env, "LOCAL_WORLD_SIZE", 1),
        env.get("MASTER_ADDR", "127.0.0.1"),
        _number(env, "MASTER_PORT", PORT),
        who if "IMGFEED_TRAIN_HOW" in env else f"{who}: WORLD_SIZE={world} taken as the number of processes",
        _number(env, "TORCHELASTIC_RESTART_COUNT", 0),
        env.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        listener=_number(env, LISTENER, -1),
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


def spawn(place: Place, arguments: Sequence[str], stopped: int = 0) -> int:
    """Run this node's ranks as children, end all when one fails, and return the first failure's status, else 0.

    stopped is the status of ranks that were stopped, which is no failure; it is returned where all have ended.
    """
    threads = str(max(1, (os.cpu_count() or 1) // place.spawn))
    children: list[subprocess.Popen[bytes]] = []

    def stop(number: int, frame: Any) -> None:
        for child in children:
            if child.poll() is None:
                child.send_signal(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    command = [sys.executable, "-m", "imgfeed_train", *_without_nodes(arguments)]
    try:
        # A port that is chosen here stays bound until rank 0 has it: it needs seconds to start, in which others ask for ports.
        with socket.socket() as held:
            if not place.port:
                held.bind((place.host, 0))
                place = replace(place, port=held.getsockname()[1], listener=held.fileno())
            for local in range(place.spawn):
                env = {
                    **{"OMP_NUM_THREADS": threads},
                    **os.environ,
                    "RANK": str(place.rank + local),
                    "WORLD_SIZE": str(place.world),
                    "LOCAL_RANK": str(local),
                    "LOCAL_WORLD_SIZE": str(place.spawn),
                    "MASTER_ADDR": place.host,
                    "MASTER_PORT": str(place.port),
                    "IMGFEED_TRAIN_HOW": place.how,
                }
                passed = (place.listener,) if place.listener >= 0 and local == 0 else ()
                if passed:
                    env[LISTENER] = str(place.listener)
                children.append(subprocess.Popen(command, env=env, pass_fds=passed))
        return _first_failure(children, stopped)
    finally:
        stop(signal.SIGTERM, None)
        for number, handler in before.items():
            signal.signal(number, handler)


def _first_failure(children: list[subprocess.Popen[bytes]], stopped: int) -> int:
    while True:
        states = [child.poll() for child in children]
        failed = next((state for state in states if state and state != stopped), 0)
        if failed or None not in states:
            ended = failed or max(state or 0 for state in states)
            return ended if ended >= 0 else 128 - ended
        time.sleep(0.05)


def _without_nodes(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without -n and -nr, in all their spellings: the children have RANK."""
    left: list[str] = []
    skip = False
    for argument in arguments:
        name = argument.partition("=")[0]
        if skip:
            skip = False
        elif name in ("-n", "-nr", "--nodes", "--node-rank"):
            skip = "=" not in argument
        else:
            left.append(argument)
    return left


def rendezvous(place: Place, backend: str, timeout_seconds: float) -> None:
    """Join the process group, or raise RendezvousError within about timeout_seconds, saying who is missing or what failed."""
    import torch.distributed as dist  # noqa: PLC0415 - the parent of a node's ranks needs no torch

    if place.world == 1:
        return
    deadline = time.monotonic() + timeout_seconds
    master = f"{place.host}:{place.port}"
    store = _store(place, master, timeout_seconds)
    prefix = f"imgfeed-train/{place.attempt}"
    store.set(f"{prefix}/address/{place.rank}", _address_towards(place.host, place.port))
    store.set(f"{prefix}/here/{place.rank}", socket.gethostname())
    _await_ranks(store, prefix, place, deadline, timeout_seconds)
    if backend == "gloo" and "GLOO_SOCKET_IFNAME" not in os.environ:
        _gloo_interface([store.get(f"{prefix}/address/{rank}").decode() for rank in range(place.world)], place)
    left = timedelta(seconds=max(10.0, timeout_seconds))
    try:
        group = dist.PrefixStore(prefix, store)
        dist.init_process_group(backend, store=group, rank=place.rank, world_size=place.world, timeout=left)
        dist.barrier()
    except (RuntimeError, ValueError) as e:
        raise RendezvousError(f"rank {place.rank}: all ranks are at {master}, but {backend} can't connect them: {e}") from e


def _await_ranks(store: Any, prefix: str, place: Place, deadline: float, timeout_seconds: float) -> None:
    """Return once all ranks have said in the store that they are here."""
    missing = set(range(place.world)) - {place.rank}
    given_up = ""
    while missing and not given_up:
        try:
            missing = {r for r in missing if not store.check([f"{prefix}/here/{r}"])}
        except RuntimeError:  # rank 0, which holds the store, waits no longer than the others, and may be the first to give up
            given_up = "before the master ended"
        else:
            if missing and time.monotonic() > deadline:
                given_up = f"within {timeout_seconds:g} s"
        time.sleep(0.02 if missing else 0)
    if missing:
        here = f"{place.world - len(missing)} of {place.world} ranks at {place.host}:{place.port}"
        raise RendezvousError(
            f"rank {place.rank} met only {here} {given_up}; missing: {sorted(missing)}. "
            "Are they started, with the same world and master?"
        )


def _store(place: Place, master: str, timeout_seconds: float) -> Any:
    import torch.distributed as dist  # noqa: PLC0415 - as above

    hosts_it = place.rank == 0 and not place.agent_store
    try:
        socket.getaddrinfo(place.host, place.port)
    except OSError as e:
        raise RendezvousError(f"rank {place.rank}: the master's name {place.host!r} can't be resolved: {e}") from e
    if not hosts_it:
        _await_master(place, master, timeout_seconds)
    wait = timedelta(seconds=timeout_seconds)
    made: list[Any] = []

    def connect() -> None:
        try:
            fd = {"master_listen_fd": place.listener} if place.listener >= 0 else {}
            made.append(dist.TCPStore(place.host, place.port, is_master=hosts_it, timeout=wait, wait_for_workers=False, **fd))
        except RuntimeError as e:
            made.append(e)

    # In a thread of its own: torch waits without end for a listener that never answers.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout_seconds + 2)
    store = made[0] if made else TimeoutError(f"silent for {timeout_seconds:g} s")
    if not isinstance(store, Exception):
        return store
    said = str(store).splitlines()[0]
    if hosts_it:
        why = f"port {place.port} can't be opened on this machine; is it in use? Choose another with --master HOST:PORT"
        raise RendezvousError(f"rank 0: {why}. ({said})") from store
    raise RendezvousError(f"rank {place.rank}: what listens at {master} is no rendezvous of torch ({said})") from store


def _await_master(place: Place, master: str, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while True:
        left = deadline - time.monotonic()
        try:
            socket.create_connection((place.host, place.port), timeout=max(0.1, min(left, 5.0))).close()
            return
        except OSError as e:
            if time.monotonic() + 0.2 >= deadline:
                raise RendezvousError(
                    f"rank {place.rank}: no answer from the master at {master} within {timeout_seconds:g} s ({e}). "
                    "Is rank 0 started, the address one of its own, and the port open between the machines?"
                ) from e
        time.sleep(0.2)


def _address_towards(host: str, port: int) -> str:
    """Return this machine's own IPv4 address on the way to a host, "" where there is no way."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port))  # of a datagram socket: nothing is sent
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
        return address


def _gloo_interface(addresses: Sequence[str], place: Place) -> None:
    """Have gloo use the interface towards the others; by itself it takes the host name's, often 127.0.1.1.

    addresses are every rank's own on its way to the master. The master's own name often leads to 127.0.1.1 there too:
    the ranks of its machine then take the way to a rank of another.
    """
    import fcntl  # noqa: PLC0415 - not on every system
    import struct  # noqa: PLC0415

    mine = addresses[place.rank]
    far = next((address for address in addresses if address and not address.startswith("127.")), "")
    if mine.startswith("127.") and far:
        mine = _address_towards(far, place.port)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(any_socket.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            except OSError:
                continue
            if socket.inet_ntoa(found[20:24]) == mine:
                os.environ["GLOO_SOCKET_IFNAME"] = name
                return
