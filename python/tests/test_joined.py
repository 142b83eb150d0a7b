"""Several sets as one, and mixtures of them, counted by index, label and pixels."""

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import RANDOM, SAMPLES, SMALL, Server, imgshard, indices, seen

from imgfeed import DataLoader, MissingError, ServerError, StateError

OTHERS = 30
OPTIONS: dict[str, Any] = {"framework": "numpy", "with_index": True, "transform": RANDOM, "seed": 3, "num_workers": 1}


@pytest.fixture(scope="module")
def other(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of two of the classes, and of a third that the common set lacks, under labels of its own."""
    folder = tmp_path_factory.mktemp("other")
    names = sorted(path.name for path in images.iterdir())
    for name, of in (("a-new-class", names[0]), (names[3], names[3]), (names[1], names[1])):
        (folder / "images" / name).mkdir(parents=True)
        for path in sorted((images / of).iterdir())[:10]:
            os.link(path, folder / "images" / name / f"other-{path.name}")
    imgshard("build", folder / "images", "-o", folder / "train-shards")
    return folder / "train-shards"


def alone(path: Path, **options: Any) -> DataLoader:
    return DataLoader(path, 7, **{**OPTIONS, "transform": SMALL, **options})


def test_joined_sets_are_one_after_the_other(shards: Path, other: Path) -> None:
    """Samples, classes and labels, of a list of two: each image has its own class's name."""
    for apart in (False, True):
        with alone([shards, other], classes_apart=apart) as joined, alone(shards) as first, alone(other) as second:
            names, a, b = joined.dataset.classes, first.dataset.classes, second.dataset.classes
            assert len(joined.dataset) == SAMPLES + OTHERS
            assert names == ([*a, *b] if apart else [*a, "a-new-class"])
            rows = [(int(label), image) for images, labels, _ in joined for image, label in zip(images, labels, strict=True)]
            parts = [
                (of[int(label)], image)
                for loader, of in ((first, a), (second, b))
                for images, labels, _ in loader
                for image, label in zip(images, labels, strict=True)
            ]
            for i, ((label, image), (name, want)) in enumerate(zip(rows, parts, strict=True)):
                assert names[label] == name
                assert apart is False or (label >= len(a)) == (i >= SAMPLES)
                assert np.array_equal(image, want)


def test_a_shuffled_epoch_of_joined_sets_has_each_sample_once_on_any_world(shards: Path, other: Path) -> None:
    for world in (1, 3):
        got: Counter[int] = Counter()
        for rank in range(world):
            with alone([shards, other], shuffle=True, rank=rank, world=world, even_batches=False) as loader:
                got.update(indices(loader))
        assert got == Counter(range(SAMPLES + OTHERS))


def mixed(shards: Path, other: Path, mix: Any = (3, 1), **options: Any) -> DataLoader:
    return DataLoader([shards, other], 6, **{**OPTIONS, "mix": mix, "even_batches": False, **options})


def test_a_mixture_has_its_weights_and_ends_as_said(shards: Path, other: Path) -> None:
    with DataLoader({shards: 0.5, other: 0.5}, 6, **OPTIONS) as loader:
        epoch = indices(loader)
        assert len(epoch) == len(set(epoch)) == 2 * OTHERS
        assert sum(i < SAMPLES for i in epoch) == OTHERS
        loader.set_epoch(1)
        assert set(indices(loader)) != set(epoch)  # of the larger set come others
    with mixed(shards, other, (1, 1), num_samples="longest") as loader:
        counts = Counter(indices(loader))
        assert sum(counts.values()) == 2 * SAMPLES
        assert {counts[i] for i in range(SAMPLES)} == {1}
        assert {counts[i] for i in range(SAMPLES, SAMPLES + OTHERS)} == {SAMPLES // OTHERS, SAMPLES // OTHERS + 1}
    with mixed(shards, other, (3, 1), num_samples=1000) as loader:
        epoch = indices(loader)
        assert sum(i < SAMPLES for i in epoch) == 750
        assert len(epoch) == 1000
    with mixed(shards, other, (0, 1)) as loader:
        assert sorted(indices(loader)) == list(range(SAMPLES, SAMPLES + OTHERS))


def test_a_mixture_is_the_same_on_any_world_from_any_batch(shards: Path, other: Path) -> None:
    """By pixels: samples that come again have draws of their own, and a state goes on in another world."""
    with mixed(shards, other, num_samples="longest") as loader:
        loader.set_epoch(2)
        whole = seen(loader)
    repeated = [i for i, n in Counter(i for i, _ in whole).items() if n > 1]
    assert repeated
    assert len(set(whole)) == len(whole)
    with mixed(shards, other, num_samples="longest") as loader:
        loader.set_epoch(2)
        had = 0
        for n, batch in enumerate(loader):
            had += len(batch[1])
            if n % 5:
                continue
            state, dealt = loader.state_dict(), list[Any]([None] * (len(whole) - had))
            for rank in range(2):
                with mixed(shards, other, num_samples="longest", rank=rank, world=2) as resumed:
                    resumed.load_state_dict(state)
                    dealt[rank::2] = seen(resumed)
            assert dealt == whole[had:]


def test_weights_change_with_the_epoch_and_in_a_checkpoint(shards: Path, other: Path) -> None:
    def weights(epoch: int) -> tuple[float, float]:
        return (1, 1) if epoch < 1 else (1, 3)

    with mixed(shards, other, weights, num_samples=40) as loader:
        for epoch, share in enumerate((20, 10, 10)):
            assert sum(i < SAMPLES for i in indices(loader)) == share, epoch
    with mixed(shards, other, weights) as loader:
        assert [sum(len(b[1]) for b in loader) for _ in range(2)] == [60, 40]
        loader.skip(12)
        assert loader.state_dict()["epoch"] == 3
    with mixed(shards, other, (1, 1), num_samples=40) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with mixed(shards, other, (9, 1), num_samples=40) as loader, mixed(shards, other, (9, 1), num_samples=40) as whole:
        loader.load_state_dict(state)
        assert seen(loader) == seen(whole)[6:]
    with alone(shards) as loader, pytest.raises(StateError):
        loader.load_state_dict(state)


def test_a_server_joins_sets_for_all_its_clients(shards: Path, other: Path, tmp_path: Path) -> None:
    server = Server(shards, tmp_path / "sock")
    server.flags = [str(other)]
    server.start()
    try:
        with (
            DataLoader(f"unix:{tmp_path / 'sock'}", 6, **{**OPTIONS, "num_workers": 0}, mix=(3, 1)) as loader,
            mixed(shards, other) as own,
        ):
            assert seen(loader) == seen(own)
            subprocess.run([server.binary, "reload", "--socket", server.socket], check=True, stdout=subprocess.DEVNULL)
            assert seen(loader) == seen(own)
    finally:
        server.end(signal.SIGTERM)


@pytest.mark.parametrize(
    ("dataset", "options", "error", "message"),
    [
        (["SET", "unix:/none"], {}, ValueError, "joins them itself"),
        ([], {}, ValueError, "want paths of sets"),
        (["SET", 3], {}, TypeError, "want the path of a shard set"),
        ("SET", {"classes_apart": True}, ValueError, "several sets"),
        ("SET", {"num_samples": "longest"}, ValueError, "goes with mix="),
        ("SET", {"mix": [1]}, ValueError, r"weights of a mixture are \(1.0,\), and the joined sets have \(\) samples"),
        (["SET", "OTHER"], {"mix": [1, 2, 3]}, ValueError, r"the joined sets have \(105, 30\) samples"),
        (["SET", "OTHER"], {"mix": [0, 0]}, ValueError, "not all of them 0"),
        (["SET", "OTHER"], {"mix": lambda epoch: [1, float("nan")]}, ValueError, "finite"),
        (["SET", "OTHER"], {"mix": lambda epoch: epoch}, TypeError, "mix is 0 for epoch 0, want a number for each"),
        ({"SET": 1, "OTHER": "much"}, {}, TypeError, "mix is .* want a number for each"),
        (["SET", "OTHER"], {"mix": [1, 2], "repeats": 3}, ValueError, "omit repeats="),
        (["SET", "OTHER"], {"mix": [1, 2], "subset": [1]}, ValueError, "omit subset="),
        ({"SET": 1, "OTHER": 2}, {"mix": [1, 2]}, ValueError, "mix has others"),
        (["SET", "/none"], {}, MissingError, "dataset is /none: no such file or folder"),
        (["SET", "PIXELS"], {}, ServerError, "stored as pixels .*, the others as original: imgshard repack makes them alike"),
    ],
)
def test_what_cannot_be_joined_is_refused(
    shards: Path, other: Path, tmp_path: Path, dataset: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    names: dict[Any, Any] = {"SET": str(shards), "OTHER": str(other), "PIXELS": str(tmp_path / "pixels")}
    if "PIXELS" in dataset:
        imgshard("repack", shards, "-o", tmp_path / "pixels", "--encoding", "pixels", "--resize", "40")
    given: Any = names.get(dataset, dataset) if isinstance(dataset, str) else None
    if isinstance(dataset, dict):
        given = {names.get(path, path): weight for path, weight in dataset.items()}
    elif given is None:
        given = [names.get(path, path) for path in dataset]
    with pytest.raises(error, match=message):
        DataLoader(given, 6, **{**OPTIONS, **options}).close()
