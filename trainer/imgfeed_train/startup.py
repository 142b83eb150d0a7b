"""What a run stands on, as far as this process sees it: mounts, shard sets, the feed's socket, ranks, master, GPU.

Most first runs fail at one of these, in a container above all: a folder that is not mounted, a set that is not packed, a
socket of another user, a GPU that was not passed on. So the first lines say what is there, and an error what was looked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import TrainError
from .launch import Place

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
SHOWN_MAX = 12  # mounts, and names in a folder
RAW_FILES = (
    "ILSVRC2012_img_train.tar",
    "ILSVRC2012_img_val.tar",
    "cifar-10-python.tar.gz",
    "cifar-10-binary.tar.gz",
    "cifar-10-batches-py",
    "cifar-10-batches-bin",
)
RAW_SPLITS = ("train", "val", "valid", "validation", "test")
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")
NO_DRIVER = "/dev/nvidiactl"  # made by NVIDIA's driver, and passed into a container with its GPUs


class NotPackedError(TrainError):
    """There is a dataset, but no shard set of it yet."""


@dataclass(frozen=True)
class Mount:
    """A file system as this process sees it; free is in bytes, None where that can't be asked."""

    path: str
    kind: str
    read_only: bool
    free: int | None

    def __str__(self) -> str:
        free = "" if self.free is None else f", {size_text(self.free)} free"
        return f"{self.path} ({self.kind}, {'read-only' if self.read_only else 'writable'}{free})"


@dataclass(frozen=True)
class FoundSet:
    """A shard set: its folder and its number of samples."""

    folder: Path
    samples: int


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
    found: dict[str, Mount] = {}
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
        if mine and Path(path).is_dir():
            read_only = "ro" in fields[5].split(",") or "ro" in behind[2].split(",")
            found[path] = Mount(path, kind, read_only, _free(path))  # a later line lies on top
    return [found[path] for path in sorted(found)]


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


def find_sets(root: Path) -> dict[str, FoundSet]:
    """Return the shard sets at root or in the folders right below it, by split, as the feed finds them; {} if there are none.

    Raises TrainError where a manifest can't be read, and for two sets of one split.
    """
    found: dict[str, FoundSet] = {}
    own = root / "manifest.json"
    try:
        manifests = [own] if own.exists() else sorted(p for p in root.glob("*/manifest.json") if p.parent.name[0] != ".")
    except OSError as e:
        raise TrainError(f"{root} can't be looked into: {e}; {who()}") from e
    for manifest in manifests:
        try:
            content = json.loads(manifest.read_text())
            split, samples = str(content["split"]), int(content["samples"])
        except OSError as e:
            raise TrainError(f"{manifest} can't be read: {e.strerror or e}; {who()}") from e
        except (ValueError, KeyError, TypeError) as e:
            raise TrainError(f"{manifest} is no manifest of a shard set ({e!r}): imgshard verify {manifest.parent}") from e
        if split in found:
            both = f"{found[split].folder} and {manifest.parent}"
            raise TrainError(f"{both} are both sets of split {split!r}: keep one of them in {root}")
        found[split] = FoundSet(manifest.parent, samples)
    return found


def who() -> str:
    """Return whom this process runs as: what rights it has."""
    return f"this process is user {os.geteuid()}, group {os.getegid()}"


def raw_sources(root: Path) -> list[str]:
    """Return what in a folder is a dataset to pack, as ``train/`` or ``ILSVRC2012_img_train.tar``; [] if nothing is."""
    found = [name for name in RAW_FILES if (root / name).exists()]
    found += [f"{name}/" for name in RAW_SPLITS if (root / name).is_dir() and not (root / name / "manifest.json").exists()]
    return found


def loose_images(root: Path) -> str | None:
    """Return the path of an image or tar that lies at root or one folder below, None if the first ones are neither."""
    for folder in [root, *[p for p in _first(root) if p.is_dir()]]:
        for path in _first(folder):
            if path.name.lower().endswith((*IMAGE_ENDINGS, ".tar")) and path.is_file():
                return str(path.relative_to(root))
    return None


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
    names = [path.name + ("/" if path.is_dir() else "") for path in _first(root)]
    return f"it holds {', '.join(names)}" if names else "it is empty"


def sets_in(data: str, pack: str) -> dict[str, FoundSet]:
    """Return the sets in a folder. Raises TrainError that says what was looked for and what is there instead.

    For a dataset that is not packed it is a NotPackedError, which names pack, the command that does it.
    """
    root = Path(data)
    if not root.is_dir():
        what = "is a file, not a folder" if root.exists() else "there is no such folder"
        raise TrainError(f"--data {data}: {what}; {mounts_text()}")
    if not os.access(root, os.R_OK | os.X_OK):
        raise TrainError(f"--data {data}: no permission to look into it ({stat.filemode(root.stat().st_mode)}); {who()}")
    found = find_sets(root)
    if found:
        return found
    raw = raw_sources(root)
    image = None if raw else loose_images(root)
    if raw:
        there = f"it holds {', '.join(raw)}, not packed yet. Pack it, once: {pack}"
    elif image:
        there = (
            f"it holds images or tars ({image}) that are neither in train/ and val/ nor named as ImageNet's and CIFAR-10's. "
            f"Put each split into a folder of its name, then pack it, once: {pack}"
        )
    else:
        known = [f"{name}/" for name in RAW_SPLITS[:2]] + list(RAW_FILES[:4])
        there = f"and no dataset either ({', '.join(known)}); {content(root)}"
    kind = NotPackedError if raw else TrainError
    looked = f"looked for {root / 'manifest.json'} and {root / '*/manifest.json'}"
    raise kind(f"--data {data}: no shard set there ({looked}); {there}\n{mounts_text()}")


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
        f"output: {os.path.realpath(output)}; {who()}",
        f"ranks: {place.world} ({place.how}); {master}",
        f"device of rank {place.rank}: {device}",
    ]


def data_line(data: str, found: Mapping[str, int]) -> str:
    """Return the line that says which splits, of how many samples, were found where."""
    sets = ", ".join(f"{name} ({samples:,})" for name, samples in sorted(found.items()))
    return f"data: {data if data.startswith('unix:') else os.path.realpath(data)}: {sets}"
