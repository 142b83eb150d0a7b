"""from_torch packs what a loader of torch reads, once, and gives its batches: compared sample by sample with torch's own."""

import contextlib
import os
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SAMPLES, installed_resampler

from imgfeed import DataLoader, ImgfeedError, from_torch

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
from torch.utils import data  # noqa: E402
from torchvision import datasets, transforms  # noqa: E402

TO_TENSORS = transforms.Compose([transforms.Resize(40), transforms.CenterCrop(32), transforms.ToTensor()])
CROPS = transforms.Compose([transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip(), transforms.PILToTensor()])


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all tests of one dataset."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def folder(images: Path) -> Any:
    """The images as torchvision has them."""
    return datasets.ImageFolder(str(images), TO_TENSORS)


def made(loader: Any, cache: Path, **changes: Any) -> DataLoader:
    return from_torch(loader, cache=cache, num_workers=1, resampler=installed_resampler(), **changes)


def samples_of(loader: DataLoader) -> dict[int, int]:
    """Return which sample of torch's dataset each index of the set is."""
    own = np.load(Path(loader._options.dataset).parent / "places.npy")
    return {int(index): i for i, index in enumerate(own)}


def compare(dataset: Any, loader: DataLoader, batches: Any) -> list[int]:
    """Compare every sample of all batches with what the dataset itself gives, and return which they were."""
    of, seen = samples_of(loader), []
    for images, labels, index in batches:
        for image, label, i in zip(images, labels, index, strict=True):
            want, want_label = dataset[of[int(i)]]
            assert image.dtype == want.dtype and torch.equal(image, want) and int(label) == want_label
            seen.append(of[int(i)])
    return seen


@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_are_torchs_sample_by_sample(folder: Any, cache: Path, drop_last: bool) -> None:
    theirs = data.DataLoader(folder, 8, shuffle=True, drop_last=drop_last)
    with made(theirs, cache, with_index=True) as loader:
        assert len(loader) == len(theirs) and loader.dataset.classes == folder.classes
        assert (loader.batch_size, loader.shuffle, loader.drop_last) == (8, True, drop_last)
        batches = [[part.clone() for part in batch] for batch in loader]
        assert [len(batch[1]) for batch in batches] == [len(batch[1]) for batch in theirs]
        seen = compare(folder, loader, batches)
        assert len(set(seen)) == len(seen) == (SAMPLES // 8 * 8 if drop_last else SAMPLES)
        of = samples_of(loader)
        assert loader.dataset.targets.tolist() == [folder.targets[of[i]] for i in range(SAMPLES)]
        assert loader.dataset.key(0) == str(Path(folder.samples[of[0]][0]).relative_to(folder.root))


def test_random_crops_are_torchvisions_of_the_same_draws(images: Path, cache: Path) -> None:
    theirs = data.DataLoader(datasets.ImageFolder(images, CROPS), 8, shuffle=True, generator=torch.Generator().manual_seed(4))
    with made(theirs, cache, with_index=True, with_params=True) as loader:
        assert loader.seed == 4
        plain, of = datasets.ImageFolder(images), samples_of(loader)
        for batch, _, index, params in loader:
            for pixels, i, draw in zip(batch, index.tolist(), params.tolist(), strict=True):
                top, left, height, width, flip = draw
                want = transforms.functional.resized_crop(plain[of[i]][0], top, left, height, width, [32, 32])
                want = transforms.functional.hflip(want) if flip else want
                assert torch.equal(pixels, transforms.functional.pil_to_tensor(want))


@pytest.mark.parametrize("drop_last", [False, True])
def test_without_shuffling_the_order_is_torchs(folder: Any, cache: Path, drop_last: bool) -> None:
    alike(data.DataLoader(folder, 8, drop_last=drop_last), cache)
    alike(data.DataLoader(folder, 8, sampler=data.SequentialSampler(range(30)), drop_last=drop_last), cache)
    alike(data.DataLoader(data.Subset(folder, [50, 3, 77, 4, 20]), 2, drop_last=drop_last), cache)
    for rank in range(2):
        sampler = data.DistributedSampler(folder, 2, rank, shuffle=False, drop_last=drop_last)
        alike(data.DataLoader(folder, 8, sampler=sampler, drop_last=drop_last), cache)


def alike(theirs: Any, cache: Path, **changes: Any) -> None:
    """Compare whole batches with torch's own, in their order."""
    with made(theirs, cache, **changes) as loader:
        assert len(loader) == len(theirs)
        count = 0
        for (images, labels), (want, want_labels) in zip(loader, theirs, strict=True):
            assert images.dtype == want.dtype and torch.equal(images, want) and torch.equal(labels, want_labels)
            count += 1
        assert count == len(theirs)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("of_sampler", [False, True])
def test_the_same_order_of_a_sampler_of_torch(folder: Any, cache: Path, drop_last: bool, of_sampler: bool) -> None:
    """Also where the two drop_last differ, which imgfeed does not have."""
    sampler = data.DistributedSampler(folder, 2, 1, seed=5, drop_last=of_sampler)
    theirs = data.DataLoader(folder, 53, sampler=sampler, drop_last=drop_last)
    with made(theirs, cache, same_order=True) as loader:
        for epoch in (0, 3) if len(theirs) else ():
            loader.set_epoch(epoch)
            got = [[part.clone() for part in batch] for batch in loader]
            sampler.set_epoch(epoch)
            assert all(
                torch.equal(a, b) for mine, want in zip(got, theirs, strict=True) for a, b in zip(mine, want, strict=True)
            )
    with (
        made(theirs, cache) as loader,
        contextlib.nullcontext() if len(theirs) else pytest.raises(ValueError, match="no batch"),
    ):
        assert len(list(loader)) == len(loader) == len(theirs)
    alike(data.DataLoader(folder, 8, sampler=Order(folder), drop_last=drop_last), cache)


@pytest.mark.parametrize("of", ["shuffle", "generator", "weights", "persistent"])
def test_the_same_order_of_a_loader_that_draws(folder: Any, cache: Path, of: str) -> None:
    """torch's loader draws a seed for its workers before the sampler draws."""
    weights = torch.arange(1.0, SAMPLES + 1)

    def loader() -> Any:
        if of == "weights":
            return data.DataLoader(folder, 8, sampler=data.WeightedRandomSampler(weights, 50))
        generator = torch.Generator().manual_seed(2) if of == "generator" else None
        workers = {"num_workers": 1, "persistent_workers": True} if of == "persistent" else {}
        return data.DataLoader(folder, 8, shuffle=True, generator=generator, **workers)

    torch.manual_seed(7)
    theirs = loader()
    want = [[labels.tolist() for _, labels in theirs] for _ in range(3)]
    with made(loader(), cache, same_order=True) as feed:
        torch.manual_seed(7)
        assert [[labels.tolist() for _, labels in feed] for _ in range(3)] == want


def test_samplers_that_draw(folder: Any, cache: Path) -> None:
    weights = torch.zeros(SAMPLES)
    weights[[3, 50, 70]] = torch.tensor([1.0, 1.0, 2.0])

    def drawn(sampler: Any, **changes: Any) -> list[int]:
        theirs = data.DataLoader(folder, 8, sampler=sampler)
        with made(theirs, cache, with_index=True, **changes) as loader:
            assert len(loader) == len(theirs)
            return compare(folder, loader, loader)

    counts = np.bincount(drawn(data.WeightedRandomSampler(weights, 400), seed=1), minlength=SAMPLES)
    assert counts.sum() == 400 and set(np.flatnonzero(counts)) == {3, 50, 70} and 150 < counts[70] < 250
    seen = drawn(data.SubsetRandomSampler([3, 50, 70, 90]))
    assert sorted(seen) == [3, 50, 70, 90]
    seen = drawn(data.RandomSampler(folder, num_samples=30))
    assert len(set(seen)) == len(seen) == 30
    seen = drawn(data.RandomSampler(folder, True, 300))
    assert len(seen) == 300 and 80 < len(set(seen)) < SAMPLES
    seen = drawn(data.RandomSampler(folder, num_samples=250))  # torch's own: each twice, and some a third time
    assert set(np.bincount(seen)) == {2, 3} and len(seen) == 250
    seen = drawn(data.WeightedRandomSampler(torch.ones(SAMPLES), 50, replacement=False))
    assert len(set(seen)) == 50


def test_a_subset_and_a_collate_fn(folder: Any, cache: Path) -> None:
    part, rest = data.random_split(folder, [60, SAMPLES - 60], torch.Generator().manual_seed(1))
    seen = []
    for subset in (part, rest):
        theirs = data.DataLoader(subset, 7, shuffle=True, collate_fn=lambda samples: samples)
        with made(theirs, cache, with_index=True) as loader:
            assert len(loader.dataset) == len(subset)
            of = samples_of(loader)
            for batch in loader:
                for image, label, index in batch:
                    want, want_label = subset[of[index]]
                    assert torch.equal(image, want) and label == want_label
                    seen.append(subset.indices[of[index]])
    assert sorted(seen) == list(range(SAMPLES))


@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_are_those_of_a_distributed_sampler(folder: Any, cache: Path, drop_last: bool) -> None:
    seen = []
    for rank in range(2):
        sampler = data.DistributedSampler(folder, 2, rank, seed=5, drop_last=drop_last)
        theirs = data.DataLoader(folder, 8, sampler=sampler, drop_last=drop_last)
        with made(theirs, cache, with_index=True) as loader:
            assert (loader.rank, loader.world, loader.seed, len(loader)) == (rank, 2, 5, len(theirs))
            seen.append(compare(folder, loader, loader))
            assert len(seen[-1]) == sum(len(batch[1]) for batch in theirs)
    both = seen[0] + seen[1]
    assert len(both) - len(set(both)) == (0 if drop_last else 1)  # 105 samples are padded to 106


def test_imagenet(images: Path, tmp_path: Path) -> None:
    (tmp_path / "val").symlink_to(images)
    names = sorted(os.listdir(images))
    torch.save(({name: (f"{name} in words", "a synonym") for name in names}, []), tmp_path / "meta.bin")
    theirs = datasets.ImageNet(tmp_path, "val", transform=TO_TENSORS)
    with made(data.DataLoader(theirs, 16, shuffle=True), tmp_path / "cache", with_index=True) as loader:
        assert sorted(compare(theirs, loader, loader)) == list(range(SAMPLES))
        assert loader.dataset.classes == names


def cifar(kind: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write ten images of each file of a CIFAR."""
    monkeypatch.setattr(kind, "_check_integrity", lambda self: True)
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": None})
    random, base = np.random.default_rng(1), folder / kind.base_folder
    base.mkdir()
    classes = [f"class {i}" for i in range(100 if kind is datasets.CIFAR100 else 10)]
    for name, _ in kind.train_list + kind.test_list:
        labels = random.integers(0, len(classes), 10).tolist()
        rows = {"data": random.integers(0, 256, (10, 3072), dtype=np.uint8), "labels": labels}
        if kind is datasets.CIFAR100:
            rows["fine_labels"] = rows.pop("labels")
        (base / name).write_bytes(pickle.dumps(rows))
    (base / kind.meta["filename"]).write_bytes(pickle.dumps({kind.meta["key"]: classes}))


@pytest.mark.parametrize("kind", [datasets.CIFAR10, datasets.CIFAR100])
def test_cifar(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cifar(kind, tmp_path, monkeypatch)
    normalize = transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.2, 0.3))
    for train in (True, False):
        theirs = kind(tmp_path, train, transforms.Compose([transforms.CenterCrop(28), transforms.ToTensor(), normalize]))
        with made(data.DataLoader(theirs, 4, shuffle=True), tmp_path / "cache", with_index=True) as loader:
            assert sorted(compare(theirs, loader, loader)) == list(range(len(theirs)))
            assert loader.dataset.classes == theirs.classes


def test_a_dataset_of_hugging_face(images: Path, tmp_path: Path) -> None:
    hugging = pytest.importorskip("datasets")
    pillow = pytest.importorskip("PIL.Image")
    turned = tmp_path / "turned.jpg"
    exif = pillow.Exif()
    exif[0x0112] = 6
    pillow.open(next(images.rglob("*.JPEG"))).resize((90, 60)).save(turned, exif=exif)
    files = [str(turned), *map(str, sorted(images.rglob("*.JPEG"))[:20])]
    rows = {"picture": files, "label": [i % 3 for i in range(21)]}
    features = hugging.Features({"picture": hugging.Image(), "label": hugging.ClassLabel(names=["a", "b", "c"])})
    table = hugging.Dataset.from_dict(rows, features)

    def transformed(batch: Any) -> Any:
        return {"pixels": [TO_TENSORS(image.convert("RGB")) for image in batch["picture"]], "label": batch["label"]}

    table.to_parquet(tmp_path / "train.parquet")  # which then holds the images
    stored = hugging.Dataset.from_parquet(str(tmp_path / "train.parquet"), cache_dir=str(tmp_path / "hf"))
    caches = []
    for theirs in (table, stored, stored.shuffle(seed=3), stored.select(range(5, 15))):
        want = theirs.with_transform(transformed)
        with made(data.DataLoader(want, 4, shuffle=True), tmp_path / "cache", transform=TO_TENSORS, with_index=True) as loader:
            of, seen = samples_of(loader), []
            for batch, labels, index in loader:
                for image, label, i in zip(batch, labels, index.tolist(), strict=True):
                    row = want[of[i]]
                    assert torch.equal(image, row["pixels"]) and int(label) == row["label"]
                    seen.append(of[i])
            assert sorted(seen) == list(range(len(want)))
            assert loader.dataset.classes == ["a", "b", "c"]
            caches.append(loader._options.dataset)
    assert len(set(caches)) == 4
    with pytest.raises(ValueError, match="no transform that can be looked into"):
        made(data.DataLoader(stored, 4), tmp_path / "cache")
    with pytest.raises(ValueError, match="label is 'x', and the dataset has picture, label"):
        made(data.DataLoader(stored, 4), tmp_path / "cache", transform=TO_TENSORS, label="x")
    with pytest.raises(ValueError, match="the dataset has 0 columns of images"):
        made(data.DataLoader(stored.remove_columns("picture"), 4), tmp_path / "cache", transform=TO_TENSORS)


class Own(datasets.ImageFolder):
    """A dataset with code of its own."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)


class Renamed(datasets.ImageFolder):
    """A dataset without."""


class Order(data.Sampler):
    """A sampler with an order of its own: the last sample first."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Any:
        return reversed(range(len(self.source)))

    def __len__(self) -> int:
        return len(self.source)


class Stream(data.IterableDataset):
    """Samples one after the other."""

    def __iter__(self) -> Any:
        return iter(())


def inverted(image: Any) -> Any:
    """A step of a program's own, on images of Pillow."""
    return image.point(lambda level: 255 - level)


def noisy(tensor: Any) -> Any:
    """A step that draws from all generators that programs take."""
    return tensor + random.random() + np.random.random() + torch.rand(())


@pytest.mark.parametrize("workers", [0, 2])
def test_steps_of_a_programs_own_are_done_by_python(images: Path, cache: Path, workers: int) -> None:
    steps = [transforms.Resize(40), transforms.CenterCrop(32), inverted, transforms.ToTensor(), transforms.RandomErasing(0)]
    theirs = datasets.ImageFolder(str(images), transforms.Compose(steps))
    with made(data.DataLoader(theirs, 8, num_workers=workers), cache, with_index=True) as loader:
        assert sorted(compare(theirs, loader, loader)) == list(range(SAMPLES))
        assert loader._options.map_workers == 2
    with pytest.raises(ValueError, match=r"^imgfeed: from_torch: map is given, and .* a step of its own: <function inverted"):
        made(data.DataLoader(theirs, 8), cache, map=np.copy)


@pytest.mark.parametrize("composed", [True, False])
def test_steps_before_a_crop_have_python_do_all(
    images: Path, cache: Path, caplog: pytest.LogCaptureFixture, composed: bool
) -> None:
    compose = transforms.Compose([inverted, transforms.Resize((40, 32)), transforms.ToTensor()])
    theirs = datasets.ImageFolder(str(images), compose if composed else compose.__call__)
    with made(data.DataLoader(theirs, 8, shuffle=True, num_workers=2), cache, with_index=True) as loader:
        assert "comes before a crop: Python does all to each image" in caplog.text
        assert sorted(compare(theirs, loader, loader)) == list(range(SAMPLES))


def test_a_programs_own_draws_are_keyed_by_the_sample(images: Path, cache: Path) -> None:
    theirs = datasets.ImageFolder(str(images), transforms.Compose([transforms.CenterCrop(32), transforms.ToTensor(), noisy]))
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    with made(data.DataLoader(theirs, 8), cache, seed=5) as loader:
        first, second = (torch.cat([images for images, _ in loader]) for _ in range(2))
    drawn = random.random(), np.random.random(), float(torch.rand(()))
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    assert drawn == (random.random(), np.random.random(), float(torch.rand(())))
    assert not torch.equal(first, second)
    with made(data.DataLoader(theirs, 5), cache, seed=5, map_workers=1) as loader:
        assert torch.equal(first, torch.cat([images for images, _ in loader]))


def test_what_can_not_be_honoured_is_refused(folder: Any, images: Path, tmp_path: Path) -> None:
    own = Own(images, TO_TENSORS)
    labelled = datasets.ImageFolder(images, TO_TENSORS, target_transform=str)
    arrays = datasets.ImageFolder(images, TO_TENSORS, loader=np.load)
    several = datasets.ImageFolder(images, transforms.Compose([transforms.FiveCrop(8), transforms.Lambda(id)]))
    pictures = datasets.ImageFolder(images, transforms.CenterCrop(32))
    tensors = data.TensorDataset(torch.zeros(3, 3, 8, 8), torch.zeros(3))
    for theirs, words in [
        (data.DataLoader(own, 8), "Own has code of its own in __getitem__, which imgfeed can't run. Pack .* imgshard build"),
        (data.DataLoader(labelled, 8), "has target_transform, which imgfeed can't run: leave it out"),
        (data.DataLoader(arrays, 8), "has loader=<function load.*Leave out loader="),
        (data.DataLoader(several, 8), "transform holds .*Lambda, which imgfeed does not do"),
        (data.DataLoader(datasets.ImageFolder(images), 8), "no transform that can be looked into: say with transform="),
        (data.DataLoader(pictures, 8, collate_fn=list), "collate_fn gets tensors .* end it in PILToTensor or ToTensor"),
        (
            data.DataLoader(tensors, 8),
            "the dataset is a torch.utils.data.dataset.TensorDataset, whose code .* It takes ImageFolder",
        ),
        (data.DataLoader(Stream(), 8), "the dataset is an iterable one"),
        (data.DataLoader(folder, None), "batch_size is None, and imgfeed gives batches"),
        (data.DataLoader(folder, batch_sampler=[[1, 2]]), "batch_sampler is a list, whose batches"),
        (data.DataLoader(data.Subset(folder, [1, 2, 1]), 2), "the Subset has an index twice"),
    ]:
        with pytest.raises(ValueError, match=f"^imgfeed: .*{words}"):
            from_torch(theirs, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TypeError, match=r"want a torch\.utils\.data\.DataLoader, and this is a list"):
        from_torch([], cache=tmp_path)
    with pytest.raises(ImgfeedError, match="would go into /dev/null/cache: Not a directory: give another folder with cache="):
        from_torch(data.DataLoader(folder, 8), cache="/dev/null/cache")
    with pytest.raises(TypeError, match="neither it nor DataLoader has an argument 'batchsize'"):
        from_torch(data.DataLoader(folder, 8), cache=tmp_path, batchsize=3)
    with pytest.raises(ValueError, match="label= names a column of a dataset of Hugging Face, and this is an ImageFolder"):
        from_torch(data.DataLoader(folder, 8), cache=tmp_path, label="x")
    for name in ("shuffle", "order", "dataset"):
        with pytest.raises(ValueError, match=f"torch's loader says {name}= itself"):
            from_torch(data.DataLoader(folder, 8), cache=tmp_path, **{name: None})


def test_arguments_are_honoured_or_replaced(folder: Any, images: Path, cache: Path) -> None:
    theirs = data.DataLoader(
        Renamed(images, TO_TENSORS), 8, num_workers=2, prefetch_factor=3, persistent_workers=True, timeout=30
    )
    with from_torch(theirs, cache=cache) as loader:
        assert (loader.num_workers, loader.prefetch_factor, loader.persistent_workers, loader.timeout) == (2, 3, True, 30)
    theirs = data.DataLoader(folder, batch_sampler=data.BatchSampler(data.RandomSampler(folder), 5, True))
    with from_torch(theirs, cache=cache, seed=7, transform="eval", split="train") as loader:
        assert (loader.batch_size, loader.drop_last, loader.shuffle, loader.seed) == (5, True, True, 7)
        assert next(iter(loader))[0].shape == (5, 3, 224, 224)
