"""Records that come with batches: of each sample, in every view, what was done to it, whenever somebody looks."""

import copy
import itertools
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import RANDOM, SAMPLES, SMALL, Server, installed_resampler

from imgfeed import CorruptError, DataLoader, reference
from imgfeed.records import Records

Load = Callable[..., DataLoader]

#: What makes samples come more than once, in an order that the seed shuffles where it can be.
CHOICES: dict[str, dict[str, Any]] = {
    "each once": {"shuffle": True},
    "subset": {"shuffle": True, "subset": (0.3, 2)},
    "repeats": {"shuffle": True, "repeats": 3},
    "weights": {"weights": np.arange(SAMPLES), "num_samples": 60},
    "balanced": {"subset": np.arange(40), "weights": "balanced", "repeats": 2},
    "order": {"order": [7, 3, 7, 100, 7, 21, 3, 9]},
    "shuffled list": {"shuffle": True, "subset": [7, 3, 7, 100, 7, 21, 3, 9], "repeats": 2},
    "function": {"order": lambda epoch: [7, 7, epoch, 7], "repeats": 2},
    "sampler": {"sampler": [7, 3, 7, 100, 7, 21]},
}
POLICY: list[dict[str, Any]] = [
    *RANDOM,
    {"op": "TrivialAugmentWide"},
    {"op": "ColorJitter", "brightness": 0.4, "hue": 0.1},
    {"op": "RandomRotation", "degrees": 20, "fill": [1, 2, 3]},
]


def drawn(record: Any) -> list[int]:
    """Return what with_params=True says of RANDOM, from its record."""
    crop = record[0]
    assert crop["op"] == "crop" and record[1]["op"] == "resize"
    return [crop["top"], crop["left"], crop["height"], crop["width"], int(record[-1]["op"] == "hflip")]


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("name", CHOICES)
def test_records_are_those_of_the_batch(load: Load, name: str, world: int) -> None:
    for rank in range(world):
        options = {"transform": RANDOM, "seed": 5, "rank": rank, "world": world, **CHOICES[name]}
        recorded, plain = load(8, with_params="records", **options), load(8, with_params=True, **options)
        batches, want = [*recorded, *recorded], [*plain, *plain]  # two epochs, looked at when both are over
        for (images, labels, index, records), (pixels, _, indices, params) in zip(batches, want, strict=True):
            assert np.array_equal(images, pixels) and np.array_equal(index, indices) and len(records) == len(labels)
            assert [drawn(record) for record in records] == params.tolist()


@pytest.mark.parametrize("name", CHOICES)
def test_references_of_records_are_the_batch(load: Load, name: str) -> None:
    pytest.importorskip("torchvision")
    views = {"views": [POLICY, {"repeat": 2, "ops": [*SMALL, {"op": "AugMix"}]}]}
    loader = load(8, transform=views, with_params="records", resampler=installed_resampler(), seed=1, **CHOICES[name])
    loader.set_epoch(3)
    for images, _, index, records in itertools.islice(loader, 2):
        assert len(images) == len(records) == 3
        for view, of in zip(images, records, strict=True):
            for pixels, i, record in zip(view, index, of, strict=True):
                assert np.array_equal(pixels, reference(loader.dataset[i][0], record))


@pytest.mark.parametrize("on_error", ["blank", "substitute"])
def test_records_of_what_stands_in_for_bad_samples(damaged: Path, on_error: str) -> None:
    pytest.importorskip("torchvision")
    options = {"transform": POLICY, "with_params": "records", "with_index": True, "framework": "numpy", "num_workers": 1}
    with DataLoader(damaged, 16, on_error=on_error, repeats=2, resampler=installed_resampler(), **options) as loader:
        blank = 0
        for images, labels, index, records in loader:
            for pixels, label, i, record in zip(images, labels, index, records, strict=True):
                if on_error == "blank" and label == -100:
                    assert record is None and not pixels.any()
                    blank += 1
                else:
                    assert np.array_equal(pixels, reference(loader.dataset[i][0], record))
        assert loader.bad and (blank > 0) == (on_error == "blank")
        with pytest.raises(CorruptError, match="shard"):
            loader.records([next(iter(loader.bad))], 0)


def test_records_outlast_their_epoch_and_their_server(shards: Path, tmp_path: Path) -> None:
    server = Server(shards, tmp_path / "sock")
    server.start()
    options: dict[str, Any] = {"transform": RANDOM, "shuffle": True, "framework": "numpy", "with_index": True}
    with DataLoader(f"unix:{server.socket}", 8, with_params="records", reconnect=10, **options) as loader:
        *_, index, first = next(iter(loader))
        running = iter(loader)
        *_, earlier, second = next(running)
        server.end(signal.SIGKILL)
        server.start()
        assert first[0] == loader.records(index[:1], 0)[0] and loader.stats()["reconnects"] == 1
        [*rest] = running
        assert len(rest) == len(loader) - 1, "the epoch goes on after a question has met the loss"
        *_, later, last = next(iter(loader))
        server.end(signal.SIGTERM)
        server.start()
        assert list(second) == loader.records(earlier, 1) and list(last) == loader.records(later, 2)
    server.end(signal.SIGTERM)


def test_a_batchs_records_are_asked_for_once_and_when_they_are_looked_at(load: Load) -> None:
    loader = load(40, transform=RANDOM, with_params="records")
    asked: list[int] = []
    *_, index, records = next(iter(loader))
    assert isinstance(records, Records) and repr(records) == "<records of 40 samples, epoch 0, view 0>"
    ask, service = loader._service.ask, loader._service

    def counted(question: Any) -> Any:
        made = ask(question)
        asked.append(len(made))
        return made

    service.ask = counted
    want = loader.records(index, 0)
    assert asked == [32, 8]
    asked.clear()
    assert [records[3], records[-1], records[3]] == [want[3], want[-1], want[3]] and asked == [1, 1]
    assert records[2:5] == want[2:5] and list(records) == want and asked == [1, 1, 2, 29, 7]
    assert pickle.loads(pickle.dumps(records)) == copy.deepcopy(records) == want and sum(asked) == 40
    with pytest.raises(IndexError):
        records[40]


@pytest.mark.parametrize("transform", [RANDOM, {"views": [RANDOM, SMALL]}])
def test_records_of_torch_and_of_collate_fn(load: Load, transform: Any) -> None:
    torch = pytest.importorskip("torch")
    loader = load(8, transform=transform, framework="torch", with_params="records")
    images, labels, index, records = next(iter(loader))
    assert isinstance(labels, torch.Tensor)
    several = isinstance(images, list)
    want = [loader.records(index, 0, view=view) for view in range(2 if several else 1)]
    assert [list(of) for of in (records if several else [records])] == want
    made = next(iter(load(8, transform=transform, framework="torch", with_params="records", collate_fn=list)))
    assert [sample[3] for sample in made] == [list(of) if several else of[0] for of in zip(*want, strict=True)]
