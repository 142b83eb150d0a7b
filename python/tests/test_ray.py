"""imgfeed.ray on a Ray cluster of three nodes, which are processes of this machine."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import RANDOM, contents, wait_for

from imgfeed import DataLoader
from imgfeed.programs import find_binary

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three nodes. Ray is imported here, as that takes seconds, which quick runs save."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install ray")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    nodes = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        nodes.add_node(num_cpus=2)
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def commands() -> Iterator[str]:
    """Yield the command lines of all processes, with a zero byte behind each argument."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_text(errors="replace")


@pytest.mark.usefixtures("cluster")
def test_packing_by_tasks_makes_the_same_bytes(images: Path, tmp_path: Path) -> None:
    from imgfeed.ray import pack

    subprocess.run([find_binary("imgshard"), "build", str(images), "-o", str(tmp_path / "one"), "-q"], check=True)
    for parts in (1, 4, 7):
        pack(str(images), str(tmp_path / f"of-{parts}"), parts=parts)
        assert contents(tmp_path / f"of-{parts}") == contents(tmp_path / "one")
    with pytest.raises(Exception, match="nowhere"):
        pack(str(tmp_path / "nowhere"), str(tmp_path / "none"), parts=2)


@pytest.mark.usefixtures("cluster")
def test_actors_feed(shards: Path) -> None:
    import ray

    from imgfeed.ray import Feeders

    options: dict[str, Any] = {
        "transform": RANDOM,
        "shuffle": True,
        "seed": 3,
        "framework": "numpy",
        "num_workers": 1,
        "slots": 3,
    }

    def epochs(**more: Any) -> Iterator[Any]:
        with DataLoader(shards, 4, **options, **more) as loader:
            for epoch in range(3):
                loader.set_epoch(epoch)
                yield from ((np.array(images), np.array(labels)) for images, labels in loader)

    def same(a: Any, b: Any) -> bool:
        return bool((a[0] == b[0]).all() and (a[1] == b[1]).all())

    want = list(epochs())
    with Feeders(str(shards), 2) as feeders:
        first = feeders.addresses()
        assert len(set(first)) == 2
        got = []
        for batch in epochs(feeders=first):
            got.append(batch)
            if len(got) == len(want) // 2:
                ray.kill(feeders._actors[0], no_restart=False)
        assert len(got) == len(want) and all(same(a, b) for a, b in zip(got, want, strict=True))
        again = feeders.addresses()
        assert again[0] != first[0] and again[1] == first[1], "Ray has started it again"
        assert all(same(a, b) for a, b in zip(epochs(feeders=again), want, strict=True))
    wait_for(lambda: not any(f"feed\0{shards}\0" in command for command in commands()))  # feeders end with their actors
