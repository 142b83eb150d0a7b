"""The wire: length-prefixed JSON over a Unix stream socket, as docs/format/wire.md specifies it."""

import contextlib
import json
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from typing import Any, NoReturn

from .. import errors

VERSION = 1
MESSAGE_BYTES_MAX = 64 << 20
_LENGTH = struct.Struct("<I")


_encode_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode_json = json.JSONDecoder().decode
_READ_BYTES = 64 << 10
_ANCILLARY_BYTES = socket.CMSG_SPACE(16 * 4)

Message = dict[str, Any]


def encode(message: Message) -> bytes:
    body = _encode_json(message).encode()
    return _LENGTH.pack(len(body)) + body


class Connection:
    """One connection to a server: whole messages in, whole messages out.

    One thread receives at a time. Sending is safe from any thread, and ``send_later`` also from finalizers: it never blocks.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._pid = os.getpid()
        # What has come and is not taken yet: only the receiving thread takes it, and close() closes the descriptors.
        self._in = bytearray()
        self._fds: list[int] = []
        # Any thread appends; only the holder of the lock takes from the queue and writes to the socket: no message is cut.
        self._out: deque[bytes] = deque()
        self._send_lock = threading.Lock()
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self.closed = False
        #: Whether an exception of a signal's handler has ended it, in the middle of something.
        self.broken_off = False
        self._why: errors.ServerError | None = None  # why it was closed, for a later call to raise
        self._cause: BaseException | None = None  # a signal's handler raised it in a finalizer

    @property
    def usable(self) -> bool:
        """Whether this process may use the connection: it is open and was not inherited through a fork."""
        return not self.closed and self._pid == os.getpid()

    @property
    def inherited(self) -> bool:
        """Whether this process got the connection through a fork: it is the parent's."""
        return self._pid != os.getpid()

    def send(self, message: Message, *raw: memoryview) -> None:
        """Send one message and the raw bytes that follow it, after whatever ``send_later`` left waiting."""
        self._check()
        data = encode(message)
        try:
            with self._send_lock:
                while self._out:
                    self._sock.sendall(self._out.popleft())
                self._sock.sendall(data)
                for part in raw:
                    self._sock.sendall(part)
        except OSError as e:
            self._fail(e)
        except BaseException:
            self.break_off()
            raise

    def send_later(self, data: bytes) -> None:
        """Send an encoded message now if that is possible without waiting, else with the next one.

        It raises only exceptions of signal handlers; then the connection has ended.
        """
        try:
            if self.usable:
                self._out.append(data)
                self._flush()
        except BaseException:
            self.break_off()
            raise

    def break_off(self, cause: BaseException | None = None) -> None:
        """End the connection: a signal's handler has raised, and nobody knows whether a message came or went.

        cause is an exception in a finalizer, which the next use of the connection raises.
        """
        self._why = errors.LostError(f"{_CLOSED}: an interrupt came in the middle of a message")
        self._cause = cause or self._cause
        self.closed = self.broken_off = True

    def flush(self) -> None:
        """Send what ``send_later`` left waiting, as far as possible without waiting. It raises what that raises."""
        try:
            self._flush()
        except BaseException:  # the lock may stay taken
            self.break_off()
            raise

    def _flush(self) -> None:
        while self._out and self.usable and self._send_lock.acquire(blocking=False):
            try:
                data = self._out.popleft()
                sent = self._sock.send(data, socket.MSG_DONTWAIT)
                if sent < len(data):
                    self._out.appendleft(data[sent:])
                    return
            except IndexError:
                return
            except BlockingIOError:
                self._out.appendleft(data)
                return
            except OSError as e:
                if e.errno is None:  # of a signal's handler
                    raise
                self.closed, self._why = True, _lost(e)  # whoever uses it next learns why
                return
            finally:
                self._send_lock.release()

    def ready(self, timeout: float | None = None) -> bool:
        """Wait until a whole message is here, for timeout seconds at most; None waits for ever. Returns whether it is.

        An exception of a signal's handler loses nothing. Raises LostError when the server is gone, ProtocolError.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._check()
            size = self._message_bytes()
            if len(self._in) >= size:
                return True
            # The socket itself blocks: senders share it. A reader that blocks in it would also be woken when the server
            # has read what was sent.
            if not self._poll.poll(None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000):
                return False
            self._read()

    def receive(self) -> Message:
        """Return the message for which ``ready`` has waited. Raises ProtocolError.

        After an exception of a signal's handler the message may be lost: call ``break_off``.
        """
        size = _LENGTH.size + _LENGTH.unpack_from(self._in)[0]
        try:
            body = self._in[_LENGTH.size : size].decode()
            del self._in[:size]
            message = _decode_json(body)
        except (ValueError, RecursionError) as e:
            self.close()
            raise errors.ProtocolError(f"imgfeed: message that is not JSON: {e}") from e
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            self.close()
            raise errors.ProtocolError(f"imgfeed: message without a type: {body[:80]}")
        return message

    def _message_bytes(self) -> int:
        """Return the size of the next message with its length, or of the length until that has come."""
        if len(self._in) < _LENGTH.size:
            return _LENGTH.size
        (size,) = _LENGTH.unpack_from(self._in)
        if size > MESSAGE_BYTES_MAX:
            self.close()
            raise errors.ProtocolError(f"imgfeed: message of {size} bytes, at most {MESSAGE_BYTES_MAX} are allowed")
        return _LENGTH.size + int(size)

    def receive_raw(self, buffer: memoryview, silence: float) -> None:
        """Fill buffer with the raw bytes after a message. Raises LostError if the server is gone, or silent that long."""
        self._check()
        have = min(len(self._in), len(buffer))
        buffer[:have] = self._in[:have]
        del self._in[:have]
        while have < len(buffer):
            if not self._poll.poll(silence * 1000):
                self.close()
                raise errors.LostError(f"imgfeed: the server sent nothing for {silence:g} s in the middle of a message")
            try:
                n = self._sock.recv_into(buffer[have:])
            except OSError as e:
                self._fail(e)
            if n == 0:
                self.close()
                raise errors.LostError("imgfeed: the server closed the connection in the middle of a message")
            have += n

    def take_fd(self) -> int | None:
        """Return a file descriptor that came with the last messages, or None. The caller closes it."""
        return self._fds.pop(0) if self._fds else None

    def close(self, why: errors.ServerError | None = None) -> None:
        """Close the connection. A waiting thread, and any later use, get the error why. A fork leaves its parent's alone."""
        end_with_interpreter()
        self._why = self._why or why
        self.closed = True
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
        if self._pid == os.getpid():
            with contextlib.suppress(OSError):  # closing alone wakes no waiting thread, and a fork keeps its copy
                self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise errors.ServerError(
                "imgfeed: this connection belongs to the process that opened it, and this is a fork of that process; "
                "iterate the loader again (it reconnects) or make a loader of its own in each process"
            )
        if self._cause is not None:
            cause, self._cause = self._cause, None
            raise cause
        if self.closed:
            end_with_interpreter()
            why = self._why or errors.ServerError(_CLOSED)
            raise type(why)(str(why))  # kept and raised, its traceback would hold this connection, and its ring, for good

    def _read(self) -> None:
        try:
            data, ancillary, _, _ = self._sock.recvmsg(_READ_BYTES, _ANCILLARY_BYTES, _CLOEXEC)
            if ancillary:
                self._take_fds(ancillary)
            self._in += data
        except OSError as e:
            if not self.closed:
                self._fail(e)
            data = b""
        except BaseException:
            self.break_off()
            raise
        if not data:
            self._check()
            self.close()
            raise errors.LostError("imgfeed: the server closed the connection")

    def _fail(self, e: OSError) -> NoReturn:
        """End the connection, and raise LostError for what the system reports, or what a signal's handler has raised."""
        if e.errno is None:
            self.break_off()
            raise e
        self.close()
        raise _lost(e) from e

    def _take_fds(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                count = len(data) // 4
                self._fds.extend(struct.unpack(f"{count}i", data[: count * 4]))


_ended = threading.Event()  # set once the interpreter's end has closed a connection


def end_with_interpreter() -> None:
    """End a daemon thread without a traceback if it still runs while the interpreter's end closes the connections."""
    current, main = threading.current_thread(), threading.main_thread()
    if current is main and not main.is_alive():
        _ended.set()
    if current.daemon and _ended.is_set():
        raise SystemExit


def _lost(e: OSError) -> errors.LostError:
    """Return the error for a connection that the system calls broken: the server was killed, as a rule."""
    return errors.LostError(f"imgfeed: lost the server ({e.strerror or e})")


SOCKET_PATH_MAX = 107  # bytes that the address of a Unix socket holds, as sockaddr_un has it: 108 with the final zero (unix(7))

_CLOSED = "imgfeed: the connection to the server is closed"
_CLOEXEC: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


def connect(path: str) -> Connection:
    """Connect to a server's Unix socket. Raises OSError, BlockingIOError if it has not taken its last connections yet."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.connect(path)
        sock.setblocking(True)
    except BaseException:
        sock.close()
        raise
    return Connection(sock)
