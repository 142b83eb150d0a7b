"""A CUDA device that is none: work is done as late as it may be, in order, when someone waits for it."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from imgfeed._epoch.cuda import CudaOutput

torch = pytest.importorskip("torch")


class Stream:
    """Work that waits to be done, in order."""

    current: "Stream | None" = None

    def __init__(self, device: Any = None) -> None:
        self.waiting: list[Callable[[], Any]] = []
        self.done = 0

    def run_until(self, count: int) -> None:
        while self.done < count:
            self.waiting[self.done]()
            self.waiting[self.done] = lambda: None  # lets go of what was copied
            self.done += 1

    def wait_event(self, event: "Event") -> None:
        event.synchronize()


class Event:
    """A point in a stream's work. It is reached only when someone waits for it: the slowest device there can be."""

    def record(self, stream: Stream) -> None:
        self.stream, self.point = stream, len(stream.waiting)

    def query(self) -> bool:
        return self.stream.done >= self.point

    def synchronize(self) -> None:
        self.stream.run_until(self.point)


@contextlib.contextmanager
def on_stream(stream: Stream) -> Iterator[None]:
    Stream.current = stream
    yield
    Stream.current = None


def late_copy(self: Any, tensor: Any) -> Any:
    target = torch.zeros_like(tensor)
    Stream.current.waiting.append(lambda: target.copy_(tensor))
    return target


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have torch find such a device, and the outputs copy to it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "stream", on_stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream())
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    monkeypatch.setattr(CudaOutput, "send", late_copy)
    monkeypatch.setattr(CudaOutput, "attach", lambda self, ring: None)
