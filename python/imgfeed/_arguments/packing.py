"""Packs a program's data once into a cache, under a name made from their digest.

    NAME-0123456789abcdef/     the digits are of the digest of all that the set is made of
        set/                   the shard set, as imgshard build makes it
        places.npy             int64: the index in the set of each sample of the data, in their order
        source.json            what it was made of, for people; it is there when all else is
    NAME-0123456789abcdef.lock held while the folder is made

A folder appears by a rename. If several processes ask for the same one, one packs, and the others wait.
"""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from .. import errors
from .._server.launcher import find_binary

log = logging.getLogger("imgfeed")

_RULE = b"imgfeed cache v1\0"  # how the digest is made, and what is made of the data
_INDICES = "places.npy"
_DIGEST_DIGITS = 16
_PROGRESS = re.compile(r": (listing|reading|packing) [0-9,]+.* images")  # a line of imgshard's every ten seconds
_LINES_KEPT = 24  # of what else it says, for an error


#: Writes imgshard's input to a folder, and returns its arguments: SRC and flags.
Stage = Callable[[Path], list[str]]


@dataclass(frozen=True)
class Source:
    """The images to pack."""

    name: str  # of its folder in the cache, in part
    what: str  # words for the log and for errors
    keys: Sequence[str]  # of the samples in the set, in the source's order
    labels: Sequence[int]  # of the same samples
    classes: Sequence[str]  # class i has label i
    identify: Callable[[Any], None]  # updates a hash with all else that the images depend on
    stage: Stage
    targets: str = ""  # objects or masks, "" without


def cache_folder(given: str | os.PathLike[str] | None) -> Path:
    """Return the folder of all caches: the given one, else imgfeed in $XDG_CACHE_HOME, or in ~/.cache."""
    if given is not None:
        return Path(given).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification has relative paths ignored.
    return (Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()) / "imgfeed"


class Packed:
    """A set in the cache."""

    def __init__(self, folder: Path, samples: int) -> None:
        self.folder = folder
        self.set = folder / "set"
        self._samples = samples

    @property
    def is_whole(self) -> bool:
        return (self.folder / "source.json").is_file()

    def indices(self) -> npt.NDArray[np.int64]:
        """Return the index in the set of each sample of the source, in its order. ImgfeedError if they aren't all there."""
        path = self.folder / _INDICES
        try:
            with path.open("rb") as file:
                if file.read(6) != b"\x93NUMPY":  # an archive of arrays would stay open
                    raise ValueError("it is not an array")
            indices: npt.NDArray[np.int64] = np.array(np.load(path, mmap_mode="r"))  # its header may say any length
            whole = indices.dtype == np.int64 and np.array_equal(np.sort(indices), np.arange(self._samples))
            why = "" if whole else f"it does not have each of {self._samples} samples once"
        except Exception as e:  # of numpy, or of a reader that it chose
            why = str(e)
        if why:
            raise errors.ImgfeedError(f"imgfeed: {path} is damaged: {why}: remove {self.folder}, and it is packed again")
        return indices


def pack(source: Source, cache: Path) -> Packed:
    """Return the set of a source, and pack it unless it is in the cache already.

    Raises ImgfeedError with imgshard's words. Then, or when it is interrupted, nothing stays.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", source.name).strip(".-")[:60] or "data"
    packed = Packed(cache / f"{name}-{_digest(source)}", len(source.keys))
    if packed.is_whole:
        log.info("imgfeed: %s is packed already, at %s", source.what, packed.set)
        return packed
    path = packed.folder.with_name(f"{packed.folder.name}.lock")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as e:
        raise errors.ImgfeedError(
            f"imgfeed: from_torch: the packed set would go into {cache}: {e.strerror}: give another folder with cache="
        ) from e
    with _locked(path) as lock:
        if not packed.is_whole:  # else another process has made it meanwhile
            log.warning("imgfeed: packs %s, once, into %s", source.what, packed.set)
            _make(source, packed, lock)
    return packed


def _digest(source: Source) -> str:
    digest = hashlib.sha256(_RULE)
    for texts in (source.classes, source.keys):
        for text in texts:
            digest.update(os.fsencode(text) + b"\0")
        digest.update(b"\0")
    digest.update(np.asarray(source.labels, dtype="<i8").tobytes())
    source.identify(digest)
    return digest.hexdigest()[:_DIGEST_DIGITS]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """Hold a lock, which goes with the last process that has the file open, also with a killed one."""
    while True:
        with path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log.warning("imgfeed: another process packs; waiting for %s", path)
                fcntl.flock(file, fcntl.LOCK_EX)
            try:
                if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    continue  # who had it has removed it
            except FileNotFoundError:
                continue
            try:
                yield file
            finally:
                path.unlink(missing_ok=True)
            return


def _make(source: Source, packed: Packed, lock: IO[bytes]) -> None:
    """Make a set's folder under another name, and rename it."""
    partial = packed.folder.with_name(f"{packed.folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
    try:
        stage, made = partial / "stage", Packed(partial, len(source.keys))
        stage.mkdir(parents=True)
        _imgshard(["build", *source.stage(stage), "--strict", "--output", str(made.set)], lock)
        shutil.rmtree(stage)
        np.save(partial / _INDICES, _indices(source, made.set))
        digest = _digest(source)
        about = {"what": source.what, "samples": len(source.keys), "classes": len(source.classes), "digest": digest}
        if not packed.folder.name.endswith(digest):
            raise errors.ImgfeedError(f"imgfeed: {source.what} has changed while it was packed: pack it again once it rests")
        (partial / "source.json").write_text(json.dumps(about, indent=2) + "\n")
        partial.rename(packed.folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _imgshard(arguments: list[str], lock: IO[bytes]) -> None:
    """Run imgshard, and log its progress. It has the lock too, as it may outlive this process."""
    printed: deque[str] = deque(maxlen=_LINES_KEPT)
    with subprocess.Popen(
        [find_binary("imgshard"), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        pass_fds=(lock.fileno(),),
        start_new_session=True,  # Ctrl-C on the terminal is for this process to handle
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if _PROGRESS.search(line):
                    log.warning("imgfeed: %s", line.strip())
                else:
                    printed.append(line)
        except BaseException:
            process.send_signal(signal.SIGINT)  # so it removes its files, and this waits for it
            raise
    if process.returncode:
        words = "".join(printed).strip()
        raise errors.ImgfeedError(f"imgfeed: imgshard could not pack this (exit status {process.returncode}): {words}")


def _indices(source: Source, made: Path) -> npt.NDArray[np.int64]:
    """Return the index in the set of each sample, once it is sure that the set holds just these, with these labels."""
    numbers = {key: i for i, key in enumerate(source.keys)}
    indices = np.full(len(source.keys), -1, dtype=np.int64)
    with subprocess.Popen([find_binary("imgshard"), "ls", "--json", str(made)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            row = json.loads(line)
            i = numbers.get(row["key"])
            if i is None or row["label"] != source.labels[i]:
                wanted = "is none of its samples" if i is None else f"has label {source.labels[i]} there"
                process.kill()
                raise errors.ImgfeedError(
                    f"imgfeed: {source.what}: {row['key']} was packed with label {row['label']}, and {wanted}"
                )
            indices[i] = row["index"]
    missing = np.flatnonzero(indices < 0)
    if process.returncode or len(missing):
        example = f", {source.keys[missing[0]]} among them" if len(missing) else ""
        raise errors.ImgfeedError(f"imgfeed: {source.what}: {len(missing)} samples are not in the set that was made{example}")
    return indices
