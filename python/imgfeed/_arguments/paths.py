"""Paths that a caller gives: those of sets, and of servers' sockets."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import errors
from .._server.wire import SOCKET_PATH_MAX
from .numbers import kind_of

REMOTE = ("s3://", "https://", "http://", "hf://", "gs://")
_ADDRESS = re.compile(r"[A-Za-z0-9+.-]+://")
_SECRET = re.compile(r"([A-Za-z0-9+.-]+)://(?:[^/?#]*@|[^?#]*[?#])")


def check_secrets(name: str, *texts: str) -> None:
    """Raise ValueError for a URL with a secret, without showing it: everybody sees the command line of a program (ps)."""
    for text in texts:
        if found := _SECRET.search(text):
            raise ValueError(
                f"imgfeed: {name} has a URL {found[1]}://… with a user, password, query or fragment: credentials come from the "
                "environment or their usual files, and a query that signs requests from IMGFEED_URL_QUERY"
            )


class Joined(NamedTuple):
    """Several sets as one."""

    paths: tuple[str, ...]
    weights: tuple[Any, ...] | None = None  # of a mixture

    def __str__(self) -> str:
        return " + ".join(self.paths)


def absolute(path: str | bytes | os.PathLike[str]) -> str:
    """Return a local path that stays the same when the working directory changes, ~ expanded. A URL stays as it is."""
    text = os.path.expanduser(os.fsdecode(path))
    return text if _ADDRESS.match(text) and not os.path.lexists(text) else str(Path(text).absolute())


def sources(name: str, value: Any) -> str | Joined:
    """Return where samples come from: one path as source_path does, or those of a list, or of a dictionary with weights."""
    if isinstance(value, Joined):
        return value
    if not isinstance(value, (list, tuple, Mapping)):
        return source_path(name, value)
    paths = tuple(source_path(f"{name}[{i}]", path) for i, path in enumerate(value))
    if not paths:
        raise ValueError(f"imgfeed: {name} is empty, want paths of sets")
    if socket := next((path for path in paths if path.startswith("unix:")), None):
        raise ValueError(
            f"imgfeed: {name} has {socket}, want paths of sets: a running server joins them itself (imgfeed serve A B)"
        )
    if isinstance(value, Mapping):
        return Joined(paths, tuple(value.values()))
    return Joined(paths) if len(paths) > 1 else paths[0]


def check_there(dataset: str | Joined) -> None:
    """Raise MissingError for a local path of a dataset that does not exist. Of any other fault the server says more."""
    for path in dataset.paths if isinstance(dataset, Joined) else (dataset,):
        try:
            os.stat(path if os.path.isabs(path) else "/")
        except OSError as e:
            if isinstance(e, FileNotFoundError):
                raise errors.MissingError(f"imgfeed: dataset is {path}: no such file or folder") from None


def source_path(name: str, value: Any) -> str:
    """Return where samples come from: an absolute path, a URL or unix:PATH. Raises TypeError or ValueError for the argument."""
    try:
        path = os.fsdecode(value)
    except TypeError:
        raise TypeError(
            f"imgfeed: {name} is {kind_of(value)}, want the path of a shard set or of a folder of images, or unix:PATH "
            "of a running server" + ("; imgfeed.from_torch takes a dataset of torch" if hasattr(value, "__getitem__") else "")
        ) from None
    scheme = "unix:" if path.startswith("unix:") else ""
    path = path.removeprefix(scheme)
    if not path:
        raise ValueError(f"imgfeed: {name} is {value!r}: the path is empty")
    if "\0" in path:
        raise ValueError(f"imgfeed: {name} is {value!r:.80}: a path holds no NUL")
    address = _ADDRESS.match(path)
    if address and not os.path.lexists(path):
        check_secrets(name, path)
    if address and address[0] in REMOTE:
        return scheme + path
    if address and not os.path.lexists(path):
        raise ValueError(
            f"imgfeed: {name} is {value!r}, an address of an unknown kind: want a folder, or a URL that begins with "
            f"{', '.join(REMOTE)}"
        )
    path = absolute(path)
    if scheme and len(os.fsencode(path)) > SOCKET_PATH_MAX:
        raise ValueError(
            f"imgfeed: {name} is {value!r}: the path of a socket has at most {SOCKET_PATH_MAX} bytes, and this has "
            f"{len(os.fsencode(path))}: choose a shorter one with imgfeed serve --socket, or a symbolic link to its folder"
        )
    return scheme + path
