"""What programs that were written for torch's DataLoader look at, and what they do with a loader."""

import copy
import importlib
import itertools
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import RANDOM, SAMPLES, SMALL, copied, imgshard, indices, same

from imgfeed import DataLoader, ImgfeedError

Load = Callable[..., DataLoader]
#: What torch 2's DataLoader has, and programs read.
ATTRIBUTES = {
    "batch_sampler", "batch_size", "collate_fn", "dataset", "drop_last", "generator", "in_order", "multiprocessing_context",
    "num_workers", "persistent_workers", "pin_memory", "pin_memory_device", "prefetch_factor", "sampler",
    "timeout", "worker_init_fn",
}  # fmt: skip


def test_every_attribute_of_torchs_loader_is_there(load: Load) -> None:
    given: dict[str, Any] = {
        "in_order": False, "multiprocessing_context": "spawn", "persistent_workers": False, "prefetch_factor": 4,
        "worker_init_fn": print, "drop_last": True, "timeout": 30,
    }  # fmt: skip
    loader = load(8, **given)
    assert [name for name in ATTRIBUTES if not hasattr(loader, name)] == []
    # A server that runs has its own threads: num_workers is 0, and torch's loader has none of the others then.
    assert {name: getattr(loader, name) for name in given} == {
        **given,
        "multiprocessing_context": None,
        "prefetch_factor": None,
    }
    loader.worker_init_fn = None  # as Lightning sets it, to seed workers that there are not
    assert loader.pin_memory_device == ""
    assert len(list(loader)) == SAMPLES // 8


def test_torchs_loader_takes_the_attributes(shards: Path) -> None:
    """Accelerate and Hugging Face's Trainer make a loader of torch's with them; their error hid ours, which explains."""
    data = pytest.importorskip("torch.utils.data")
    names = ("num_workers", "persistent_workers", "prefetch_factor", "multiprocessing_context", "pin_memory", "drop_last")
    for workers in (0, 2):
        with DataLoader(shards, 8, num_workers=workers, transform=SMALL, prefetch_factor=4) as loader:
            attributes = {name: getattr(loader, name) for name in names}
            assert attributes["persistent_workers"] == (workers > 0)
            assert attributes["prefetch_factor"] == (4 if workers else None)
            if tuple(map(int, importlib.import_module("torch").__version__.split(".")[:1])) >= (2,) or workers:  # 1.13 wants 2
                data.DataLoader(loader.dataset, batch_size=8, **attributes)


def test_torch_has_no_attribute_that_is_not_listed() -> None:
    data = pytest.importorskip("torch.utils.data")
    public = {name for name in vars(data.DataLoader([])) if not name.startswith("_")}
    assert public <= ATTRIBUTES


@pytest.mark.parametrize("policy", [{}, {"drop_last": True}, {"even_batches": False}])
@pytest.mark.parametrize("shuffle", [False, True])
def test_samplers_give_the_indices_of_the_batches(load: Load, policy: dict[str, bool], shuffle: bool) -> None:
    for rank in range(2):
        loader = load(8, rank=rank, world=2, shuffle=shuffle, seed=7, **policy)
        loader.sampler.set_epoch(3)
        want = list(loader.batch_sampler)
        assert len(want) == len(loader.batch_sampler) == len(loader)
        assert list(loader.sampler) == list(itertools.chain(*want)) and len(loader.sampler) == sum(map(len, want))
        assert [batch[2].tolist() for batch in loader] == want
        sampler = loader.batch_sampler.sampler
        assert sampler is loader.sampler
        assert (sampler.epoch, sampler.rank, sampler.num_replicas, sampler.shuffle, sampler.seed) == (4, rank, 2, shuffle, 7)
        assert sampler.drop_last == loader.batch_sampler.drop_last == loader.drop_last
        assert loader.batch_sampler.batch_size == 8
        assert list(loader.batch_sampler) == [batch[2].tolist() for batch in loader]  # and those of the epoch after
        assert (list(loader.batch_sampler) != want) == shuffle


def test_what_a_notebook_shows_of_an_iteration(load: Load) -> None:
    loader = load(8)
    assert repr(loader.batch_sampler) == f"<imgfeed BatchSampler: {len(loader)} batches of 8, of {loader.sampler!r}>"
    epoch = iter(loader)
    for left in (len(loader), len(loader) - 1):
        assert repr(epoch) == f"<imgfeed EpochIterator: epoch 0, {left} batches left>"
        next(epoch)


def test_asking_for_the_order_leaves_a_running_epoch_alone(load: Load) -> None:
    loader = load(8)
    seen: list[int] = []
    for batch in loader:
        assert len(list(loader.sampler)) == SAMPLES
        seen += batch[2].tolist()
    assert seen == list(range(SAMPLES))


@pytest.mark.parametrize("encoding", [(), ("--encoding", "pixels", "--resize", "48")])
def test_a_sample_is_the_stored_image(images: Path, tmp_path: Path, encoding: tuple[str, ...]) -> None:
    pil = pytest.importorskip("PIL.Image")
    if encoding:
        resampler = "pillow-13" if int(pil.__version__.split(".")[0]) >= 13 else "pillow-12"
        encoding = (*encoding, "--resampler", resampler)
    imgshard("build", images, "-o", tmp_path / "train-shards", *encoding)
    with DataLoader(tmp_path / "train-shards", 8, framework="numpy", num_workers=1, transform=SMALL) as loader:
        for i in (0, 1, np.int64(17), SAMPLES - 1):
            image, label = loader.dataset[i]
            want = pil.open(images / loader.dataset.key(i)).convert("RGB")
            if encoding:
                short = min(want.size)
                want = want.resize([side * 48 // short for side in want.size], pil.BILINEAR)
            assert image.mode == "RGB" and image.size == want.size
            assert image.tobytes() == want.tobytes()
            assert label == loader.dataset.targets[i] == loader.dataset.classes.index(Path(loader.dataset.key(i)).parts[0])
        assert loader.dataset[-1][0].tobytes() == image.tobytes()
        for beyond in (SAMPLES, -SAMPLES - 1):
            with pytest.raises(IndexError, match=f"no sample {beyond}: the split has {SAMPLES}"):
                loader.dataset[beyond]
        with pytest.raises(TypeError, match="index is '3'"):
            loader.dataset["3"]
        assert len([label for _, label in loader.dataset]) == SAMPLES


def test_torchs_loader_around_the_dataset_is_refused(load: Load) -> None:
    """Frameworks make one of a loader's attributes; it would give images without the transform."""
    data = pytest.importorskip("torch.utils.data")
    loader = load(8, framework="torch")
    if not hasattr(data.Subset, "__getitems__"):
        pytest.skip("this torch asks a dataset for single samples only")
    made = data.DataLoader(loader.dataset, batch_sampler=loader.batch_sampler, collate_fn=list)
    with pytest.raises(TypeError, match="without the transform"):
        next(iter(made))


def test_collate_fn_gets_samples(load: Load) -> None:
    plain, made = load(8, with_params=True, transform=RANDOM), load(8, with_params=True, transform=RANDOM, collate_fn=list)
    for (pixels, labels, index, params), samples in zip(plain, made, strict=True):
        assert len(samples) == len(labels)
        for k, (image, label, i, draw) in enumerate(samples):
            assert np.array_equal(image, pixels[k]) and np.array_equal(draw, params[k])
            assert type(label) is int and type(i) is int and (label, i) == (labels[k], index[k])


def test_collate_fn_that_takes_a_batch_itself(load: Load) -> None:
    """No sample comes twice: the call within has the batch, and the one around it an error."""

    def collate(samples: list[Any]) -> list[int]:
        if len(got) == 1:
            got.append([])
            got[1] = next(iteration)
        return [int(sample[2]) for sample in samples]

    got: list[list[int]] = []
    iteration = iter(load(8, collate_fn=collate))
    got.append(next(iteration))
    with pytest.raises(ImgfeedError, match="collate_fn, or a signal's handler during it, has called next"):
        next(iteration)
    assert [*itertools.chain(*got, *iteration)] == list(range(SAMPLES))


def test_collate_fn_as_torch_calls_it(load: Load) -> None:
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch.utils.data")
    plain = load(8, framework="torch")
    again = load(8, framework="torch", collate_fn=lambda samples: data.default_collate(list(samples)))
    known = load(8, framework="torch", collate_fn=data.default_collate)
    for want, batch, whole in zip(plain, again, known, strict=True):
        assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(want, batch, whole, strict=True))
    ring = known._service.session().ring
    assert ring is not None and ring.memory.ctypes.data <= whole[0].data_ptr() < ring.memory.ctypes.data + ring.memory.nbytes


def test_a_generators_seed_is_the_seed(load: Load) -> None:
    torch = pytest.importorskip("torch")
    for seed in (5, 2**63 - 1, -1):
        generator = torch.Generator().manual_seed(seed)
        torch.rand(3, generator=generator)  # its state is not looked at
        loader = load(8, shuffle=True, generator=generator)
        assert loader.seed == seed and loader.generator is generator
        assert indices(loader) == indices(load(8, shuffle=True, seed=seed))
        assert pickle.loads(pickle.dumps(loader)).seed == seed
    with pytest.raises(ValueError, match="generator and seed both key the order"):
        load(8, seed=3, generator=generator)


@pytest.mark.parametrize("how", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_a_pickled_loader_is_its_recipe(load: Load, how: Callable[[Any], Any]) -> None:
    loader = load(8, shuffle=True, seed=3, transform=RANDOM, with_params=True, rank=1, world=2)
    loader.set_epoch(2)
    with how(loader) as other:
        assert other._service.session() is not loader._service.session()
        assert all(same(a, b) for a, b in zip(loader, other, strict=True))
        next(iter(loader))
        loader.load_state_dict(loader.state_dict())
    with how(loader) as other:  # with the position at which the next iteration begins
        rest = [copied(batch) for batch in other]
        assert len(rest) == len(loader) - 1
        assert all(same(a, b) for a, b in zip(loader, rest, strict=True))
    iteration = iter(loader)
    next(iteration)
    with how(loader) as other:  # in the middle of an epoch with the position reached
        assert other.state_dict() == loader.state_dict() and other.state_dict()["consumed"] == 16
        assert all(same(a, b) for a, b in zip(iteration, other, strict=True))
        assert other.state_dict() == loader.state_dict()


@pytest.mark.parametrize("how", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
def test_dataset_and_sampler_are_copied_by_themselves(
    load: Load, shards: Path, how: Callable[[Any], Any], listing: list[dict[str, Any]]
) -> None:
    pytest.importorskip("PIL")
    for loader in (
        load(8, shuffle=True, seed=3, rank=1, world=2),
        DataLoader(shards, 8, framework="numpy", shuffle=True, num_workers=1),
    ):
        with loader:
            next(iter(loader))
            dataset, sampler, batches = how(loader.dataset), how(loader.sampler), how(loader.batch_sampler)
            assert dataset.targets.tolist() == [row["label"] for row in listing] and repr(dataset) == repr(loader.dataset)
            assert (len(dataset), dataset.classes, dataset.key(3)) == (
                len(loader.dataset),
                loader.dataset.classes,
                listing[3]["key"],
            )
            assert dataset[3][0].tobytes() == loader.dataset[3][0].tobytes()
            assert (sampler.epoch, len(sampler), list(sampler)) == (1, len(loader.sampler), list(loader.sampler))
            assert list(batches) == list(loader.batch_sampler)
            sampler.set_epoch(4)
            assert loader.sampler.epoch == 1 and list(sampler) != list(loader.sampler)


def _indices(loader: DataLoader) -> list[int]:
    with loader:
        return indices(loader)


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_a_loader_goes_to_another_process(shards: Path, start: str) -> None:
    with DataLoader(shards, 8, framework="numpy", with_index=True, transform=SMALL, num_workers=1, shuffle=True) as loader:
        want = list(loader.sampler)
        with multiprocessing.get_context(start).Pool(1) as pool:
            assert pool.apply(_indices, (loader,)) == want
        assert indices(loader) == want


def test_rank_and_world_may_be_told_after_the_loader_is_made(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    loader = load(8)
    assert (loader.rank, loader.world, len(loader)) == (0, 1, -(-SAMPLES // 8))
    assert indices(loader) == list(range(SAMPLES))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert (loader.rank, loader.world, len(loader), len(loader.sampler)) == (1, 2, -(-SAMPLES // 16), -(-SAMPLES // 2))
    mine = [(2 * k + 1) % SAMPLES for k in range(-(-SAMPLES // 2))]
    assert list(loader.sampler)[:-1] == mine[:-1]
    assert indices(loader)[:-1] == mine[:-1] and len(indices(loader)) == len(mine)
    assert loader.state_dict()["epoch"] == 3


@pytest.mark.parametrize(
    ("name", "text"), [("WORLD_SIZE", "0"), ("WORLD_SIZE", "9" * 20), ("WORLD_SIZE", "1e3"), ("RANK", "-1")]
)
def test_a_variable_that_is_no_such_number(load: Load, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    for variable, usual in {"RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(variable, usual)
    monkeypatch.setenv(name, text)
    with pytest.raises(ValueError, match=rf"the environment variable {name} is '{text}', want a whole number, [01] or more"):
        indices(load(8))


def test_a_rank_that_nobody_tells(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the processes of a launcher that sets WORLD_SIZE alone, until torch.distributed is initialised."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader = load(8)
    with pytest.raises(
        ValueError, match="WORLD_SIZE is 2 and RANK is not set, so every process would take the samples of rank 0"
    ):
        iter(loader)
    assert indices(load(8, rank=1, world=2, even_batches=False)) == list(range(1, SAMPLES, 2))
    monkeypatch.setenv("RANK", "1")
    assert len(indices(loader)) == len(loader.sampler)
