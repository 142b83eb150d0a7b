"""JAX and Flax: batches without a copy through DLPack, for as long as JAX holds them, and the samples of a plain loop."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imgfeed import DataLoader
from programs.conftest import SMALL, plain

jax = pytest.importorskip("jax")
EPOCHS = 3
OPTIONS: dict[str, Any] = {"framework": "numpy", "transform": SMALL, "with_index": True, "num_workers": 1}


def test_jax_has_the_ring_itself(shards: Path) -> None:
    """An array of JAX is the slot, which comes back when JAX lets go of it, having computed; no batch is overwritten."""
    with DataLoader(shards, 8, shuffle=True, slots=8, **OPTIONS) as loader:
        ring = loader._service.session().ring
        largest = jax.jit(lambda images: images.max(axis=(1, 2, 3)))
        shared = []
        for images, *rest in loader:
            array = jax.numpy.from_dlpack(images)
            assert np.array_equal(largest(array), images.max(axis=(1, 2, 3)))
            shared.append(array.unsafe_buffer_pointer() == images.ctypes.data)
            del images, array, rest
        assert all(shared)

        held, copies, results = [], [], []
        for images, *rest in loader:
            array = jax.numpy.from_dlpack(images)
            results.append(largest(array))  # which may not have begun when the loop goes on
            copies.append(images.copy())
            if len(held) < 2:
                held.append(array)
            del images, array, rest
        for got, pixels in zip(results, copies, strict=True):
            assert np.array_equal(got, pixels.max(axis=(1, 2, 3)))
        for array, pixels in zip(held, copies, strict=False):
            assert np.array_equal(array, pixels)
        assert ring.slots_held == 2
        held.clear()
        del array
        gc.collect()
        assert ring.slots_held == 0


def test_a_flax_loop_gives_the_samples_of_a_plain_one(shards: Path) -> None:
    linen = pytest.importorskip("flax.linen")
    optax = pytest.importorskip("optax")
    want = plain(shards, 0, 1, EPOCHS, shuffle=True, seed=3)
    model = linen.Dense(5)
    optimizer = optax.sgd(1e-3)

    def scaled(images: Any) -> Any:
        return images.reshape(len(images), -1).astype(jax.numpy.float32) / 255

    @jax.jit
    def step(params: Any, state: Any, images: Any, labels: Any) -> Any:
        def loss(p: Any) -> Any:
            logits = model.apply(p, scaled(images))
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        updates, state = optimizer.update(jax.grad(loss)(params), state)
        return optax.apply_updates(params, updates), state

    def train(params: Any, state: Any, begun: int, resumed: dict[str, Any] | None) -> tuple[Any, list[Any], Any]:
        seen, saved = [], None
        with DataLoader(shards, 8, shuffle=True, seed=3, **OPTIONS) as loader:
            if resumed is not None:
                loader.load_state_dict(resumed)
            for epoch in range(begun, EPOCHS):
                for number, (images, labels, index) in enumerate(loader):
                    params, state = step(params, state, jax.numpy.from_dlpack(images), labels)
                    seen.append([epoch, index.tolist()])
                    if (epoch, number) == (1, 1) and resumed is None:
                        saved = (params, state, loader.state_dict())
        return params, seen, saved

    params = model.init(jax.random.key(1), np.zeros((1, 3 * 32 * 32), np.float32))
    end, seen, saved = train(params, optimizer.init(params), 0, None)
    assert seen == [[e, batch] for e, epoch in enumerate(want) for batch in epoch]
    params, state, resumed = saved
    again, rest, _ = train(params, state, resumed["epoch"], resumed)
    assert rest == seen[len(want[0]) + 2 :]
    assert jax.tree.all(jax.tree.map(np.array_equal, end, again))


def test_ranks_are_those_of_jax(shards: Path) -> None:
    """It tells them itself, as it sets no RANK: here there is one process."""
    with DataLoader(shards, 8, rank=jax.process_index(), world=jax.process_count(), **OPTIONS) as loader:
        assert (loader.rank, loader.world) == (0, 1)
