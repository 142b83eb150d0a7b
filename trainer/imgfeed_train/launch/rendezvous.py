"""How the ranks meet: at the master's port, in time, or with an error that says who is missing and why."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ..errors import RendezvousError
from .place import Place

OWN_SECONDS = 10.0  # in which rank 0 reaches itself under the master's name


def rendezvous(place: Place, backend: str, timeout_seconds: float, collective_seconds: float) -> Any:
    """Join the process group, or raise RendezvousError within about timeout_seconds, saying who is missing or what failed.

    collective_seconds is how long ranks wait for one another from then on. Returns the ranks' common store, None for one rank.
    """
    import torch.distributed as dist  # noqa: PLC0415 - the parent of a node's ranks needs no torch

    if place.world == 1:
        return None
    deadline = time.monotonic() + timeout_seconds
    master = f"{place.host}:{place.port}"
    store = _store(place, master, timeout_seconds)
    prefix = f"imgfeed-train/{place.attempt}"
    store.set(f"{prefix}/here/{place.rank}", _address_towards(place.host, place.port))
    _await_ranks(store, prefix, place, deadline, timeout_seconds)
    if backend == "gloo" and "GLOO_SOCKET_IFNAME" not in os.environ:
        _gloo_interface([store.get(f"{prefix}/here/{rank}").decode() for rank in range(place.world)], place)
    patience = timedelta(seconds=collective_seconds)
    try:
        group = dist.PrefixStore(prefix, store)
        dist.init_process_group(backend, store=group, rank=place.rank, world_size=place.world, timeout=patience)
        dist.barrier()
    except (RuntimeError, ValueError) as e:
        raise RendezvousError(f"rank {place.rank}: all ranks are at {master}, but {backend} can't connect them: {e}") from e
    return group


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
    listener = _listen(place, timeout_seconds) if hosts_it else -1
    if not hosts_it:
        _await_master(place, master, timeout_seconds)
    wait = timedelta(seconds=timeout_seconds)
    made: list[Any] = []

    def connect() -> None:
        try:
            fd = {"master_listen_fd": listener} if hosts_it else {}
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
        raise RendezvousError(f"rank 0: the store of the ranks can't be opened at {master}: {said}") from store
    raise RendezvousError(f"rank {place.rank}: what listens at {master} is no rendezvous of torch ({said})") from store


def _listen(place: Place, timeout_seconds: float) -> int:
    """Return the descriptor of rank 0's listener at the master's port, which it reaches under the master's name itself.

    Raises RendezvousError where the port is taken, or the name is another machine's.
    """
    try:
        listener = socket.create_server(("", place.port))
    except OSError as e:
        why = "it is in use. Choose another with --master HOST:PORT" if e.errno == errno.EADDRINUSE else e.strerror
        raise RendezvousError(f"rank 0: port {place.port} can't be opened on this machine: {why}") from e
    try:
        socket.create_connection((place.host, place.port), timeout=min(OWN_SECONDS, timeout_seconds)).close()
    except OSError as e:
        listener.close()
        raise RendezvousError(
            f"rank 0: --master {place.host} does not lead to this machine, {socket.gethostname()} ({e}). Rank 0 runs on the "
            "machine that --master names: give this one its own -nr, or name an address of this machine"
        ) from e
    return listener.detach()


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
