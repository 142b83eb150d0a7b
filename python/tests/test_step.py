"""map=: a caller's own function on each sample, in processes of the loader."""

import copy
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import RANDOM, SAMPLES, imgshard

from imgfeed import DataLoader, MapError
from imgfeed._map.step import wants

Array = npt.NDArray[Any]
OPTIONS: dict[str, Any] = {"transform": RANDOM, "shuffle": True, "seed": -3, "framework": "numpy", "num_workers": 1}
SEED = -3 & ((1 << 64) - 1)


def noisy(image: Array, label: int, rng: np.random.Generator, index: int) -> tuple[Array, int]:
    """Change the image in place, give another size and type, and another label."""
    image[:2] = rng.integers(0, 256, image[:2].shape, np.uint8)
    return image[:, 4:].astype(np.float32) / 2, 1000 * label + index


def gather(loader: DataLoader, epoch: int = 0) -> list[list[Array]]:
    loader.set_epoch(epoch)
    return [[np.array(column) for column in batch] for batch in loader]


def same(a: list[list[Array]], b: list[list[Array]]) -> bool:
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and bool((x == y).all())
        for one, two in zip(a, b, strict=True)
        for x, y in zip(one, two, strict=True)
    )


def by_hand(shards: Path, batch_size: int, epoch: int) -> list[list[Array]]:
    """Return what noisy makes, called here."""
    made = []
    with DataLoader(shards, batch_size, with_index=True, **OPTIONS) as loader:
        for images, labels, indices in gather(loader, epoch):
            done = [
                noisy(image, label, np.random.default_rng([SEED, epoch, index, 0, 0]), index)
                for image, label, index in zip(images, labels.tolist(), indices.tolist(), strict=True)
            ]
            made.append([np.stack([image for image, _ in done]), np.array([label for _, label in done])])
    return made


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("transport", ["shm", "socket"])
def test_it_is_the_function_on_each_sample(shards: Path, workers: int, transport: str) -> None:
    with DataLoader(shards, 8, map=noisy, map_workers=workers, transport=transport, **OPTIONS) as loader:
        for epoch in (0, 2):
            assert same(gather(loader, epoch), by_hand(shards, 8, epoch))
        kept = list(loader)  # more than there are buffers
        assert same(kept, by_hand(shards, 8, 3))
    assert same(kept, by_hand(shards, 8, 3)), "they outlive the loader"


def test_resume_at_each_batch(shards: Path) -> None:
    with DataLoader(shards, 16, map=noisy, **OPTIONS) as loader:
        whole, states = [], []
        for batch in loader:
            whole.append([np.array(column) for column in batch])
            states.append(loader.state_dict())
        for done, state in enumerate(states[:-1], 1):
            loader.load_state_dict(state)
            assert same([[np.array(column) for column in batch] for batch in loader], whole[done:])
        iteration = iter(loader)
        next(iteration)
        loader.skip(2)
        assert len(list(iteration)) == len(whole) - 3


def test_a_lost_server_changes_nothing(shards: Path) -> None:
    with DataLoader(shards, 8, map=noisy, slots=3, **OPTIONS) as loader:
        got = []
        for batch in loader:
            got.append([np.array(column) for column in batch])
            if len(got) == 4:
                os.kill(loader._service.server.process.pid, signal.SIGKILL)
        assert same(got, by_hand(shards, 8, 0))
        assert loader.stats()["reconnects"] == 1


def test_whole_images(shards: Path) -> None:
    def corner(image: Array, rng: np.random.Generator, label: int) -> Any:
        assert image.dtype == np.uint8 and image.shape[2] == 3 and min(image.shape[:2]) > 32
        image[:2] = 0  # which is the function's own
        top, left = (int(rng.integers(side - 32)) for side in image.shape[:2])
        return image[top : top + 32, left : left + 32], label + 1000

    plain = {"framework": "numpy", "shuffle": True, "seed": 3, "num_workers": 1, "with_index": True}
    with DataLoader(shards, 8, map=corner, decode="full", **plain) as loader:
        got = [[np.array(column) for column in batch] for batch in loader]
        for images, labels, indices in got:
            for image, label, index in zip(images, labels, indices, strict=True):
                whole = np.array(loader.dataset[int(index)][0])
                rng = np.random.default_rng([3, 0, int(index), 0, 0])
                want, want_label = corner(whole, rng, int(loader.dataset.targets[index]))
                assert np.array_equal(image, want) and label == want_label
        with pytest.raises(ValueError, match="there is no transform to change"):
            loader.set_transform("eval")
        copy.copy(loader).close()
        loader.set_epoch(0)
        iteration = iter(loader)
        first = [np.array(column) for column in next(iteration)]
        loader._service.server.kill()
        rest = [[np.array(column) for column in batch] for batch in iteration]
        assert same([first, *rest], got)
    wrong = ({"transform": "train"}, {"on_error": "blank"}, {"size": 64}, {"with_params": True}, {"with_params": "records"})
    for given in ({}, {"map_batch": corner}, *({"map": corner, **one} for one in wrong)):
        with pytest.raises(ValueError, match="decode='full' gives whole images to map="):
            DataLoader(shards, 8, decode="full", **given)


def test_views_and_tensors(shards: Path) -> None:
    torch = pytest.importorskip("torch")
    views = {"views": [[{"op": "CenterCrop", "size": 32}], {"repeat": 2, "ops": [{"op": "RandomResizedCrop", "size": 24}]}]}

    def flip(image: Array, view: int) -> Any:
        return torch.from_numpy(image).permute(2, 0, 1).float() * (view + 1)

    plain = {"transform": views, "seed": 3, "num_workers": 1}
    with DataLoader(shards, 8, **plain) as loader:
        want = [[view.float() * (v + 1) for v, view in enumerate(images)] for images, _ in loader]
    with DataLoader(shards, 8, map=flip, **plain) as loader:
        got = [list(images) for images, _ in loader]
    assert all(torch.equal(x, y) for a, b in zip(got, want, strict=True) for x, y in zip(a, b, strict=True))
    with DataLoader(shards, 8, transform=RANDOM, map=lambda image: image[::2], normalize="imagenet", num_workers=1) as loader:
        images, _ = next(iter(loader))
        assert images.dtype == torch.float32 and images.shape[1] == 3


def gone(before: set[int]) -> bool:
    return {p.pid for p in multiprocessing.active_children()} <= before


def failing(how: Callable[[], Any]) -> Callable[..., Array]:
    once = multiprocessing.get_context("fork").Value("i", 0)

    def function(image: Array, index: int) -> Array:
        if index == 7 and not once.value:
            once.value = 1
            how()
        return image

    return function


def raises() -> None:
    raise ZeroDivisionError("nothing to divide")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (raises, r"sample 7 \(n9.*\):\n(.|\n)*ZeroDivisionError: nothing to divide"),
        (lambda: os._exit(0), r"sample 7 \(n9.*\):\nit ended its process \(exit status 0\)"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), r"sample 7 \(n9.*\):\nit ended its process \(exit status -9\)"),
        (sys.exit, r"sample 7 \(n9.*\):\n(.|\n)*SystemExit"),
        (lambda: time.sleep(100), r"sample 7 \(n9.*\):\nit has not returned for 1.5 s"),
    ],
)
def test_a_function_that_fails(shards: Path, how: Callable[[], Any], says: str) -> None:
    before = {p.pid or 0 for p in multiprocessing.active_children()}
    with DataLoader(shards, 8, map=failing(how), timeout=1.5, **OPTIONS) as loader:
        with pytest.raises(MapError, match=says):
            list(loader)
        assert sum(len(labels) for _, labels in loader) == SAMPLES, "the next iteration starts others"
        assert len(multiprocessing.active_children()) >= 2
    assert gone(before)


def test_what_functions_may_be(shards: Path) -> None:
    assert wants("map", noisy) == ("image", "label", "rng", "index")
    assert wants("map", lambda x: x) == ("",) == wants("map_batch", np.ascontiguousarray)
    assert wants("map", lambda image, other=3: image) == ("image",)
    for wrong, says in ((lambda _: None, "returned NoneType"), (lambda image, index: image[: 3 + index % 2], "must be alike")):
        with DataLoader(shards, 8, map=wrong, **OPTIONS) as loader, pytest.raises(MapError, match=says):
            list(loader)


def of_batch(images: Array, labels: Array, rng: np.random.Generator, indices: Array) -> tuple[Array, Array]:
    """Mix each image with the one before it, by one share for the batch."""
    share = rng.random()
    mixed = share * images + (1 - share) * np.roll(images, 1, axis=0)
    return mixed[:, 2:].astype(np.float32), np.stack([labels, np.roll(labels, 1), indices], axis=1)


@pytest.mark.parametrize("transport", ["shm", "socket"])
def test_a_function_of_whole_batches(shards: Path, transport: str) -> None:
    want = []
    with DataLoader(shards, 8, with_index=True, **OPTIONS) as loader:
        for images, labels, indices in gather(loader):
            rng = np.random.default_rng([SEED, 0, int(indices[0]), 0, 0])
            want.append(list(of_batch(images, labels, rng, indices)))
    with DataLoader(shards, 8, map_batch=of_batch, map_workers=3, transport=transport, **OPTIONS) as loader:
        assert same(gather(loader), want)
        loader.set_epoch(0)
        iteration = iter(loader)
        next(iteration)
        state = loader.state_dict()
        loader.load_state_dict(state)
        assert same([[np.array(column) for column in batch] for batch in loader], want[1:])
    torch = pytest.importorskip("torch")
    with (
        DataLoader(
            shards, 8, map_batch=lambda images: torch.from_numpy(images).permute(0, 3, 1, 2).flip(3), **OPTIONS
        ) as loader,
        DataLoader(shards, 8, **OPTIONS) as plain,
    ):
        for (flipped, labels), (images, plain_labels) in zip(loader, plain, strict=True):
            assert np.array_equal(flipped, images[:, :, ::-1])
            assert np.array_equal(labels, plain_labels)
    for wrong, says in (
        (lambda images: images[1:], "as many as there were"),
        (lambda images, indices: images[: -1 if 7 in indices else None], "the batch of sample"),
    ):
        with DataLoader(shards, 8, map_batch=wrong, **OPTIONS) as loader, pytest.raises(MapError, match=says):
            list(loader)


def test_fields_and_params(images: Path, tmp_path: Path) -> None:
    """They are the sample's own, of any kind, in the ring and through a socket."""
    rows = [f"{path.relative_to(images)},{n % 3},{n / 4},text {n * n}" for n, path in enumerate(sorted(images.rglob("*.JPEG")))]
    (tmp_path / "list.csv").write_text("\n".join(["path,label,score,caption", *rows]))
    imgshard(
        "build", tmp_path / "list.csv", "--images", images, "-o", tmp_path / "set", "--field", "score=score:float32",
        "--field", "caption=caption:text",
    )  # fmt: skip
    for transport in ("shm", "socket"):
        options: dict[str, Any] = {**OPTIONS, "fields": ["caption", "score"], "with_params": True, "transport": transport}

        def labelled(image: Array, fields: dict[str, Any], params: Array) -> tuple[Array, Any]:
            number = round(4 * float(fields["score"]))
            assert fields["caption"] == f"text {number * number}"
            return image, [number, *params.tolist()]

        with DataLoader(tmp_path / "set", 8, map=labelled, **options) as loader:
            for _, labels, captions, scores, params in loader:
                assert captions == [f"text {n * n}" for n in labels[:, 0].tolist()]
                assert np.array_equal(labels[:, 0], (4 * scores).astype(int))
                assert np.array_equal(labels[:, 1:], params)
    for name, how in (("fields", "fields="), ("params", "with_params=True")):
        with pytest.raises(TypeError, match=f"wants {name}: give the loader {how}"):
            DataLoader(tmp_path / "set", 8, map=eval(f"lambda {name}: {name}"))


def test_what_does_not_go_together(shards: Path) -> None:
    with pytest.raises(ValueError, match="give one of them"):
        DataLoader(shards, 8, map=noisy, map_batch=of_batch)
    with pytest.raises(ValueError, match="use fields=, not target="):
        DataLoader(shards, 8, map=noisy, target="score")
