"""Files in a folder or at a URL (``s3://bucket/run``, by fsspec): written whole or not at all, and tried at the start."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import fsspec

from ..errors import StorageError, TrainError

#: Stores in which an object appears when its upload is complete, and replaces the one before at that moment.
WHOLE_OBJECTS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
ANSWER_SECONDS = 60.0  # for a store's first answer


def is_url(path: str) -> bool:
    """Return whether a path names a store rather than a place on this machine."""
    return "://" in path


def join(folder: str, name: str) -> str:
    """Return the path of a file in a folder or at a URL."""
    return f"{folder.rstrip('/')}/{name}"


def write(folder: str, names: tuple[str, ...], produce: Callable[[IO[bytes]], None]) -> None:
    """Write the same content under each name, atomically.

    A reader finds the old file or the new one, whole, whenever the writer ends. Content is made once, on this machine's disk:
    for URLs in the folder for temporary files. Raises StorageError naming what could not be written.
    """
    with _naming(folder, names[0]):
        if not is_url(folder):
            _install(Path(folder), names, produce)
            return
        with tempfile.NamedTemporaryFile(prefix="imgfeed-train-") as f:
            produce(f)
            f.flush()
            for name in names:
                _upload(folder, name, f.name)


def send(folder: str, name: str, here: Path) -> None:
    """Give a URL a file of this machine under a name, atomically as :func:`write`. Raises StorageError."""
    with _naming(folder, name):
        _upload(folder, name, str(here))


@contextlib.contextmanager
def _naming(folder: str, name: str) -> Iterator[None]:
    """Make a StorageError, which names the file, of whatever goes wrong."""
    try:
        yield
    except TrainError:
        raise
    except Exception as e:
        raise StorageError(f"{join(folder, name)} can't be written, what was there before is still there: {_said(e)}") from e


def _install(folder: Path, names: tuple[str, ...], produce: Callable[[IO[bytes]], None]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    partials = [folder / f".{name}.partial" for name in names]
    try:
        with partials[0].open("wb") as f:
            produce(f)
            f.flush()
            os.fsync(f.fileno())
        for other in partials[1:]:
            shutil.copyfile(partials[0], other)
            with other.open("rb") as f:
                os.fsync(f.fileno())
        for partial, name in zip(partials, names, strict=True):
            partial.replace(folder / name)
    finally:
        for partial in partials:
            partial.unlink(missing_ok=True)
    here = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(here)  # the new names too are to survive a power cut
    finally:
        os.close(here)


def _upload(folder: str, name: str, here: str) -> None:
    fs, root = _store(folder)
    if folder.partition("://")[0] in WHOLE_OBJECTS:
        fs.put_file(here, f"{root}/{name}")
        return
    fs.makedirs(root, exist_ok=True)  # in a store of objects this would make a mistyped bucket
    fs.put_file(here, f"{root}/.{name}.partial")
    fs.mv(f"{root}/.{name}.partial", f"{root}/{name}")


@contextlib.contextmanager
def local_copy(path: str) -> Iterator[Path | None]:
    """Give a file as one on this machine, for the time of a ``with`` block; None if nothing is at the path.

    Raises StorageError where a store does not answer or refuses, which is something else than having no such file.
    """
    if not is_url(path):
        yield Path(path) if Path(path).exists() else None
        return
    fs, inner = _store(path)
    with tempfile.TemporaryDirectory(prefix="imgfeed-train-") as folder:
        here = Path(folder) / "file"
        try:
            fs.get_file(inner, str(here))
        except FileNotFoundError:
            here = Path()
        except Exception as e:
            raise StorageError(f"{path} can't be read: {_said(e)}") from e
        yield here if here.name else None


def check(folder: str) -> None:
    """Write a small file, read it again and remove it. Raises StorageError that says what a folder or URL refuses, and why."""
    probe = f".imgfeed-train-{uuid.uuid4().hex}"
    failed: list[Exception] = []

    def attempt() -> None:
        try:
            write(folder, (probe,), lambda f: _put(f, b"imgfeed-train"))
            with local_copy(join(folder, probe)) as here:
                if here is None or here.read_bytes() != b"imgfeed-train":
                    raise StorageError(f"{folder} does not give back what was written there")
        except Exception as e:  # handed over to the caller's thread
            failed.append(e)
        with contextlib.suppress(Exception):  # whoever may not delete can still train
            _remove(folder, probe)

    if not is_url(folder):
        attempt()
    else:  # in a thread: a store behind a wrong address may never answer
        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(ANSWER_SECONDS)
        if thread.is_alive():
            raise StorageError(f"checkpoints: {folder} gave no answer within {ANSWER_SECONDS:g} s; is its address right?")
    if failed:
        cause = failed[0].__cause__ or failed[0]
        raise StorageError(f"checkpoints can't be kept at {folder}: {_said(cause)}{_advice(folder, cause)}") from failed[0]


def names(folder: str) -> list[str]:
    """Return the names of the files in a folder or at a URL; none where it is not there. Raises StorageError."""
    fs, root = _store(folder)
    try:
        return sorted(str(path).rsplit("/", 1)[-1] for path in fs.ls(root, detail=False))
    except FileNotFoundError:
        return []
    except Exception as e:
        raise StorageError(f"{folder} can't be listed: {_said(e)}") from e


def remove(folder: str, name: str) -> None:
    """Remove a file, if it is there. Raises StorageError where that is refused."""
    try:
        _remove(folder, name)
    except FileNotFoundError:
        pass
    except Exception as e:
        raise StorageError(f"{join(folder, name)} can't be removed: {_said(e)}") from e


def _put(f: IO[bytes], content: bytes) -> None:
    f.write(content)


def _remove(folder: str, name: str) -> None:
    fs, root = _store(folder)
    fs.rm_file(join(root, name))


def _store(place: str) -> tuple[Any, str]:
    """Return fsspec's file system for a path or URL, and the path there."""
    if not is_url(place):
        return fsspec.filesystem("file"), os.path.abspath(place)
    try:
        fs, path = fsspec.core.url_to_fs(place, use_listings_cache=False, skip_instance_cache=True)
    except (ImportError, ValueError) as e:  # no such protocol, or its package is missing; fsspec says which
        raise TrainError(f"{place}: {e}") from e
    return fs, str(path).rstrip("/")


def _said(e: BaseException) -> str:
    if isinstance(e, RuntimeError) and isinstance(e.__context__, OSError):
        e = e.__context__  # of the write that failed, after which torch's writer fails to close ("unexpected pos")
    return f"{type(e).__name__}: {e}" if str(e) else type(e).__name__


def _advice(folder: str, e: BaseException) -> str:
    """Return what to do about an error of S3, behind a dash; empty for others."""
    if not folder.startswith(("s3:", "s3a:")):
        return ""
    text = f"{type(e).__name__} {e}".lower()
    for signs, advice in (
        (("nocredentials", "unable to locate credentials"), "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give a role"),
        (("access key id", "invalidaccesskeyid", "signature"), "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        (("endpoint", "connect", "timeout"), "check the network, AWS_ENDPOINT_URL and the region"),
        (("bucket does not exist", "nosuchbucket", "invalidbucket"), "make the bucket, or correct its name"),
        (("accessdenied", "access denied", "forbidden", "permissionerror"), "the key may not write there: check its policy"),
    ):
        if any(sign in text for sign in signs):
            return f" - {advice}"
    return ""
