"""Whatever a server answers, the client has a batch or an error of its own: the wire document's example, changed."""

import contextlib
import json
import os
import random
import socket as sockets
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_wire import example, options

from imgfeed._server import wire
from imgfeed._server.client import Session
from imgfeed._server.sets import FieldInfo
from imgfeed.errors import ImgfeedError, ProtocolError

#: IMGFEED_HOSTILE=1000000,7 asks for a million conversations from the seed 7.
COUNT, SEED = (int(n) for n in os.environ.get("IMGFEED_HOSTILE", "1500,1").split(","))
NUMBERS = [-1, 0, 1, 3, 2**31, 2**32, 2**63, 2**64, 1e300, 0.5]
STRANGE: list[Any] = [*NUMBERS, None, True, "", "x", "uint8", "\0", [], [0], [[1]], {}, {"type": 1}]


def answers(lines: list[str]) -> list[dict[str, Any]]:
    """Return what the server says in an example."""
    said = [json.loads(line.split(" ", 1)[1]) for line in lines if line.startswith(("S {", "S+fd {"))]
    return [{k: v for k, v in message.items() if v != "…"} | {"sets": [], "server": "fake", "pid": 1} for message in said]


def changed(value: Any, rng: random.Random) -> Any:
    """Return JSON's value with one part of it changed, dropped or added."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        value = dict(value)
        key = rng.choice(list(value))
        if rng.random() < 0.15:
            del value[key]
        elif key != "type" or rng.random() < 0.1:
            value[key] = changed(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.9:
        value = list(value)
        at = rng.randrange(len(value))
        value[at : at + 1] = rng.choice([[], [value[at]] * 2, [changed(value[at], rng)]])
        return value
    if isinstance(value, int) and rng.random() < 0.5:
        return value + rng.choice([-1, 1, 64, 4096, -value - 1])
    return rng.choice(STRANGE)


def garbled(data: bytes, rng: random.Random) -> bytes:
    """Return a message with bytes changed, lost or added, its length told rightly or not."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out))
        out[at : at + rng.randrange(2)] = rng.randbytes(rng.randrange(3))
        out = out or bytearray(b"x")
    return bytes(out) if rng.random() < 0.5 else wire._LENGTH.pack(max(len(out) - 4, 0)) + bytes(out[4:])


def converse(messages: list[bytes], opened: int, ring: int, request: dict[str, Any]) -> None:
    """Hold an epoch with a server that says all this at once, and ends; it sends the ring with the message of that number."""
    ours, theirs = sockets.socketpair()
    connection = wire.Connection(ours)
    try:
        with theirs:
            for n, data in enumerate(messages):
                sockets.send_fds(theirs, [data], [ring] if n == opened else [])
            theirs.shutdown(sockets.SHUT_WR)
            session = Session(connection)
            session.open(request)
            session.start(0, 0)
            while (batch := session.next()) is not None:
                assert isinstance(batch.arrays.images, np.ndarray)
                batch.arrays.images.sum()
    finally:
        connection.close()


def open_files() -> set[tuple[int, str]]:
    """Return this process's descriptors and where they lead."""
    found = set()
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            found.add((fd, os.readlink(f"/proc/self/fd/{fd}")))
    return found


def test_answers_that_are_changed() -> None:
    lines = example('"slot":1', "M 4096")
    said, request, rng = answers(lines), options(lines), random.Random(SEED)
    opened = next(n for n, message in enumerate(said) if message["type"] == "opened")
    ring = os.memfd_create("ring")
    os.truncate(ring, said[opened]["ring_bytes"])
    before = open_files()
    refused = 0
    try:
        for number in range(COUNT):
            messages = [wire.encode(message) for message in said]
            at = rng.randrange(len(messages))
            messages[at] = garbled(messages[at], rng) if rng.random() < 0.3 else wire.encode(changed(said[at], rng))
            try:
                converse(messages, opened, ring, request)
            except ImgfeedError:
                refused += 1
            except Exception as e:
                pytest.fail(f"conversation {number} of seed {SEED}: {type(e).__name__}: {e}: {messages[at]!r}")
    finally:
        os.close(ring)
    assert refused > COUNT // 4
    assert not open_files() - before


#: Questions, an answer to each, and the bytes behind it.
QUESTIONS: list[tuple[Callable[[Session], Any], dict[str, Any], bytes]] = [
    (lambda s: s.labels(), {"type": "labels", "count": 4}, bytes(16)),
    (lambda s: s.classes(), {"type": "classes", "first": 0, "count": 2, "classes": ["cat", "dog"]}, b""),
    (lambda s: s.key(2), {"type": "key", "index": 2, "key": "cat/2.jpg"}, b""),
    (lambda s: s.sample(1), {"type": "sample", "index": 1, "height": 2, "width": 3, "label": 1}, bytes(18)),
    (lambda s: s.values(1, [FieldInfo("x", "int64", 2)]), {"type": "values", "index": 1, "bytes": 16}, bytes(16)),
    (lambda s: s.records(0, [1]), {"type": "records", "records": [[{"op": "hflip"}]]}, b""),
    (lambda s: s.order(0), {"type": "order", "epoch": 0, "count": 2}, bytes(16)),
    (lambda s: s.stats(), {"type": "stats", "images": 5, "seconds": {"read": 0.5}}, b""),
]


@pytest.mark.parametrize("question", range(len(QUESTIONS)))
def test_answers_to_questions_that_are_changed(question: int) -> None:
    ask, answer, raw = QUESTIONS[question]
    hello = {"type": "hello", "version": wire.VERSION, "server": "fake", "pid": 1, "sets": []}
    rng = random.Random(SEED)
    for number in range(min(COUNT, 300) + 1):
        reply = changed(answer, rng) if number else answer
        ours, theirs = sockets.socketpair()
        connection = wire.Connection(ours)
        try:
            with theirs:
                theirs.sendall(wire.encode(hello) + wire.encode(reply) + raw)
                theirs.shutdown(sockets.SHUT_WR)
                ask(Session(connection))
        except ImgfeedError:
            assert number, "the answer as it should be"
        except Exception as e:
            pytest.fail(f"answer {number} of seed {SEED}: {type(e).__name__}: {e}: {reply!r}")
        finally:
            connection.close()


@pytest.mark.parametrize(
    "change", [{"offset": -(1 << 20)}, {"offset": 4095}, {"dtype": "O"}, {"dtype": {}}, {"shape": [2**62, 4, 1]}]
)
def test_arrays_outside_their_slot(change: dict[str, Any]) -> None:
    lines = example('"slot":1', "M 4096")
    said = answers(lines)
    opened = next(n for n, message in enumerate(said) if message["type"] == "opened")
    said[opened]["arrays"][0].update(change)
    ring = os.memfd_create("ring")
    os.truncate(ring, said[opened]["ring_bytes"])
    try:
        with pytest.raises(ProtocolError, match=r"don't fit|not a type of numbers"):
            converse([wire.encode(message) for message in said], opened, ring, options(lines))
    finally:
        os.close(ring)
