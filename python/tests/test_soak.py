"""The soak's own program: its events are the seed's, and its proof finds what differs, grows or is left."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from soak import proof
from soak.director import Director
from soak.events import KINDS, REST, events


def test_events_are_a_function_of_the_seed() -> None:
    some = list(itertools.islice(events(7), 2000))
    assert some == list(itertools.islice(events(7), 2000)) != list(itertools.islice(events(8), 2000))
    assert {event.what for event in some} == {kind.what for kind in KINDS}
    busy: dict[str, float] = {}
    for event in some:
        assert event.at >= busy.get(event.whom, 0.0)
        busy[event.whom] = event.at + event.lasts + REST


@pytest.fixture
def director(tmp_path: Path) -> Iterator[Director]:
    made = Director(tmp_path / "soak", seed=5)
    yield made
    made.close()


@pytest.mark.long
def test_the_proof_finds_what_is_wrong(director: Director) -> None:
    director.run(8, proof.Meter(1))
    proof.check_leftovers(director)
    counts = proof.check_books(director)
    assert director.failures == []
    assert sum(director.done.values()) and counts["train samples"] and counts["val epochs"] and not counts["differences"]

    book = director.folders.books / "witness" / "train-000000"
    rows = bytearray(book.read_bytes())
    rows[proof.ROW.itemsize + 5] ^= 1  # a hash
    book.write_bytes(bytes(rows))
    with (director.folders.books / "rank0" / "val-000000").open("r+b") as f:
        f.truncate(proof.ROW.itemsize)
    assert proof.check_books(director)["differences"] > 1
    wrong = [failure.split(":")[0] for failure in director.failures]
    assert wrong == ["rank0, val, epoch 0", "val, epoch 0", "witness, train, epoch 0"]  # the second: the ranks' union

    (director.folders.temporary / "forgotten").touch()
    (director.folders.sets / "val" / "manifest.json").write_text("{}")
    left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, **director.mark})
    try:
        director.failures.clear()
        proof.check_leftovers(director)
    finally:
        left.communicate()
    found = "\n".join(director.failures)
    assert len(director.failures) == 3 and f"process {left.pid} is left" in found and "the sets are not" in found


def test_growth_is_found(director: Director) -> None:
    meter = proof.Meter(1)
    flat, grows = ([{"descriptors": n, "resident KiB": 50_000} for n in numbers] for numbers in ([9] * 20, range(20)))
    meter.taken = {"steady": flat, "witness": grows}
    assert len(meter.check(director)) == 4
    assert director.failures == ["witness: descriptors grew from 7 to 17"]
