"""map= and map_batch= where iterations end early, functions misbehave, and signals arrive: the right batches, or a MapError."""

import contextlib
import gc
import itertools
import mmap
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import PATIENCE, RANDOM, SAMPLES, alive, copied, goes_on_after_interrupts, same, script, wait_for

from imgfeed import DataLoader, MapError, from_torch

Array = npt.NDArray[Any]
OPTIONS: dict[str, Any] = {"transform": RANDOM, "shuffle": True, "seed": 5, "framework": "numpy", "num_workers": 1}
#: With one process that runs the function, where a second one shows nothing more.
ALONE: dict[str, Any] = {**OPTIONS, "map_workers": 1}


class Interrupt(Exception):
    """A signal's handler raises it."""


def brighter(image: Array) -> Array:
    """Change the image in place, slowly: a process that still works on it when the slot has other pixels changes those."""
    time.sleep(0.004)
    image += np.uint8(1)
    return image


def brighter_batch(images: Array) -> Array:
    time.sleep(0.03)
    images += np.uint8(1)
    return images


def in_order(loader: DataLoader, epoch: int) -> list[Any]:
    loader.set_epoch(epoch)
    return [copied(batch) for batch in loader]


def leave_by_break(loader: DataLoader) -> None:
    for _ in loader:
        break


def leave_by_error(loader: DataLoader) -> None:
    with contextlib.suppress(ZeroDivisionError):
        for _ in loader:
            raise ZeroDivisionError


def leave_by_skip(loader: DataLoader) -> None:
    iteration = iter(loader)
    next(iteration)
    loader.skip(2)
    next(iteration)


@pytest.mark.parametrize("slots", [3, 0])
@pytest.mark.parametrize("of", [{"map": brighter}, {"map_batch": brighter_batch}])
def test_an_iteration_left_early_changes_no_later_batch(shards: Path, slots: int, of: dict[str, Any]) -> None:
    leaves = (leave_by_break, leave_by_error, leave_by_skip, lambda loader: next(iter(loader)))
    with (
        DataLoader(shards, 16, slots=slots, map_workers=3, **of, **OPTIONS) as loader,
        DataLoader(shards, 16, **OPTIONS) as plain,
    ):
        for epoch, leave in enumerate(leaves):
            want = [(images + np.uint8(1), labels) for images, labels in in_order(plain, epoch)]
            loader.set_epoch(epoch)
            leave(loader)
            assert all(itertools.starmap(same, zip(in_order(loader, epoch), want, strict=True)))


def test_any_number_of_iterations_may_be_left(shards: Path) -> None:
    with DataLoader(shards, 8, map=lambda image: image, **OPTIONS) as loader, DataLoader(shards, 8, **OPTIONS) as plain:
        want = in_order(plain, 0)
        held = []
        for _ in range(10):
            loader.set_epoch(0)
            held.append(next(iter(loader)))
        loader.set_epoch(0)
        held += list(loader)
        assert all(same(batch, want[0]) for batch in held[:11]), "they are the caller's, however many"
        assert all(itertools.starmap(same, zip(held[10:], want, strict=True)))


def test_a_handlers_exception_beside_a_slow_process(shards: Path) -> None:
    """The process goes on for a while with a batch that the caller asks for again, and spoils neither that nor others."""
    slow = mmap.mmap(-1, 2)

    def numbered(images: Array, indices: Array) -> Array:
        if indices[0] == 50 and not slow[0]:
            slow[0] = 1
            wait_for(lambda: slow[1])
            return np.full_like(images, 255)
        images[:] = indices.astype(np.uint8)[:, None, None, None]
        return images

    def interrupt(*_: object) -> None:
        raise Interrupt

    options = {**OPTIONS, "shuffle": False, "with_index": True}
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with DataLoader(shards, 5, map_batch=numbered, map_workers=4, **options) as loader:
            iteration = iter(loader)
            held = [next(iteration) for _ in range(10)]
            wait_for(lambda: slow[0])
            with pytest.raises(Interrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                next(iteration)
            threading.Timer(0.8, slow.__setitem__, (1, 1)).start()
            held += list(iteration)
            time.sleep(1)  # the process that fe78ee5 left to itself would have written by now
            assert [int(i) for _, _, indices in held for i in indices] == list(range(SAMPLES))
            for images, _, indices in held:
                assert (images == indices[:, None, None, None]).all()
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("deaf")
def test_handlers_may_raise_anywhere(load: Callable[..., DataLoader]) -> None:
    goes_on_after_interrupts(load(2, subset=range(6), map_workers=1, map=lambda image: image), Interrupt)


def shape_of(image: Array) -> tuple[Array, Array]:
    return image[:, :20], np.array([*image.shape, *image[3, 5]])


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_functions_get_images_in_one_layout(shards: Path, framework: str) -> None:
    torch = pytest.importorskip("torch")
    options = {**ALONE, "framework": framework, "layout": "NCHW"}

    def as_tensor(image: Array) -> Any:
        return torch.from_numpy(shape_of(image)[0]).permute(2, 0, 1)

    with (
        DataLoader(shards, 8, map=shape_of, **options) as loader,
        DataLoader(shards, 8, map=as_tensor, **options) as tensors,
        DataLoader(shards, 8, map_batch=lambda images: images[:, :, :20], **options) as batches,
        DataLoader(shards, 8, **options) as plain,
    ):
        for (images, shapes), (made, _), (whole, _), (want, _) in zip(loader, tensors, batches, plain, strict=True):
            for one in (images, made, whole):
                assert np.array_equal(one, want[:, :, :, :20])
            assert type(images) is type(want)
            assert np.array_equal(shapes[:, :3], [[32, 32, 3]] * len(shapes))
            assert np.array_equal(shapes[:, 3:], want[:, :, 3, 5])


def test_a_torch_loaders_own_step_gets_images_in_one_layout(images: Path, tmp_path: Path) -> None:
    data, sets = pytest.importorskip("torch.utils.data"), pytest.importorskip("torchvision.datasets")
    t = pytest.importorskip("torchvision.transforms")
    steps = [t.Resize(40), t.CenterCrop(32), lambda image: image.crop((0, 0, 8, 16)), t.ToTensor()]
    theirs = data.DataLoader(sets.ImageFolder(str(images), t.Compose(steps)), 5)
    with from_torch(theirs, cache=tmp_path, layout="NCHW", same_order=True) as loader:
        for (got, labels), (want, want_labels) in zip(loader, theirs, strict=True):
            assert got.shape == want.shape and (got - want).abs().max() < 1e-6
            assert labels.tolist() == want_labels.tolist()


@pytest.mark.parametrize(
    ("first", "other", "says"),
    [
        (1, 0.9, r"float64 of shape \(\), want int64 of shape \(\): all results must be alike"),
        (1, float("nan"), "float64"),
        (1, True, "bool"),
        ("ele", 5, r"int64 of shape \(\), want text of shape \(\)"),
        ([1, 2], 3, r"int64 of shape \(\), want int64 of shape \(2,\)"),
        ([1, 2], [3], r"int64 of shape \(1,\), want int64 of shape \(2,\)"),
        (1, None, "it returned NoneType"),
        (1, {"x": 3}, "it returned dict"),
        ("x", "x" * 5000, "a label of 5,000 bytes: a text has at most 4,092"),
        (np.zeros((4, 4, 3)), np.zeros((4, 4, 3), np.float32), r"float32 of shape \(4, 4, 3\), want float64"),
        (np.zeros((4, 4, 3)), np.zeros((4, 4, 1)), r"\(4, 4, 1\), want float64 of shape \(4, 4, 3\)"),
        (np.zeros((4, 4, 3)), np.zeros((1, 4, 3)), r"\(1, 4, 3\), want"),
        (np.zeros(3), np.longdouble(3), "it returned (float128|longdouble)"),
        (np.zeros(3), np.zeros(3, ">f8"), "it returned >f8"),
        (np.zeros(3), None, "it returned NoneType"),
    ],
)
def test_nothing_is_cast_cut_or_broadcast(shards: Path, first: Any, other: Any, says: str) -> None:
    """A result unlike the first one is an error that names the sample, and both."""

    def function(image: Array, index: int) -> Any:
        made = other if index == 60 else first
        return made if isinstance(first, np.ndarray) else (image, made)

    with DataLoader(shards, 8, map=function, **OPTIONS) as loader, pytest.raises(MapError) as error:
        list(loader)
    assert re.search(rf"(?s)at sample 60 \(n9.*\):\n.*{says}", str(error.value))


@pytest.mark.parametrize("made", [np.zeros(3, np.longdouble), np.zeros(3, ">i4"), np.zeros(3, "M8[s]"), b"x", ["x"], [{}]])
def test_types_that_no_batch_has(shards: Path, made: Any) -> None:
    for function in (lambda image: made, lambda image: (image, made)):
        with DataLoader(shards, 8, map=function, **ALONE) as loader, pytest.raises(MapError, match="want numbers of a type"):
            next(iter(loader))


def test_nothing_is_cast_cut_or_broadcast_in_batches(shards: Path) -> None:
    """Nor are there more or fewer results than samples."""
    halves, four = np.full(8, 0.5), np.full((4, 32, 32, 3), 7, np.uint8)
    for made in (lambda x: (x, halves[:1]), lambda x: (x, 0.5), lambda x: (x, "a"), lambda x: (x, ["a"]), lambda x: four, len):
        with DataLoader(shards, 8, map_batch=made, **OPTIONS) as loader, pytest.raises(MapError, match="it returned"):
            list(loader)
    for other in (halves, [["a"]] * 8, ["a"] * 8, [[1]] * 8):

        def function(images: Array, labels: Array, indices: Array, other: Any = other) -> Any:
            return images, other if 60 in indices else labels

        with DataLoader(shards, 8, map_batch=function, **OPTIONS) as loader:
            assert len(next(iter(loader))) == 2
            with pytest.raises(MapError, match=r"(?s)at the batch of sample \d+ \(n9.*it returned"):
                list(loader)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_texts_as_labels(shards: Path, framework: str) -> None:
    if framework == "torch":
        pytest.importorskip("torch")
    options = {**ALONE, "framework": framework, "with_index": True}
    text = "größer "
    with (
        DataLoader(shards, 8, map=lambda image, index: (image, text * index), **options) as loader,
        DataLoader(
            shards, 8, map_batch=lambda images, indices: (images, [text * int(i) for i in indices]), **options
        ) as batches,
    ):
        for _, texts, indices in itertools.chain(loader, batches):
            assert texts == [text * int(i) for i in indices]


@pytest.mark.parametrize(("framework", "layout"), [("numpy", "NCHW"), ("torch", "NHWC")])
def test_results_that_are_no_images_come_as_they_are(shards: Path, framework: str, layout: str) -> None:
    torch = pytest.importorskip("torch")
    made: list[Callable[[Array], Any]] = [
        lambda image: image[0, :, 0] / 255,
        lambda image: image[:, :, 1],
        lambda image: np.stack([image[:8], image[8:16]]),
        lambda image: torch.from_numpy(image[:, :, 0].astype(np.float32)),
        lambda image: torch.stack([torch.from_numpy(image[:8]), torch.from_numpy(image[8:16])]),
        lambda image: image.sum(dtype=np.int64),
    ]
    with DataLoader(shards, 8, subset=0.2, **OPTIONS) as loader:
        plain = in_order(loader, 0)
    for function in made:
        with DataLoader(shards, 8, subset=0.2, map=function, **{**ALONE, "framework": framework, "layout": layout}) as loader:
            for (got, _), (images, _) in zip(loader, plain, strict=True):
                want = np.stack([np.asarray(function(image)) for image in images])
                assert (type(got) is torch.Tensor) == (framework == "torch")
                assert np.asarray(got).dtype == want.dtype and np.array_equal(got, want)
    with (
        DataLoader(shards, 8, map=made[1], normalize="imagenet", num_workers=1, transform=RANDOM) as loader,
        pytest.raises(ValueError, match=r"^imgfeed: normalize= takes images of shape \(H, W, 3\), and .* \(8, 32, 32\)"),
    ):
        list(loader)


def test_torchs_own_types(shards: Path) -> None:
    torch = pytest.importorskip("torch")
    options = {**ALONE, "framework": "torch", "subset": 0.1}
    for dtype in (np.bool_, np.int8, np.int64, np.float16, np.float64, np.complex64):
        with DataLoader(shards, 8, map=lambda image, dtype=dtype: image.astype(dtype), **options) as loader:
            assert all(images.dtype == torch.from_numpy(np.zeros(1, dtype)).dtype for images, _ in loader)
    with (
        DataLoader(shards, 8, map=lambda image: torch.zeros(3, dtype=torch.bfloat16), **options) as loader,
        pytest.raises(MapError, match="BFloat16"),
    ):
        list(loader)


def test_the_function_never_runs_in_the_callers_process(shards: Path) -> None:
    torch = pytest.importorskip("torch")
    here = os.getpid()

    def seeds(image: Array, rng: np.random.Generator) -> Array:
        assert os.getpid() != here
        torch.manual_seed(int(rng.integers(2**63)))
        return image

    def seeds_batch(images: Array, rng: np.random.Generator) -> Array:
        return seeds(images, rng)

    for of in ({"map": seeds}, {"map_batch": seeds_batch}):
        torch.manual_seed(17)
        with DataLoader(shards, 8, **of, **OPTIONS) as loader:
            assert len(list(loader)) == len(loader)
        assert torch.initial_seed() == 17


def test_timeout_bounds_one_call(shards: Path) -> None:
    """A batch may take longer, and so may what an iteration that was left had asked for."""

    def slow(image: Array) -> Array:
        time.sleep(0.04)
        return image

    with DataLoader(shards, 35, map=slow, map_workers=1, timeout=1, subset=range(70), **OPTIONS) as loader:
        assert len(next(iter(loader))[1]) == 35
        assert sum(len(labels) for _, labels in loader) == 70


def test_errors_come_in_order(shards: Path) -> None:
    """Batches before one that fails are delivered, though processes have failed at it by then."""

    def fails(image: Array, index: int) -> Array:
        assert index != 50
        return image

    with DataLoader(shards, 8, map=fails, **{**OPTIONS, "shuffle": False}) as loader:
        for _ in range(2):
            loader.set_epoch(0)
            iteration = iter(loader)
            for _ in range(6):
                next(iteration)
                time.sleep(0.02)
            with pytest.raises(MapError, match="at sample 50 "):
                next(iteration)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda: 3, "too many positional arguments; its parameters may be image, label, target, rng, index, view"),
        (lambda x, y: x, "missing a required argument: 'y'; its parameters may be image, label, target, rng, index, view"),
        (lambda x, rng=None: x, "missing a required argument: 'x'"),
        (lambda image, /: image, ".*image"),
    ],
)
def test_functions_that_can_not_be_called(shards: Path, function: Any, says: str) -> None:
    with pytest.raises(TypeError, match=rf"^imgfeed: map's function can't be called: {says}"):
        DataLoader(shards, 8, map=function, **OPTIONS)


def test_parameters_with_defaults_and_without_names(shards: Path) -> None:
    options = {**ALONE, "with_index": True, "subset": 0.2}
    with DataLoader(shards, 8, map=lambda index=0: np.array([index]), **options) as loader:
        for made, _, indices in loader:
            assert np.array_equal(made[:, 0], indices)
    with (
        DataLoader(shards, 8, map=lambda picture: picture + None, **options) as loader,
        pytest.raises(MapError, match=r"called with the image alone: it has no parameter named image, label, target, rng"),
    ):
        list(loader)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def test_signals_are_for_the_caller(shards: Path) -> None:
    """Processes ignore a notice to the whole job, and run none of the caller's handlers, whenever these were set."""
    ran = mmap.mmap(-1, 1)
    before = {p.pid for p in multiprocessing.active_children()}

    def note(*_: object) -> None:
        ran[0] += 1

    def slow(image: Array) -> Array:
        time.sleep(0.002)
        return image

    handlers = {number: signal.signal(number, note) for number in (*SIGNALS[:3], signal.SIGALRM)}
    try:
        with DataLoader(shards, 8, map=slow, **OPTIONS) as loader:
            iteration = iter(loader)
            count = len(next(iteration)[1])
            handlers |= {number: signal.signal(number, note) for number in SIGNALS[3:]}
            for process in multiprocessing.active_children():
                for number in (*SIGNALS, signal.SIGALRM):
                    if process.pid not in before:
                        os.kill(process.pid or 0, number)
            assert count + sum(len(labels) for _, labels in iteration) == SAMPLES
        assert ran[0] == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert ran[0] == 1, "the caller's are as they were"
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


HANGS = """
import os, sys, time
from imgfeed import DataLoader
begun, begins = os.pipe()
def hangs(image, index):
    if index == 20:
        os.write(begins, str(os.getpid()).encode())
        time.sleep(100)
    return image
options = {"framework": "numpy", "transform": [{"op": "CenterCrop", "size": 32}], "num_workers": 1}
loader = DataLoader(sys.argv[1], 8, map=hangs, map_workers=2, **options)
iteration = iter(loader)
next(iteration)
print(os.read(begun, 20).decode(), flush=True)
if sys.argv[2] == "wait":
    list(iteration)
"""


@pytest.mark.parametrize("how", ["wait", "end"])
def test_processes_end_with_the_caller(shards: Path, how: str) -> None:
    """Even in the middle of a call: where it is killed, and where it ends by itself."""
    with script(HANGS, str(shards), how) as caller:
        worker = int(caller.stdout.readline())
        if how == "wait":
            caller.kill()
        caller.wait(timeout=PATIENCE)
        wait_for(lambda: not alive(worker))


def test_processes_end_with_the_loader(shards: Path) -> None:
    before = {p.pid for p in multiprocessing.active_children()}
    loader = DataLoader(shards, 8, map=brighter, **OPTIONS)
    batch = next(iter(loader))
    want = copied(batch)
    del loader
    gc.collect()
    assert {p.pid for p in multiprocessing.active_children()} == before
    assert same(batch, want)
