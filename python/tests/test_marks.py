"""Signals, threads and the caller move a loader, each at any moment, and no move is lost."""

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import PATIENCE, SAMPLES, indices

from imgfeed import DataLoader, ImgfeedError

Load = Callable[..., DataLoader]
BATCHES = -(-SAMPLES // 8)


class Watchdog(Exception):
    """What a handler raises."""


class Handlers:
    """Handlers of a signal, in each form that Python takes."""

    def method(self, number: int, frame: Any) -> None:
        raise Watchdog

    def __call__(self, *of: Any) -> None:
        helper()


def helper() -> None:
    raise Watchdog


def function(number: int, frame: Any) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    raise Watchdog


HANDLERS: dict[str, Any] = {
    "function": function,
    "any arguments": lambda *of: helper(),
    "method": Handlers().method,
    "object": Handlers(),
    "partial": functools.partial(lambda text, number, frame: helper(), "late"),
}


@pytest.fixture
def alarmed() -> Iterator[Callable[[Any], None]]:
    """Sets the handler of SIGUSR1."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, handler) and None
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("caught", [False, True])
def test_a_signal_in_collate_fn_loses_no_batch(load: Load, alarmed: Callable[[Any], None], handler: str, caught: bool) -> None:
    alarms = {2, 5, BATCHES}

    def collate(rows: list[Any]) -> list[int]:
        if len(got) + 1 in alarms:
            alarms.remove(len(got) + 1)
            alarmed(HANDLERS[handler])
            try:
                signal.raise_signal(signal.SIGUSR1)
            except Watchdog as e:
                if caught:
                    raise RuntimeError("a batch that was broken off") from e
                raise
        return [int(row[2]) for row in rows]

    got: list[list[int]] = []
    loader = load(8, collate_fn=collate)
    iteration = iter(loader)
    while len(iteration):
        before = loader.state_dict()
        try:
            got.append(next(iteration))
        except (Watchdog, RuntimeError):
            assert loader.state_dict() == before and len(iteration) == BATCHES - len(got)
    assert [i for batch in got for i in batch] == list(range(SAMPLES)) and not alarms


def test_a_collate_fn_that_fails_is_not_called_with_the_same_batch_again(load: Load) -> None:
    def collate(rows: list[Any]) -> int:
        if rows[0][2] in (8, SAMPLES // 8 * 8):
            raise Watchdog
        return int(rows[0][2])

    loader = load(8, collate_fn=collate)
    iteration, got = iter(loader), []
    while len(iteration):
        try:
            got.append(next(iteration))
        except Watchdog:
            got.append(-1)
    assert got == [-1 if at in (1, BATCHES - 1) else 8 * at for at in range(BATCHES)]
    assert next(iteration, None) is None and loader.state_dict()["epoch"] == 1


class Stopped:
    """A collate_fn that lets a thread stand still in next(), once the caller has it so."""

    def __init__(self) -> None:
        self.inside, self.go, self.waits = threading.Event(), threading.Event(), False

    def __call__(self, rows: list[Any]) -> list[int]:
        if self.waits:
            self.waits = False
            self.inside.set()
            assert self.go.wait(PATIENCE)
        return [int(row[2]) for row in rows]

    def within(self, iteration: Any, act: Callable[[], Any]) -> list[int]:
        """Return the batch that a thread got from next() while this one acted."""
        got: list[list[int]] = []
        self.waits = True
        thread = threading.Thread(target=lambda: got.append(next(iteration)))
        thread.start()
        assert self.inside.wait(PATIENCE)
        act()
        self.go.set()
        thread.join()
        return got[0]


def stopped(load: Load) -> tuple[DataLoader, Any, Stopped]:
    """Return a loader, three batches into epoch 0, and what stops its next one."""
    collate = Stopped()
    loader = load(8, collate_fn=collate)
    iteration = iter(loader)
    for _ in range(3):
        next(iteration)
    return loader, iteration, collate


def test_a_state_loaded_while_a_thread_waits_for_a_batch(load: Load) -> None:
    loader, iteration, collate = stopped(load)
    state = {**loader.state_dict(), "consumed": 8}
    assert collate.within(iteration, lambda: loader.load_state_dict(state)) == list(range(24, 32))
    assert loader.state_dict() == state
    next(iteration)  # which runs on, and moves nothing
    assert loader.state_dict() == state
    assert next(iter(loader)) == list(range(8, 16))


def test_an_iteration_begun_while_a_thread_waits_for_a_batch(load: Load) -> None:
    loader, iteration, collate = stopped(load)
    begun: list[Any] = []
    collate.within(iteration, lambda: begun.extend([iter(loader), next(iter(loader))]))
    assert (loader.state_dict()["epoch"], loader.state_dict()["consumed"]) == (1, 8)
    with pytest.raises(ImgfeedError, match="a newer iteration of this loader has ended this one: threads share"):
        next(iteration)


def test_a_skip_while_a_thread_waits_for_a_batch(load: Load) -> None:
    loader, iteration, collate = stopped(load)
    assert collate.within(iteration, lambda: loader.skip(4)) == list(range(24, 32))
    assert loader.state_dict()["consumed"] == 56 and next(iteration) == list(range(56, 64))
    assert loader.state_dict()["consumed"] == 64


def test_an_epoch_set_while_a_thread_waits_for_a_batch(load: Load) -> None:
    loader, iteration, collate = stopped(load)
    collate.within(iteration, lambda: loader.set_epoch(7))
    assert loader.state_dict()["consumed"] == 32  # the caller's next iteration is epoch 7, and this one runs
    list(iteration)
    assert loader.sampler.epoch == 7


def test_a_state_loaded_while_an_iteration_begins(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller says last holds."""
    loader = load(8)
    state, session = {**loader.state_dict(), "epoch": 3, "consumed": 16}, loader._service.session()
    start = session.start

    def start_and_load(*position: Any) -> Any:
        running = start(*position)
        monkeypatch.setattr(session, "start", start)
        loader.load_state_dict(state)
        return running

    monkeypatch.setattr(session, "start", start_and_load)
    iteration = iter(loader)
    assert loader.state_dict() == state and indices(iteration) == list(range(16, SAMPLES))
    assert loader.state_dict()["epoch"] == 4


@pytest.mark.parametrize("options", [{}, {"map": lambda image: image}])
def test_threads_that_begin_one_loader(load: Load, options: dict[str, Any]) -> None:
    """One of them has the epoch; each of the others gets one error, which says why."""
    loader, threads = load(8, **options), 3
    for _ in range(20):
        barrier, ended = threading.Barrier(threads), []

        def work(barrier: Any = barrier, ended: list[Any] = ended) -> None:
            barrier.wait()
            try:
                ended.append(indices(loader))
            except ImgfeedError as e:
                ended.append(str(e))

        working = [threading.Thread(target=work) for _ in range(threads)]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()
        assert list(range(SAMPLES)) in ended
        wrong = [end for end in ended if end != list(range(SAMPLES)) and "newer iteration of this loader has ended" not in end]
        assert len(ended) == threads and not wrong
