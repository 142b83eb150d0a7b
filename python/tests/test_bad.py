"""Unreadable samples: their substitutes of the same class, and loaders that accept only so many of them."""

from pathlib import Path
from typing import Any

import pytest
from conftest import RANDOM, SAMPLES, seen
from reliability import outcome

import imgfeed
from imgfeed import DataLoader

OPTIONS: dict[str, Any] = {"framework": "numpy", "with_index": True, "transform": RANDOM, "shuffle": True, "seed": 3}
EPOCH = 2


@pytest.fixture
def badly(damaged: Path) -> Path:
    """The common set with two damaged samples in each of its two shards."""
    for path in damaged.rglob("*.imgshard"):
        data = bytearray(path.read_bytes())
        data[len(data) // 4] ^= 0x40
        path.write_bytes(data)
    return damaged


def epoch(data: Path, **options: Any) -> tuple[list[tuple[int, str]], dict[int, int | None]]:
    """Return what an epoch gives, and what stood for what in it."""
    with DataLoader(data, 4, **{**OPTIONS, "on_error": "substitute", **options}) as loader:
        loader.set_epoch(EPOCH)
        got = seen(loader)
        assert loader.stats()["substitutes"] == len(loader.bad) and loader.stats()["blanks"] == 0
        return got, {index: bad.by for index, bad in loader.bad.items()}


def test_substitutes_are_the_same_on_any_ranks_and_threads(badly: Path, shards: Path) -> None:
    whole = dict(epoch(shards)[0])
    got, by = epoch(badly, num_workers=1)
    assert len(got) == SAMPLES and len(by) == 4
    with DataLoader(shards, 4, **OPTIONS) as loader:
        targets = loader.dataset.targets
    assert all(other is not None and other not in by and targets[other] == targets[index] for index, other in by.items())
    assert [index for index, _ in got] == [by.get(index, index) for index in dict(epoch(shards)[0])]
    assert all(pixels == whole[index] for index, pixels in got), "a substitute is the sample itself"
    assert epoch(badly, num_workers=3) == (got, by)
    of_ranks = [epoch(badly, rank=rank, world=2, even_batches=False) for rank in range(2)]
    assert sorted(of_ranks[0][0] + of_ranks[1][0]) == sorted(got)
    assert {**of_ranks[0][1], **of_ranks[1][1]} == by


def test_substitutes_after_a_resume(badly: Path) -> None:
    got, _ = epoch(badly)
    with DataLoader(badly, 4, **OPTIONS, on_error="substitute") as loader:
        loader.set_epoch(EPOCH)
        iteration = iter(loader)
        begun = seen([next(iteration) for _ in range(9)])
        state = loader.state_dict()
    with DataLoader(badly, 4, **OPTIONS, on_error="substitute") as loader:
        loader.load_state_dict(state)
        assert begun + seen(loader) == got


def test_bad_samples_are_told(badly: Path, caplog: pytest.LogCaptureFixture) -> None:
    with DataLoader(badly, 4, **OPTIONS, on_error="substitute") as loader:
        list(loader)
        first = dict(loader.bad)
        list(loader)
        assert loader.bad == first and len(first) == 4, "each once, as it was met first"
        for index, bad in first.items():
            assert bad.index == index and bad.epoch == 0
            assert "CRC-32C" in bad.error and ".imgshard" in bad.error
            assert f" 1 substituted sample, which can't be read: {bad.key} (replaced by sample {bad.by})" in caplog.text
    assert "by" not in OPTIONS and "blank" not in caplog.text


@pytest.mark.parametrize("on_error", ["blank", "substitute"])
def test_too_many_are_listed(badly: Path, on_error: str) -> None:
    with DataLoader(badly, 4, **OPTIONS, on_error=on_error, max_bad=3) as loader:
        with pytest.raises(imgfeed.TooManyBadError, match=r"^imgfeed: 4 samples can't be read, and max_bad is 3:\n") as caught:
            for _ in range(3):
                list(loader)
        assert len(loader.bad) == 4
        lines = str(caught.value).splitlines()[1:]
        assert lines == [f"sample {index} ({bad.key}): {bad.error}" for index, bad in loader.bad.items()]
        assert loader.state_dict()["epoch"] == 0 and loader.state_dict()["consumed"] % 4 == 0
        with pytest.raises(imgfeed.TooManyBadError):
            list(loader)
    with DataLoader(badly, 4, **OPTIONS, on_error=on_error, max_bad=4) as loader:
        assert len(list(loader)) == len(loader)
    outcome("more samples than `max_bad` are bad", "the epoch ends with an error that lists them", caught.value)


def test_a_class_without_a_whole_sample(badly: Path, shards: Path) -> None:
    """Of four samples to choose from, all of one class, those that can be read stand for the others; else the epoch ends."""
    with DataLoader(badly, 4, **OPTIONS, on_error="substitute") as loader:
        list(loader)
        index = next(iter(loader.bad))
    alone = DataLoader(badly, 1, **OPTIONS, on_error="substitute", subset=[index])
    with alone, pytest.raises(imgfeed.CorruptError, match=rf"sample {index} .*\(0 were tried\)$") as caught:
        list(alone)
    said = "another sample of its class is delivered; without one the epoch ends"
    outcome("a sample is damaged, with `on_error='substitute'`", said, caught.value)


def test_how_many_are_borne_goes_with_what_becomes_of_them(shards: Path) -> None:
    with pytest.raises(ValueError, match="max_bad goes with on_error='blank' or 'substitute'"):
        DataLoader(shards, 4, max_bad=3)
