"""A batch stays as it is for as long as anything refers to it, and its slot comes back when nothing does."""

import contextlib
import gc
import itertools
import random
import signal
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE, RANDOM, SAMPLES, copied, goes_on_after_interrupts, indices, same, wait_for

from imgfeed import DataLoader
from imgfeed._server.ring import _Lease

Load = Callable[..., DataLoader]
OPTIONS: dict[str, Any] = {"shuffle": True, "transform": RANDOM}


def ring(loader: DataLoader) -> Any:
    return loader._service.session().ring


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 8])
def test_held_batches_are_never_overwritten(load: Load, slots: int) -> None:
    loader = load(4, slots=slots, **OPTIONS)
    held, copies = [], []
    for _ in range(3):
        for batch in loader:
            held.append(batch)
            copies.append(copied(batch))
    assert len(held) == 3 * -(-SAMPLES // 4)
    assert all(same(a, b) for a, b in zip(held, copies, strict=True))
    assert ring(loader).slots_held < slots


def test_a_view_of_a_view_holds_the_slot(load: Load) -> None:
    loader = load(4, slots=8, **OPTIONS)
    iteration = iter(loader)
    pixel = next(iteration)[0][2, 5:9, ::2]
    want = pixel.copy()
    gc.collect()
    assert ring(loader).slots_held == 1
    for _ in range(2):
        assert len(indices(loader)) == SAMPLES
    assert np.array_equal(pixel, want)
    del pixel, iteration
    wait_for(lambda: ring(loader).slots_held == 0)


def test_slots_come_back(load: Load) -> None:
    loader = load(4, slots=3, **OPTIONS)
    for batch in loader:
        assert not any(part.flags.owndata for part in batch)
        assert ring(loader).slots_held <= 2
    del batch
    assert ring(loader).slots_held == 0
    wait_for(lambda: loader.stats()["slots_lent"] == 0)


def test_batches_are_views_and_not_copies(load: Load) -> None:
    loader = load(4, slots=4, **OPTIONS)
    memory = ring(loader).memory
    begin = memory.ctypes.data
    for batch in loader:
        for part in batch:
            assert begin <= part.ctypes.data < begin + memory.nbytes


def test_batches_outlive_the_loader(load: Load) -> None:
    loader = load(4, slots=8, **OPTIONS)
    batches = [batch for batch, _ in zip(loader, range(4), strict=False)]
    copies = [copied(b) for b in batches]
    loader.close()
    del loader
    gc.collect()
    assert all(same(a, b) for a, b in zip(batches, copies, strict=True))


def test_batches_may_be_dropped_by_other_threads(load: Load) -> None:
    loader = load(2, slots=4, **OPTIONS)
    total = 0

    def consume(batch: Any, want: Any) -> None:
        nonlocal total
        assert same(batch, want)
        total += len(batch[0])

    for _ in range(3):
        threads = []
        for batch in loader:
            threads.append(threading.Thread(target=consume, args=(batch, copied(batch))))
            threads[-1].start()
            del batch
        for thread in threads:
            thread.join()
        threads.clear()
    assert total == 3 * SAMPLES
    gc.collect()
    assert ring(loader).slots_held == 0


def test_an_interrupt_loses_no_slot(load: Load) -> None:
    """Ctrl-C may come between the arrival of a batch and the moment at which arrays stand for its slot."""
    loader = load(4, slots=3, timeout=PATIENCE, **OPTIONS)

    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    for _ in range(3):
        iteration = iter(loader)
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(ring(loader), "lend", interrupted)
            next(iteration)
    del iteration
    assert len(indices(loader)) == SAMPLES
    wait_for(lambda: loader.stats()["slots_lent"] == 0)


@pytest.mark.usefixtures("deaf")
def test_interrupts_at_any_moment(load: Load) -> None:
    """After each the loader can be iterated again, and nobody waits for a lock or for slots that are lost."""
    loader = load(4, slots=3, timeout=PATIENCE)
    moments = random.Random(1)

    class Interrupt(BaseException):
        pass

    def interrupt(number: int, frame: Any) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(150):
            with contextlib.suppress(Interrupt):
                signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-5, 8e-3))
                deque(loader, maxlen=0)
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with contextlib.suppress(Interrupt):  # what came in a finalizer, the next call raises
        iter(loader)
    loader.set_epoch(0)
    assert indices(loader) == list(range(SAMPLES))
    wait_for(lambda: loader.stats()["slots_lent"] == 0)


class Watchdog(TimeoutError):
    """What a handler of SIGALRM often raises; it is an OSError, too."""


@pytest.mark.parametrize("transport", ["shm", "socket"])
@pytest.mark.parametrize("raised", [KeyboardInterrupt, Watchdog])
@pytest.mark.usefixtures("deaf")
def test_an_iterator_goes_on_after_an_interrupt(
    load: Load, raised: type[BaseException], transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What a signal's handler raises in next() comes out of it, and the same batch comes next. The server is not lost."""
    goes_on_after_interrupts(load(1, subset=range(5), slots=3, transport=transport, **OPTIONS), raised)
    assert not caplog.records


@pytest.mark.usefixtures("deaf")
def test_an_iterator_goes_on_after_signals(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    loader = load(4, slots=3, timeout=PATIENCE, **OPTIONS)
    want = [copied(b) for _ in range(2) for b in loader]
    moments, inside, signals, got = random.Random(1), False, 0, []

    def interrupt(number: int, frame: Any) -> None:
        nonlocal signals, inside
        signals += 1
        if signals < 200:  # for ever, a slow machine would deliver no batch between two of them
            signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-5, 2e-3))
        if inside:
            inside = False
            raise Watchdog

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-3)
        while signals < 200:
            got.clear()
            loader.set_epoch(0)
            for _ in range(2):
                iteration = iter(loader)
                over = False
                while not over:
                    try:
                        inside = True
                        for batch in iteration:
                            inside = False
                            got.append(copied(batch))
                            inside = True
                        inside, over = False, True
                    except Watchdog:  # suppress() is a call, in which the next one may come
                        inside = False
            assert all(itertools.starmap(same, zip(got, want, strict=True)))
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # first: the handler sets the timer again
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    del batch
    assert len(indices(loader)) == SAMPLES  # a slot whose finalizer was ended by a signal comes back as an epoch begins
    wait_for(lambda: loader.stats()["slots_lent"] == 0)
    assert not caplog.records


def test_a_slot_whose_finalizer_was_ended_comes_back(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = load(4, slots=3, timeout=PATIENCE)
    with monkeypatch.context() as patch:
        patch.setattr(_Lease, "__del__", lambda lease: None)
        next(iter(loader))
    assert ring(loader).slots_held == 1
    assert indices(loader) == list(range(SAMPLES))
    wait_for(lambda: loader.stats()["slots_lent"] == 0)


def test_an_interrupt_while_a_slot_goes_back(load: Load) -> None:
    """It is on no list any more, and has not been sent: the next iteration has a ring of its own."""

    class Interrupting(dict[int, Any]):
        def pop(self, *key: Any) -> Any:
            super().pop(*key)
            raise KeyboardInterrupt

    loader = load(4, slots=3, timeout=PATIENCE)
    batch = next(iter(loader))
    before = ring(loader)
    before._held = Interrupting(before._held)
    (slot,) = before._held
    with pytest.raises(KeyboardInterrupt):
        before.take_back(slot)
    before._held = {}
    del batch
    assert indices(loader) == list(range(SAMPLES))
    assert ring(loader) is not before
    wait_for(lambda: loader.stats()["slots_lent"] == 0)


def test_the_callers_writes_harm_no_other_batch(load: Load) -> None:
    loader = load(4, slots=3, **OPTIONS)
    want = [copied(b) for b in loader]
    loader.set_epoch(0)
    for batch, expected in zip(loader, want, strict=True):
        assert same(batch, expected)
        for part in batch:
            part[...] = 77
