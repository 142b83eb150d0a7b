"""Torch tensors, and the same pixels as torchvision on Pillow. Runs where torch and torchvision are installed."""

import gc
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import RANDOM

from imgfeed import DataLoader
from imgfeed._server.ranks import rank_batches, rank_samples

torch = pytest.importorskip("torch")
Load = Callable[..., DataLoader]


def test_tensors_are_views_in_channels_last_memory(load: Load) -> None:
    loader, arrays = load(8, framework="torch"), load(8)
    ring = loader._service.session().ring
    for (images, labels, index), want in zip(loader, arrays, strict=True):
        assert images.shape[1:] == (3, 32, 32) and images.dtype == torch.uint8
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert labels.dtype == index.dtype == torch.int64
        assert ring.memory.ctypes.data <= images.data_ptr() < ring.memory.ctypes.data + ring.memory.nbytes
        assert np.array_equal(images.permute(0, 2, 3, 1).numpy(), want[0])
        assert np.array_equal(labels.numpy(), want[1])


@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_get_as_many_as_of_torchs_sampler(drop_last: bool) -> None:
    policy = "drop_last" if drop_last else "pad"
    for samples, world, size in itertools.product(range(1, 40), range(1, 9), (1, 2, 3, 8, 64)):
        for rank in {0, world - 1}:
            sampler = torch.utils.data.DistributedSampler(range(samples), world, rank, shuffle=False, drop_last=drop_last)
            batches = torch.utils.data.BatchSampler(sampler, size, drop_last)
            assert rank_samples(samples, rank, world, policy) == len(sampler) == len(list(sampler))
            assert rank_batches(samples, rank, world, policy, size) == len(batches) == len(list(batches))


def test_a_type_that_is_none(load: Load) -> None:
    for normalize in (None, "imagenet"):
        with pytest.raises(TypeError, match="dtype is 'float16', want a type of torch"):
            load(8, framework="torch", dtype="float16", normalize=normalize)


def test_nchw_is_contiguous(load: Load) -> None:
    for a, b in zip(load(8, framework="torch", layout="NCHW"), load(8, framework="torch"), strict=True):
        assert a[0].is_contiguous() and torch.equal(a[0], b[0])


def test_held_tensors_are_never_overwritten(load: Load) -> None:
    loader = load(4, framework="torch", slots=4, transform=RANDOM, shuffle=True)
    held, copies = [], []
    for _ in range(2):
        for images, labels, index in loader:
            held.append((images[1:, :, ::2], labels, index))  # views of views
            copies.append([t.clone() for t in held[-1]])
    del images, labels, index
    for batch, want in zip(held, copies, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(batch, want, strict=True))
    held.clear()
    del batch
    gc.collect()
    ring = loader._service.session().ring
    assert ring is not None and ring.slots_held == 0


def test_normalised_images(load: Load) -> None:
    mean, std = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    raw, normal, half = (
        load(8),
        load(8, framework="torch", normalize="imagenet"),
        load(8, framework="torch", dtype=torch.float16),
    )
    for (pixels, *_), (images, *_), (halves, *_) in zip(raw, normal, half, strict=True):
        scaled = torch.from_numpy(pixels.copy()).permute(0, 3, 1, 2).float()
        assert torch.allclose(images, (scaled / 255 - mean) / std, atol=1e-5)
        assert halves.dtype == torch.float16 and torch.equal(halves.float(), scaled)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_normalised_images_are_rounded_once(load: Load, dtype: torch.dtype) -> None:
    """In half precision the constants were rounded too: red's mean was off by 0.0115."""
    exact, half = (
        load(8, framework="torch", normalize="imagenet"),
        load(8, framework="torch", normalize="imagenet", dtype=dtype),
    )
    for (images, *_), (halves, *_) in zip(exact, half, strict=True):
        assert halves.dtype == dtype and torch.equal(halves, images.to(dtype))


def test_rank_and_world_come_from_torch_distributed(load: Load, tmp_path: Path) -> None:
    distributed = torch.distributed
    if not distributed.is_available():
        pytest.skip("this torch was built without torch.distributed")
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        loader = load(rank=None)
        assert (loader.rank, loader.world) == (0, 1)
    finally:
        distributed.destroy_process_group()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("slots", [1, 2, 3, 8])
def test_cuda_gets_the_same_batches(load: Load, slots: int) -> None:
    on_gpu = load(8, framework="torch", device="cuda", slots=slots, transform=RANDOM, shuffle=True)
    on_cpu = load(8, transform=RANDOM, shuffle=True)
    for _ in range(3):
        held = [(images, labels, on_gpu.state_dict()) for images, labels, _ in on_gpu]
        for (images, labels, state), want in zip(held, on_cpu, strict=True):
            assert images.is_cuda and np.array_equal(images.permute(0, 2, 3, 1).cpu().numpy(), want[0])
            assert np.array_equal(labels.cpu().numpy(), want[1])
            assert state == on_cpu.state_dict()


def test_cuda_that_is_not_there_is_an_error(load: Load) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ValueError, match="no CUDA device"):
        load(device="cuda", framework="torch")
