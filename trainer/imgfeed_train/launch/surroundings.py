"""What a run stands on, as far as this process sees it: mounts, the feed's socket, ranks, master, GPU.

Most first runs fail at one of these, in a container above all: a folder that is not mounted, a socket of another user, a GPU
that was not passed on. So the first lines say what is there, and an error what was looked for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .place import Place

#: File systems that hold no one's data.
SYSTEM_KINDS = frozenset(
    """autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs mqueue nsfs proc pstore
    ramfs rpc_pipefs securityfs selinuxfs squashfs sysfs tracefs""".split()  # noqa: SIM905 - a list of words, as in proc(5)
)
#: Where a system and a container's engine mount what is no one's data.
SYSTEM_PLACES = (
    "/proc",
    "/sys",
    "/dev",
    "/etc",
    "/usr",
    "/lib",
    "/boot",
    "/snap",
    "/run/credentials",
    "/run/lock",
    "/run/user",
)
ANSWER_SECONDS = 2.0  # for all mounts together
SHOWN_MAX = 12  # mounts, and names in a folder
NO_DRIVER = "/dev/nvidiactl"  # made by NVIDIA's driver, and passed into a container with its GPUs


@dataclass(frozen=True)
class Mount:
    """A file system as this process sees it; free is in bytes, None where that can't be asked; error is why it is of no use."""

    path: str
    kind: str
    read_only: bool
    free: int | None
    error: str = ""

    def __str__(self) -> str:
        free = "" if self.free is None else f", {size_text(self.free)} free"
        return f"{self.path} ({self.kind}, {self.error or ('read-only' if self.read_only else 'writable')}{free})"


def size_text(size: int) -> str:
    """Return a number of bytes for people: ``64 MiB``, ``1.3 TiB``."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def mounts(table: Path = Path("/proc/self/mountinfo")) -> list[Mount]:
    """Return the mounts that may hold data, by path: folders outside of the system's own places, the root, and /dev/shm.

    The table is proc(5)'s mountinfo; where there is none, as outside of Linux, the list is empty.
    """
    try:
        lines = table.read_text().splitlines()
    except OSError:
        return []
    found: dict[str, tuple[str, bool]] = {}
    for line in lines:
        left, _, right = line.partition(" - ")
        fields, behind = left.split(), right.split()
        if len(fields) < 6 or len(behind) < 3:
            continue
        path = _unescape(fields[4])
        kind = behind[0]
        mine = path in ("/", "/dev/shm") or not (
            kind in SYSTEM_KINDS or any(path == place or path.startswith(place + "/") for place in SYSTEM_PLACES)
        )
        if mine:
            found[path] = kind, "ro" in fields[5].split(",") or "ro" in behind[2].split(",")  # a later line lies on top
    return _looked_at([(path, *found[path]) for path in sorted(found)])


def _looked_at(entries: list[tuple[str, str, bool]]) -> list[Mount]:
    """Return the mounts that are folders.

    One whose server is gone blocks whoever looks, for good: threads look, and stay there.
    """
    seen: list[Mount | None] = [Mount(path, kind, ro, None, "gives no answer") for path, kind, ro in entries]

    def look(i: int) -> None:
        seen[i] = _look(*entries[i])

    threads = [threading.Thread(target=look, args=(i,), daemon=True) for i in range(len(entries))]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + ANSWER_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [mount for mount in list(seen) if mount is not None]


def _look(path: str, kind: str, read_only: bool) -> Mount | None:
    try:
        return Mount(path, kind, read_only, _free(path)) if stat.S_ISDIR(os.stat(path).st_mode) else None
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None  # below another mount, or within what is not this user's, as a container engine's
    except OSError as e:  # FUSE's whose program is gone, say: nothing that has to concern this run
        return Mount(path, kind, read_only, None, str(e.strerror))


def _unescape(path: str) -> str:
    r"""Undo mountinfo's octal escapes: ``\040`` is a space."""
    for code in ("\\040", "\\011", "\\012", "\\134"):
        path = path.replace(code, chr(int(code[1:], 8)))
    return path


def _free(path: str) -> int | None:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def mounts_text() -> str:
    """Return the mounts in one line, for the end of an error."""
    seen = [str(m) for m in mounts()]
    more = f" and {len(seen) - SHOWN_MAX} more" if len(seen) > SHOWN_MAX else ""
    return f"mounts seen: {', '.join(seen[:SHOWN_MAX]) or 'none'}{more}"


def who() -> str:
    """Return whom this process runs as: what rights it has."""
    return f"this process is user {os.geteuid()}, group {os.getegid()}"


def _first(folder: Path) -> list[Path]:
    """Return the first entries of a folder by name; [] if it can't be read."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry, _ in zip(entries, range(1000), strict=False))
    except OSError:
        return []
    return [folder / name for name in names[:SHOWN_MAX] if not name.startswith(".")]


def content(root: Path) -> str:
    """Return the first names in a folder, for an error."""
    names = [path.name + ("/" if os.path.isdir(path) else "") for path in _first(root)]
    return f"it holds {', '.join(names)}" if names else "it is empty"


@contextlib.contextmanager
def held_feed(data: str) -> Iterator[None]:
    """Keep a connection to the feed at data (``unix:SOCKET``), so that one with ``--exit-idle`` has a client from now on.

    torch, a model and its weights can take longer to load than such a feed waits. Where no feed answers, or data is a folder,
    nothing happens here: whatever opens the data says so.
    """
    with contextlib.ExitStack() as stack:
        if data.startswith("unix:"):
            from imgfeed import ImgfeedError, client  # noqa: PLC0415 - only this needs it

            with contextlib.suppress(ImgfeedError, OSError):
                stack.callback(client.connect(data.removeprefix("unix:")).close)
        yield


def socket_text(path: str) -> str:
    """Return what is at a socket's path, for the error that no feed answers there."""
    try:
        info = Path(path).stat()
    except FileNotFoundError:
        folder = Path(path).parent
        if not folder.is_dir():
            return f"there is no folder {folder}: is the feed's volume mounted? {mounts_text()}"
        return f"there is no {path}, {content(folder)}; has the feed started, and does it share this folder?"
    except OSError as e:
        return f"{e.strerror}; {who()}"
    if not stat.S_ISSOCK(info.st_mode):
        return f"{path} is no socket"
    mode = stat.S_IMODE(info.st_mode)
    if not os.access(path, os.W_OK):
        return (
            f"the socket is user {info.st_uid}'s, group {info.st_gid}'s, mode {mode:04o}, and {who()}: "
            "run both as one user, or start the feed with --socket-mode 0660 in one group"
        )
    return "the socket is there, but nobody listens: has the feed ended?"


def no_gpu(cuda: str | None) -> str:
    """Return why torch sees no GPU, by the version of CUDA it is built for (None: for none)."""
    if cuda is None:
        return "torch is built without CUDA"
    if not Path(NO_DRIVER).exists():
        return f"there is no {NO_DRIVER}: no NVIDIA driver, or a container without --gpus all (compose.gpu.yaml)"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return f"CUDA_VISIBLE_DEVICES is {visible!r}"
    return f"torch is built for CUDA {cuda}, which the driver may be too old for: see nvidia-smi"


def surroundings(place: Place, device: str, output: str) -> list[str]:
    """Return the lines that a run begins with, before anything is looked for: mounts, output, ranks and master, device."""
    seen = mounts()
    lines = [f"mount: {m}" for m in seen[:SHOWN_MAX]]
    if len(seen) > SHOWN_MAX:
        lines.append(f"mount: and {len(seen) - SHOWN_MAX} more")
    master = f"master {place.host}:{place.port}" if place.world > 1 else "no master needed"
    return [
        *lines,
        *([f"output: {os.path.realpath(output)}; {who()}"] if output else []),
        f"ranks: {place.world} ({place.how}); {master}",
        f"device of rank {place.rank}: {device}",
    ]


def device_text(device: Any) -> str:
    """Return what a rank computes on, a torch.device, and why that is no GPU where it is none."""
    import torch  # noqa: PLC0415 - slow, and not everybody here needs it

    if device.type == "cuda":
        here = torch.cuda.get_device_properties(device)
        return (
            f"{here.name}, {size_text(here.total_memory)}, {torch.cuda.device_count()} on this node; torch {torch.__version__}"
        )
    why = "" if torch.cuda.is_available() else f" ({no_gpu(torch.version.cuda)})"
    threads = torch.get_num_threads()
    return f"CPU, {threads} {'thread' if threads == 1 else 'threads'}{why}; torch {torch.__version__}"
