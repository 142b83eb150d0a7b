"""Machines for tests of several nodes: network namespaces with a cable between them, a host name and a hosts file each."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import needs
import pytest

# What a node runs starts with its own hosts file instead of the machine's, under its own host name.
ENTER = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'


@dataclass(frozen=True)
class Node:
    """One machine, with a name that stands for its address on both."""

    name: str
    address: str
    namespace: str
    hosts: Path

    def command(self, *arguments: str) -> list[str]:
        """Return the command line that runs arguments on this node."""
        enter = ["nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--mount", "--uts"]
        return [*enter, "sh", "-c", ENTER, "sh", str(self.hosts), self.name, *arguments]


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@contextmanager
def two_nodes(folder: Path, network: str) -> Iterator[list[Node]]:
    """Make node0 and node1 with the addresses .1 and .2 of network (as "10.211.77"). Skips the test where that can't be."""
    needs.programs("ip", "nsenter", "unshare")
    if os.geteuid():
        pytest.skip("network namespaces take root")
    nodes = [
        Node(f"node{i}", f"{network}.{i + 1}", f"imgfeed-{os.getpid()}-{network}-{i}", folder / f"hosts{i}") for i in range(2)
    ]
    rows = [f"{node.address} {node.name}\n" for node in nodes]
    for node in nodes:
        node.hosts.write_text("127.0.0.1 localhost\n" + "".join(rows))
    try:
        try:
            for node in nodes:
                ip("netns", "add", node.namespace)
            first, second = (node.namespace for node in nodes)
            ip("link", "add", "node0", "netns", first, "type", "veth", "peer", "name", "node1", "netns", second)
            for node in nodes:
                ip("-n", node.namespace, "addr", "add", f"{node.address}/24", "dev", node.name)
                ip("-n", node.namespace, "link", "set", node.name, "up")
                ip("-n", node.namespace, "link", "set", "lo", "up")
            subprocess.run(nodes[0].command("true"), check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as e:
            pytest.skip(f"no network namespaces here: {e.stderr.strip()}")
        yield nodes
    finally:
        for node in nodes:
            subprocess.run(["ip", "netns", "del", node.namespace], check=False, capture_output=True)
