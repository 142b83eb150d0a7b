"""The client against scripted servers that break the rules. The server's own test replays the document's examples."""

import contextlib
import json
import os
import random
import re
import socket as sockets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE

import imgfeed
from imgfeed._server import client, wire
from imgfeed._server.client import Session
from imgfeed.errors import ProtocolError

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "format" / "wire.md"
HELLO = {"type": "hello", "version": 1, "server": "fake", "pid": 1, "sets": []}
ARRAYS = [
    {"kind": "images", "dtype": "uint8", "shape": [1, 1, 3], "offset": 0, "stride": 3},
    {"kind": "labels", "dtype": "int64", "shape": [], "offset": 64, "stride": 8},
    {"kind": "indices", "dtype": "int64", "shape": [], "offset": 128, "stride": 8},
]
OPENED = {"type": "opened", "slots": 2, "slot_bytes": 4096, "ring_bytes": 8192, "arrays": ARRAYS, "notes": []}
STARTED = {"type": "started", "epoch": 0, "batches": 3, "generation": 1}


class Fake:
    """The server's end of a connection, for a script that runs in a thread."""

    def __init__(self, sock: sockets.socket) -> None:
        self.sock = sock
        self.file = sock.makefile("rb")
        self.released: list[int] = []

    def read(self) -> dict[str, Any]:
        length = int.from_bytes(self.file.read(4), "little")
        message: dict[str, Any] = json.loads(self.file.read(length))
        if message["type"] == "release":
            self.released.append(message["slot"])
            return self.read()
        return message

    def await_release(self, slot: int) -> None:
        while slot not in self.released:
            length = int.from_bytes(self.file.read(4), "little")
            message = json.loads(self.file.read(length))
            assert message["type"] == "release"
            self.released.append(message["slot"])
        self.released.remove(slot)

    def send(self, message: dict[str, Any], fd: int | None = None) -> None:
        data = wire.encode(message)
        sockets.send_fds(self.sock, [data], [] if fd is None else [fd])


@contextlib.contextmanager
def served(script: Callable[[Fake], None]) -> Iterator[Session]:
    """Run script against a session; raises what the script raises."""
    ours, theirs = sockets.socketpair()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            fake = Fake(theirs)
            with theirs, fake.file:
                script(fake)
        except BaseException as e:
            failed.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    connection = wire.Connection(ours)
    try:
        yield Session(connection)
    finally:
        connection.close()
        thread.join()
    if failed:
        raise failed[0]


@contextlib.contextmanager
def started(script: Callable[[Fake], None]) -> Iterator[Session]:
    """Run script against a session that has begun an epoch."""
    with served(script) as session:
        session.open({})
        session.start(0, 0)
        yield session


def example(*marks: str) -> list[str]:
    """Return the document's first example that holds all marks."""
    blocks = re.findall(r"```wire\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    lines = next(block for block in blocks if all(mark in block for mark in marks)).splitlines()
    return [line for line in lines if not line.startswith("#")]


def options(lines: list[str]) -> dict[str, Any]:
    message: dict[str, Any] = next(json.loads(line[2:]) for line in lines if line.startswith('C {"type":"open"'))
    return {k: v for k, v in message.items() if k != "type"}


def opened(fake: Fake, **change: Any) -> None:
    """Answer hello and open, with a ring of two slots."""
    fake.read()
    fake.send(HELLO)
    fake.read()
    fd = os.memfd_create("ring")
    os.truncate(fd, 8192)
    fake.send({**OPENED, **change}, fd)
    os.close(fd)


def begun(fake: Fake) -> None:
    """Answer start too, with an epoch of three batches."""
    opened(fake)
    fake.read()
    fake.send(STARTED)


def test_classes_that_take_several_messages() -> None:
    def script(fake: Fake) -> None:
        opened(fake)
        for first, count, names in ((0, 3, ["cat", "dog"]), (2, 3, ["emu"]), (0, 1, [])):
            assert fake.read() == {"type": "classes", **({"first": first} if first else {})}
            fake.send({"type": "classes", "first": first, "count": count, "classes": names})

    with served(script) as session:
        session.open({})
        assert session.classes() == ["cat", "dog", "emu"]
        with pytest.raises(imgfeed.ProtocolError, match="0 names of classes came, of 1"):
            session.classes()


def hello_then(data: bytes) -> Callable[[Fake], None]:
    def script(fake: Fake) -> None:
        fake.read()
        fake.send(HELLO)
        fake.read()
        fake.sock.sendall(data)

    return script


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (b"\xff\xff\xff\xff", ProtocolError, "4294967295 bytes"),
        (b"\x02\x00\x00\x00[]", ProtocolError, "without a type"),
        (b"\x02\x00\x00\x00{x", ProtocolError, "not JSON"),
        (b"\x10\x00\x00\x00{", imgfeed.ServerError, "closed the connection"),
        (b"", imgfeed.ServerError, "closed the connection"),
        (wire.encode({"type": "stats"}), ProtocolError, "'stats' came in answer to 'open'"),
        (wire.encode({**OPENED}), ProtocolError, "no shared memory"),
        (wire.encode({**OPENED, "arrays": ARRAYS[:1]}), ProtocolError, "have no indices, labels"),
        (wire.encode({"type": "error", "kind": "bad_request", "message": "no"}), imgfeed.BadRequestError, "no"),
        (wire.encode({"type": "error", "kind": "unheard-of", "message": "what", "fatal": True}), imgfeed.ServerError, "what"),
    ],
)
def test_bad_answers(answer: bytes, error: type[Exception], words: str) -> None:
    with served(hello_then(answer)) as session, pytest.raises(error, match=words):
        session.open({})


def test_a_ring_that_is_too_small_is_refused() -> None:
    with served(lambda fake: opened(fake, ring_bytes=1 << 20)) as session, pytest.raises(ProtocolError, match="ring of 8192"):
        session.open({})


def test_arrays_of_an_unknown_kind_are_passed_over() -> None:
    unknown = {"kind": "smell", "dtype": "odour", "shape": [7], "offset": 192, "stride": 2}

    def script(fake: Fake) -> None:
        fake.read()
        fake.send(HELLO)
        fake.read()
        fake.send({**OPENED, "arrays": [ARRAYS[0], unknown, *ARRAYS[1:]]})
        fake.read()
        fake.send(STARTED)
        fake.send({"type": "batch", "generation": 1, "batch": 0, "count": 1, "bytes": 21, "consumed": 1})
        fake.sock.sendall(bytes([10, 20, 30, 255, 255, 3, *bytes(7), 4, *bytes(7)]))

    with served(script) as session:
        session.open({"transport": "socket"})
        session.start(0, 0)
        batch = session.next()
        assert [column.tolist() for column in batch.arrays.columns()] == [[[[[10, 20, 30]]]], [3], [4]]


@pytest.mark.parametrize("change", [{"slot": 2}, {"slot": -1}, {"count": 10**6}])
def test_a_batch_outside_the_ring_is_refused(change: dict[str, int]) -> None:
    def script(fake: Fake) -> None:
        begun(fake)
        fake.send({"type": "batch", "generation": 1, "batch": 0, "count": 1, "slot": 0, "consumed": 1, **change})

    with started(script) as session, pytest.raises(ProtocolError):
        session.next()


def test_batches_of_an_older_epoch_are_given_back() -> None:
    def script(fake: Fake) -> None:
        begun(fake)
        for n in range(2):
            fake.send({"type": "batch", "generation": 1, "batch": n, "count": 1, "slot": n, "consumed": 1})
        fake.read()
        fake.send({**STARTED, "generation": 2})
        fake.await_release(0)
        fake.await_release(1)
        fake.send({"type": "end", "generation": 2, "epoch": 1})

    with started(script) as session:
        session.start(1, 0)
        assert session.next() is None


def test_a_slow_server_is_asked_whether_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers are nobody else's, and one that does not answer is lost."""
    monkeypatch.setattr(client, "QUIET", 0.01)
    late = threading.Event()

    def script(fake: Fake) -> None:
        begun(fake)
        while (message := fake.read())["type"] == "stats":
            fake.send(message)
        assert message == {"type": "key", "index": 7}
        fake.send({"type": "key", "index": 7, "key": "seven"})
        assert fake.read() == {"type": "stats"}
        late.wait(PATIENCE)

    with started(script) as session:
        with pytest.raises(TimeoutError):
            session.next(0.25, watch=True)
        assert session.key(7) == "seven"
        monkeypatch.setattr(client, "HUNG", 0.1)
        with pytest.raises(imgfeed.LostError, match="has not answered for"):
            session.next(watch=True)
        late.set()


def test_a_server_that_is_silent_in_the_middle_of_a_message_is_lost(impatient: Callable[[], None]) -> None:
    asked = threading.Event()

    def script(fake: Fake) -> None:
        opened(fake)
        assert fake.read() == {"type": "labels"}
        fake.send({"type": "labels", "count": 4})
        fake.sock.sendall(bytes(12))
        asked.wait(PATIENCE)

    with served(script) as session:
        session.open({})
        impatient()
        with pytest.raises(imgfeed.LostError, match="s in the middle of a message"):
            session.labels()
        asked.set()


def test_stop_names_its_epoch() -> None:
    def script(fake: Fake) -> None:
        begun(fake)
        assert fake.read() == {"type": "stop", "generation": 1}

    with served(script) as session:
        session.open({})
        session.stop(session.start(0, 0)[1])


@pytest.mark.parametrize("raised", [KeyboardInterrupt, TimeoutError])  # the other one is an OSError, without a number
@pytest.mark.parametrize("what", ["sock", "send_lock"])
def test_an_interrupted_release_ends_the_connection(what: str, raised: type[BaseException]) -> None:
    """Were it sent twice, the slot would be another batch's by then; were it not sent, the slot would never go back."""
    ours, theirs = sockets.socketpair()
    connection = wire.Connection(ours)

    class Interrupted:
        def send(self, data: bytes, flags: int) -> int:
            raise raised

        def acquire(self, *, blocking: bool) -> bool:
            raise raised  # it was taken, and nobody will give it back

    with ours, theirs, pytest.MonkeyPatch.context() as patch, pytest.raises(raised):
        patch.setattr(connection, f"_{what}", Interrupted())
        connection.send_later(b"release")
    with pytest.raises(imgfeed.ServerError, match="interrupt"):
        connection.send({"type": "start"})


def test_a_release_that_meets_a_dead_server_is_told_later() -> None:
    ours, theirs = sockets.socketpair()
    connection = wire.Connection(ours)
    theirs.close()
    connection.send_later(b"release")
    with pytest.raises(imgfeed.ServerError, match="lost the server"):
        connection.ready()
    connection.close()


def test_closing_ends_a_connection_whose_socket_a_fork_has() -> None:
    ours, theirs = sockets.socketpair()
    connection = wire.Connection(ours)
    with ours.dup(), theirs:
        connection.close()
        theirs.settimeout(PATIENCE)
        assert theirs.recv(1) == b""


def test_a_message_may_come_in_pieces_and_late() -> None:
    go_on = threading.Event()

    def script(fake: Fake) -> None:
        opened(fake)
        fake.read()
        data = wire.encode(STARTED) + wire.encode({"type": "end", "generation": 1, "epoch": 0})
        for byte in data[:-3]:
            fake.sock.sendall(bytes([byte]))
        go_on.wait(PATIENCE)
        fake.sock.sendall(data[-3:])

    with started(script) as session:
        with pytest.raises(TimeoutError):
            session.next(timeout=0.05)
        go_on.set()
        assert session.next(timeout=PATIENCE) is None


def any_json(rng: random.Random, depth: int = 0) -> Any:
    """Return a random value that JSON holds."""
    if depth < 3 and rng.random() < 0.4:
        values = [any_json(rng, depth + 1) for _ in range(rng.randrange(4))]
        return values if rng.random() < 0.5 else {f"{i}é\n": value for i, value in enumerate(values)}
    return rng.choice([None, True, rng.randrange(-(2**63), 2**64), rng.random(), "ü\0\u2028" * rng.randrange(2000), ""])


def any_conversation(rng: random.Random) -> list[tuple[dict[str, Any], bytes]]:
    """Return random messages, each with the raw bytes that follow it."""
    lengths = (0, 1, rng.randrange(70_000))
    return [({"type": "m", "number": i, "value": any_json(rng)}, rng.randbytes(rng.choice(lengths))) for i in range(20)]


@pytest.mark.parametrize("seed", range(8))
def test_random_messages_come_as_they_were_sent(seed: int) -> None:
    """Whatever the pieces that bytes come in, and however few the other side takes at a time."""
    rng = random.Random(seed)
    coming, going = any_conversation(rng), any_conversation(rng)
    ours, theirs = sockets.socketpair()
    for sock in (ours, theirs):
        sock.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDBUF, 4096)
    cuts, seen = random.Random(seed + 1), bytearray()

    def write() -> None:
        left = b"".join(wire.encode(message) + raw for message, raw in coming)
        while left:
            piece = cuts.choice([1, 3, 4, 5, 1000, 100_000])
            theirs.sendall(left[:piece])
            left = left[piece:]

    def read() -> None:
        takes = random.Random(seed + 2)
        while data := theirs.recv(takes.choice([1, 7, 100_000])):
            seen.extend(data)

    threads = [threading.Thread(target=write), threading.Thread(target=read)]
    connection = wire.Connection(ours)
    with theirs:
        for thread in threads:
            thread.start()
        got, wanted = [], b""
        for message, raw in going:
            if raw or rng.random() < 0.5:
                connection.send(message, memoryview(raw))
            else:  # without raw bytes, as a release goes
                connection.send_later(wire.encode(message))
            wanted += wire.encode(message) + raw
        for _, raw in coming:
            assert connection.ready(PATIENCE)
            message, buffer = connection.receive(), bytearray(len(raw))
            connection.receive_raw(memoryview(buffer), PATIENCE)
            got.append((message, bytes(buffer)))
        connection.send({"type": "last"})
        connection.close()
        for thread in threads:
            thread.join(PATIENCE)
    assert got == coming
    assert bytes(seen) == wanted + wire.encode({"type": "last"})
