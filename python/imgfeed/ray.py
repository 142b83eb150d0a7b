"""Packing and feeding on a Ray cluster, with ray and this package on all nodes. docs/scaling.md has an example."""

import os
import re
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import ray

from ._arguments.paths import check_secrets
from ._server.launcher import find_binary

START_TIMEOUT = 120.0  # seconds until a feeder must listen


def _imgshard(arguments: Sequence[str]) -> None:
    done = subprocess.run([find_binary("imgshard"), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"imgshard {' '.join(arguments)}: exit status {done.returncode}: {done.stderr.strip()}")


def pack(source: str, out: str, *, parts: int, num_cpus: float = 1, flags: Sequence[str] = (), index: bool = False) -> None:
    """Pack a source into a shard set, with the same bytes as ``imgshard build source -o out`` on one machine.

    Args:
        source: A path that all nodes have, or a URL.
        out: The new set: a folder on storage that all nodes share, or a URL.
        parts: Number of tasks. A task that fails or loses its node runs again.
        num_cpus: CPUs and workers of each task.
        flags: Further flags of ``imgshard build``, the same for all parts.
        index: Run ``imgshard index`` instead of ``build``.

    Raises:
        RuntimeError: imgshard failed; the message ends with its own.
    """
    check_secrets("pack", source, out, *flags)
    task = ray.remote(_imgshard).options(num_cpus=num_cpus, max_retries=3)
    command = ["index" if index else "build", source, "-o", out, "--quiet", "--jobs", str(max(1, int(num_cpus))), *flags]
    ray.get([task.remote([*command, "--part", f"{i}/{parts}"]) for i in range(1, parts + 1)])
    ray.get(task.remote(["merge", out, "--quiet"]))


class _Feeder:
    """An actor that runs ``imgfeed feed``, which ends with it."""

    def __init__(self, source: str, threads: int, tls: str | None, flags: Sequence[str]) -> None:
        host = ray.util.get_node_ip_address() if tls else "127.0.0.1"  # type: ignore[no-untyped-call]
        command = [find_binary(), "feed", source, "--listen", f"{host}:0", "--threads", str(threads)]
        command += ["--owner", str(os.getpid()), *(["--tls", tls] if tls else []), *flags]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line)
            if found := re.match(r"on (\S+)$", line):
                self._address = found[1]
                return
        raise RuntimeError(f"imgfeed feed ended (exit status {self._process.wait()}): {''.join(said)}")

    def address(self) -> str:
        if self._process.poll() is not None:
            os._exit(1)  # Ray starts another one
        return self._address


class Feeders:
    """Feeders on nodes with free CPUs, spread over the cluster, until ``close`` or the end of the ``with`` block.

    Ray restarts a lost feeder, perhaps elsewhere: ``addresses`` has its new address, for later loaders.
    """

    def __init__(
        self, source: str, count: int, *, num_cpus: int = 1, tls: str | None = None, flags: Sequence[str] = ()
    ) -> None:
        """Start the feeders, and wait for them.

        Args:
            source: The shard set: a path that all nodes have, or a URL.
            count: Number of feeders.
            num_cpus: CPUs and threads of each.
            tls: Folder with certificates, the same path on all nodes. None: loaders on the same machine only.
            flags: Further flags of ``imgfeed feed``, such as ``["--cache", "/nvme/cache"]``.

        Raises:
            ray.exceptions.RayError: A feeder does not start; its log says why.
            ray.exceptions.GetTimeoutError: The cluster has no CPUs for all of them within two minutes.
        """
        check_secrets("Feeders", source, *flags)
        actor: Any = ray.remote(_Feeder).options(
            num_cpus=num_cpus, max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD"
        )
        self._actors: list[Any] = [actor.remote(source, num_cpus, tls, list(flags)) for _ in range(count)]
        try:
            self.addresses()
        except BaseException:
            self.close()
            raise

    def addresses(self) -> list[str]:
        """Return the feeders' present addresses, for ``DataLoader(feeders=)``."""
        return list(ray.get([actor.address.remote() for actor in self._actors], timeout=START_TIMEOUT))

    def close(self) -> None:
        """End all feeders."""
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []

    def __enter__(self) -> "Feeders":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
