"""The road to a GPU, on a device that is simulated: copies happen as late as they may, and must still find their data."""

import gc
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simulated_cuda
from conftest import RANDOM, SAMPLES, SMALL, copied, goes_on_after_interrupts, imgshard, listed, same

from imgfeed import CorruptError, DataLoader, ImgfeedError, TimeoutError  # noqa: A004
from imgfeed._epoch.cuda import CudaOutput

torch = pytest.importorskip("torch")
Load = Callable[..., DataLoader]


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated_cuda.install(monkeypatch)


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("slots", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("transport", ["shm", "socket"])
def test_a_slot_is_held_until_its_copy_is_done(load: Load, slots: int, transport: str) -> None:
    options: dict[str, Any] = {"transform": RANDOM, "shuffle": True, "with_params": True}
    device = load(8, framework="torch", device="cuda", slots=slots, transport=transport, **options)
    host = load(8, **options)
    for _ in range(2):
        count = 0
        for got, want in zip(device, host, strict=True):
            images, *rest = (t.numpy() for t in got)
            assert same((images.transpose(0, 2, 3, 1), *rest), want)
            assert device.state_dict() == host.state_dict()  # the batch that is prefetched is not counted
            count += len(images)
        assert count == SAMPLES
        assert device.state_dict() == host.state_dict()
    session = device._service.session()
    assert session.ring is None or session.ring.slots_held == 0


@pytest.mark.usefixtures("simulated")
def test_fields_are_copied_and_lists_are_left(images: Path, tmp_path: Path) -> None:
    raw = tmp_path / "train"
    shutil.copytree(images, raw)
    keys = (file.relative_to(raw).as_posix() for file in sorted(raw.rglob("*.JPEG")))
    values = {key: {"caption": f"{i} {i + 1}", "pair": [i, i + 1]} for i, key in enumerate(keys)}
    imgshard(
        "build", listed(raw, values), "-o", tmp_path / "set", "--field=caption=caption:text", "--field=pair=pair:float32[2]"
    )
    options: dict[str, Any] = {"transform": RANDOM, "target": "pair", "fields": ["caption"], "with_index": True}
    with (
        DataLoader(tmp_path / "set", 8, framework="torch", device="cuda", **options) as device,
        DataLoader(tmp_path / "set", 8, framework="numpy", **options) as host,
    ):
        for got, want in zip(device, host, strict=True):
            assert got[2] == want[2] and np.array_equal(got[1].numpy(), want[1]) and np.array_equal(got[3].numpy(), want[3])
            assert got[2] == [f"{a:.0f} {b:.0f}" for a, b in want[1]]


@pytest.mark.usefixtures("simulated")
def test_resuming_with_a_batch_under_way(load: Load) -> None:
    device, host = load(8, framework="torch", device="cuda"), load(8)
    iteration = iter(device)
    for _ in range(3):
        next(iteration)
    other = load(8, framework="torch", device="cuda")
    other.load_state_dict(device.state_dict())
    want = list(host)[3:]
    assert all(np.array_equal(a[2].numpy(), b[2]) for a, b in zip(other, want, strict=True))


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("error", [TimeoutError("late"), CorruptError("damaged")])
def test_what_goes_wrong_after_a_batch_leaves_it(load: Load, monkeypatch: pytest.MonkeyPatch, error: ImgfeedError) -> None:
    device, host = load(8, framework="torch", device="cuda"), list(load(8))
    iteration = iter(device)
    session = device._service.session()
    receive, errors = session.next, iter([None, error])

    def fail_once(timeout: float | None, *, watch: bool) -> Any:
        failed = next(errors, None)
        if failed is not None:
            raise failed
        return receive(timeout, watch=watch)

    monkeypatch.setattr(session, "next", fail_once)
    got = [next(iteration)]
    if isinstance(error, TimeoutError):
        got += iteration
        assert len(got) == len(host)
    else:
        with pytest.raises(CorruptError):
            next(iteration)
        assert device.state_dict()["consumed"] == 8
    assert all(np.array_equal(a[2].numpy(), b[2]) for a, b in zip(got, host, strict=False))


@pytest.mark.usefixtures("simulated", "deaf")
def test_an_iterator_goes_on_after_an_interrupt(load: Load) -> None:
    goes_on_after_interrupts(load(1, subset=range(4), framework="torch", device="cuda", slots=6), KeyboardInterrupt)


@pytest.mark.usefixtures("simulated")
def test_a_lost_server_costs_no_batch(shards: Path) -> None:
    """The cursor is that of the batch whose copy has begun, one after the caller's."""
    options: dict[str, Any] = {"with_index": True, "transform": RANDOM, "num_workers": 1, "slots": 3}
    with DataLoader(shards, 4, framework="numpy", **options) as host:
        want = [copied(batch) for batch in host]
    with DataLoader(shards, 4, framework="torch", device="cuda", **options) as device:
        got = []
        for n, (images, *rest) in enumerate(device):
            got.append((images.numpy().transpose(0, 2, 3, 1).copy(), *(t.numpy().copy() for t in rest)))
            if n in (2, 11):
                os.kill(device._service.server.process.pid, signal.SIGKILL)
        assert device.stats()["reconnects"] == 2
    assert all(same(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.usefixtures("simulated")
def test_copies_are_done_before_their_memory_goes(socket: str) -> None:
    loader = DataLoader(socket, 8, transform=SMALL, framework="torch", device="cuda")
    output = loader._output
    assert isinstance(output, CudaOutput)
    stream: Any = output._stream
    del output
    next(iter(loader))
    assert stream.done < len(stream.waiting)
    del loader
    gc.collect()
    assert stream.done == len(stream.waiting)
