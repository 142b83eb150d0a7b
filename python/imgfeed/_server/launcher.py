"""Finding the ``imgfeed`` program, starting a server that belongs to this process, and seeing to it that it ends."""

import contextlib
import functools
import json
import logging
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import IO

from .. import errors
from .._arguments import paths, vision
from . import client, wire

log = logging.getLogger("imgfeed")

START_TIMEOUT = 60.0  # seconds until a server of one's own must listen, or report its progress
END_TIMEOUT = 5.0  # seconds for it to end without force
TEMP_PATH_MAX = wire.SOCKET_PATH_MAX - len("/imgfeed-0123456789abcdef/sock")  # bytes


def find_binary(name: str = "imgfeed") -> str:
    """Return the path of a program: by ``IMGFEED_BIN``, where the wheel installs it, in ``bin/`` of a checkout, or on PATH.

    Raises BinaryNotFoundError naming all of them.
    """
    package, override = Path(__file__).resolve().parents[1], os.environ.get("IMGFEED_BIN")
    # bin/ of an environment lies beside its lib/pythonX/site-packages; with pip's --target, in the folder itself.
    candidates = [package.parents[up] / "bin" / name for up in (0, 1, 3) if up < len(package.parents)]
    if override:
        program = Path(_program(override))
        candidates = [program if name == "imgfeed" else program.with_name(name)]
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return str(path)
    if override:
        raise errors.BinaryNotFoundError(f"imgfeed: IMGFEED_BIN is {override}, and {candidates[0]} is not a program")
    if on_path := shutil.which(name):
        return on_path
    looked = ", ".join(str(c) for c in candidates)
    raise errors.BinaryNotFoundError(
        f"imgfeed: no program {name!r}: looked at {looked}, and on PATH; "
        "install the wheel, run `make build`, or set IMGFEED_BIN to the path of imgfeed"
    )


_program = functools.cache(paths.absolute)  # where it is when it is first asked for: the working directory may change


def limits_here() -> str:
    """Return what does not work on this system, "" on Linux."""
    if sys.platform == "linux":
        return ""
    return (
        f"imgfeed: there is no server for {sys.platform}: it needs the shared memory of Linux. Train on Linux, or in a "
        "container; here imgshard packs sets and shows them (untried)"
    )


def operations() -> vision.Known:
    """Return the operations of the installed server."""
    said = subprocess.run([find_binary(), "version", "--json"], check=True, capture_output=True).stdout
    return vision.known_by(json.loads(said)["operations"])


class OwnServer:
    """An ``imgfeed serve`` that belongs to this process, and one connection to it.

    The server removes its socket's private folder once connected. It ends with its stdin or this process (``--owner``).
    """

    def __init__(self, *data: str, **flags: object) -> None:
        """Start a server of the sets at data, with these flags. Raises UnsupportedError on other systems than Linux."""
        if limits := limits_here():
            raise errors.UnsupportedError(limits)
        command = [find_binary(), "serve", "--owner", str(os.getpid()), "--log-level", "warn"]
        for name, value in flags.items():
            if value:
                command.append(f"--{name.replace('_', '-')}={value}")
                paths.check_secrets(name, command[-1])
                if "\0" in command[-1]:
                    raise ValueError(f"imgfeed: {name} is {value!r:.80}: it holds a NUL, which no program takes")
        self._owner = os.getpid()
        path = _socket_path()
        shown = os.dup(2) if os.isatty(2) else None  # the terminal, for the progress where a dataset is indexed first
        if shown is not None:
            command.append(f"--progress-fd={shown}")
        self._log = os.fdopen(os.memfd_create("imgfeed-log"), "w+b")  # in memory: disks may be full; close closes it
        try:
            self.process = subprocess.Popen(
                [*command, "--socket", path, "--", *data],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # for people
                stderr=self._log,
                start_new_session=True,  # Ctrl-C on the terminal is for the owner to handle
                pass_fds=() if shown is None else (shown,),
            )
        except BaseException:
            self._log.close()
            raise
        finally:
            if shown is not None:
                os.close(shown)
        self._end = weakref.finalize(self, _end, self.process, self._owner, self._log)
        try:
            self.session = self._connect(path)
        except BaseException:
            self.process.kill()  # it holds nothing yet, and may be too young to hear SIGINT
            self.close()
            raise
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(path))

    def explain(self, error: errors.ServerError) -> errors.ServerError:
        """Return error with the server's last output, if it has ended. A forked child of the owner can't know that."""
        if os.getpid() != self._owner:
            return error
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(timeout=0.5)
            printed = self._printed()
            how = f"signal {-code}" if code < 0 else f"exit status {code}"
            return type(error)(f"{error}: the server ended ({how}){': ' + printed if printed else ''}")
        return error

    def kill(self) -> None:
        """End the server at once, which may hang."""
        if os.getpid() == self._owner:
            self.process.kill()

    def close(self) -> None:
        self._end()

    def _connect(self, path: str) -> client.Session:
        deadline, said = time.monotonic() + START_TIMEOUT, 0
        wait = 0.001
        while True:
            with contextlib.suppress(OSError):
                connection = wire.connect(path)
                break
            if _ended(self.process.pid):
                self.process.wait()
                raise self._not_started(os.path.dirname(path))
            if (size := os.fstat(self._log.fileno()).st_size) > said:  # that a large set on a slow disk is being opened
                deadline, said = time.monotonic() + START_TIMEOUT, size
                line = re.sub(r'^time=.*? msg="?(.*?)"?( \w+=.*|$)', r"\1\2", self._printed().splitlines()[-1])
                log.warning("imgfeed: the server is starting: %s", line)
            if time.monotonic() > deadline:
                raise errors.TimeoutError(f"imgfeed: the server did not start within {START_TIMEOUT:g} s: {self._printed()}")
            time.sleep(wait)
            wait = min(wait * 1.5, 0.05)
        try:
            return client.Session(connection)
        except errors.ServerError as e:
            raise self.explain(e) from e

    def _not_started(self, folder: str) -> errors.ServerError:
        """Return the error of a server that has ended before one could connect; it was to make the folder of its socket."""
        begin, printed = "imgfeed: the server did not start:", self._printed()
        if self.process.returncode < 0:
            said = f": {printed}" if printed else ""
            return errors.LostError(f"{begin} it was ended by signal {-self.process.returncode}{said}")
        if printed.startswith("socket folder: "):
            reason = printed.partition(f"{folder}: ")[2].partition(" (")[0] or printed
            return errors.ServerError(
                f"{begin} it needs a temporary folder: {os.path.dirname(folder)}: {reason}: "
                "make room there, or have TMPDIR name another folder"
            )
        return errors.ServerError(f"{begin} {printed or 'it said nothing'}")

    def _printed(self) -> str:
        """Return the end of the server's output, without the prefix that errors get anyway."""
        limit, size = resource.getrlimit(resource.RLIMIT_AS)[0], os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), size, 0).decode(errors="replace")
        if crash := re.search(r"^(?:runtime|fatal error|panic): .*?(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL):
            text = crash[0]  # a stack follows
            if limit != resource.RLIM_INFINITY and "memory" in text:
                return f"the limit of virtual memory (ulimit -v) is {limit / 2**30:.1f} GiB: raise it to 4 GiB or more"
        return "\n".join(line.removeprefix("imgfeed: ") for line in text[-4096:].strip().splitlines()[-12:])


def _socket_path() -> str:
    """Return the path of a new socket in a folder for temporary files, or in /tmp where that would be too long."""
    try:
        folder = tempfile.gettempdir()
    except OSError as e:  # no folder can be written to
        raise errors.ServerError(f"imgfeed: the server did not start: it needs a temporary folder: {e.strerror}") from e
    short = folder if len(os.fsencode(folder)) <= TEMP_PATH_MAX else "/tmp"
    return os.path.join(short, f"imgfeed-{secrets.token_hex(8)}", "sock")


def _ended(pid: int) -> bool:
    """Return whether a child has ended. Popen.poll takes a lock, which an exception of a signal's handler can leave taken."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # the program ignores SIGCHLD
        return True


def _end(process: subprocess.Popen[bytes], owner: int, log: IO[bytes]) -> None:
    """End a server, kindly first, and close its log. A forked child of the owner leaves the server alone."""
    log.close()
    if os.getpid() == owner and process.poll() is None:
        process.send_signal(signal.SIGINT)  # SIGTERM it leaves to its owner
        try:
            process.wait(timeout=END_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, 0)  # not wait(), for the same reason as in _ended
            process.returncode = -signal.SIGKILL
    assert process.stdin is not None
    process.stdin.close()  # not before: that and a signal are two signs, and the second ends it at once
