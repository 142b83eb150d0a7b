"""Errors: the server's words as Python exceptions, and arguments that can't be honoured."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SAMPLES, SMALL, indices

import imgfeed
from imgfeed import DataLoader

Load = Callable[..., DataLoader]


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        ("evil", "evil"),
        ([{"op": "Rotate", "degrees": 5}], "Rotate"),
        ([{"op": "Resize", "size": -1}], "size"),
        ([{"op": "Resize", "sise": 256}], "sise"),
        ([], "transform"),
    ],
)
def test_a_bad_transform_is_named(load: Load, transform: Any, words: str) -> None:
    with pytest.raises(imgfeed.BadRequestError, match=words) as caught:
        load(transform=transform)
    assert isinstance(caught.value, ValueError)


def test_an_unknown_split_is_named(load: Load) -> None:
    with pytest.raises(imgfeed.MissingError, match=r"no split .test.*train"):
        load(split="test")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_sampler": [[1]]}, "batch_sampler= can't be honoured.*sampler="),
        ({"sampler": [1, 2], "shuffle": True}, "sampler= determines the whole order: omit shuffle="),
        (
            {"sampler": [1, 2], "weights": "balanced", "repeats": 2},
            "sampler= determines the whole order: omit weights=, repeats=",
        ),
        ({"order": [1, 2], "subset": 0.5, "shuffle": True}, "order= determines the whole order: omit subset=, shuffle="),
        ({"subset": 0.0}, "subset is 0.0, want a fraction above 0 and up to 1"),
        ({"subset": []}, "subset is empty"),
        ({"subset": (1.5, 0)}, "subset is .* want a fraction"),
        ({"subset": (1, 7)}, r"subset is \(1, 7\), and a tuple of two is a fraction, with a point, and a seed.*\[1, 7\]"),
        ({"subset": [2**63]}, "subset is .*want indices"),
        ({"weights": [1.0, -1.0]}, "weights holds -1 for sample 1, want finite numbers"),
        ({"weights": [0, 0]}, "weights is .* not all of them 0"),
        ({"weights": {"cat": float("nan")}}, "weights holds nan for 'cat', want finite numbers"),
        ({"weights": "even"}, "weights is 'even', want a number for each sample"),
        ({"repeats": 0}, "repeats is 0, want a whole number, 1 or more"),
        ({"num_samples": 0}, "num_samples is 0, want a whole number"),
        ({"pin_memory_device": "cuda:1"}, "device='cuda:N'"),
        ({"multiprocessing_context": "thread"}, "multiprocessing_context"),
        ({"prefetch_factor": 0}, "prefetch_factor"),
        ({"num_workers": 2}, "num_workers"),
        ({"drop_last": True, "even_batches": False}, "choose one"),
        ({"rank": 2, "world": 2}, "rank 2 of a world of 2"),
        ({"rank": 1}, "both rank and world"),
        ({"normalize": "imagenet"}, "need torch"),
        ({"resampler": "pillow-11"}, "pillow-12"),
    ],
)
def test_arguments_that_cannot_be_honoured(load: Load, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load(**options)


class Compose:
    """As in torchvision, where it holds its transforms."""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": None}, "batch_size is None"),
        ({"seed": None}, "seed is None"),
        ({"slots": 2.5}, "slots is 2.5"),
        ({"batch_size": 8.0}, "batch_size is 8.0"),
        ({"transform": None}, "transform holds NoneType, want the name of a preset, a transform of torchvision, or a list"),
        ({"transform": Compose()}, "transform holds Compose, want"),
        ({"transform": [{"op": "Resize", "size": 40}, Compose()]}, "transform holds Compose, want"),
        ({"transform": {"op": "Resize", "size": 40}}, r"one operation, want a list of them: \[\{'op'"),
        ({"transform": [{"op": "Resize", "size": Compose()}]}, "can't be sent"),
    ],
)
def test_arguments_of_a_wrong_type_say_what_is_wanted(load: Load, options: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        load(**options)


def test_a_dataset_of_torch_is_no_path() -> None:
    with pytest.raises(TypeError, match=r"dataset is a Compose, want the path of a shard set or of a folder of images"):
        DataLoader(Compose())


@pytest.mark.parametrize(
    ("given", "came"),
    [(3, "dataset is an int"), (None, "dataset is None"), (["/", 2], r"dataset\[1\] is an int"), (1.5, "is a float")],
)
def test_data_that_are_no_path(given: Any, came: str) -> None:
    with pytest.raises(TypeError, match=f"{came}, want the path of a shard set"):
        DataLoader(given, 4)


def test_a_missing_path_is_a_file_not_found(shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dangling").symlink_to("nowhere")
    sets: list[Any] = [tmp_path / "none", "none", "none/", "dangling", b"none", [shards, "none"], {str(shards): 1, "none": 2}]
    for given in sets:
        with pytest.raises(FileNotFoundError, match=rf"^imgfeed: dataset is {tmp_path}/\w+: no such file or folder$") as e:
            DataLoader(given, 4)
        assert isinstance(e.value, imgfeed.MissingError) and not isinstance(e.value, imgfeed.ServerError)
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        imgfeed.Dataset("none")
    (tmp_path / "file").write_text("")
    with pytest.raises(imgfeed.ServerError, match="file/below"):  # the server says why
        DataLoader(tmp_path / "file" / "below", 4)


def test_numbers_of_numpy_are_taken(load: Load) -> None:
    size: Any = np.int64(40)
    transform = [{"op": "Resize", "size": size}, {"op": "CenterCrop", "size": np.array([32, 32])}]
    loader = load(np.int32(8), transform=transform, shuffle=np.bool_(True), seed=np.int64(3), slots=np.int8(2))
    loader.set_epoch(np.int64(4))
    want = load(8, shuffle=True, seed=3)
    want.set_epoch(4)
    assert json.loads(json.dumps(loader.state_dict())) == want.state_dict()
    assert indices(loader) == indices(want)
    with pytest.raises(TypeError, match=r"epoch is 1\.5, want a whole number"):
        loader.set_epoch(1.5)


def test_an_empty_path_is_no_data() -> None:
    with pytest.raises(ValueError, match="empty"):
        DataLoader("", 2)
    with pytest.raises(ValueError, match="empty"):
        DataLoader("unix:", 2)


def test_a_dataset_of_torch_is_for_from_torch() -> None:
    class Images:
        def __getitem__(self, index: int) -> tuple[bytes, int]:
            return b"", index

    with pytest.raises(TypeError, match=r"dataset is an Images, want .*; imgfeed\.from_torch takes a dataset of torch$"):
        DataLoader(Images())


def test_torchs_defaults_are_taken(load: Load) -> None:
    loader = load(sampler=None, batch_sampler=None, pin_memory_device="", collate_fn=None, prefetch_factor=None)
    assert len(loader) > 0
    with pytest.raises(TypeError, match=r"""no argument 'shufle' \(did you mean "shuffle"\?\)$"""):
        load(shufle=True)


def test_a_damaged_sample_is_an_error_that_names_it(damaged: Path) -> None:
    with DataLoader(damaged, 4, framework="numpy", transform=SMALL, num_workers=1) as loader:
        with pytest.raises(imgfeed.CorruptError, match=r"\.imgshard"):
            list(loader)
        with pytest.raises(imgfeed.CorruptError):  # and the server is still there
            list(loader)


def test_an_error_does_not_end_the_epoch(damaged: Path) -> None:
    with DataLoader(damaged, 4, framework="numpy", transform=SMALL, num_workers=1) as loader:
        iteration = iter(loader)
        with pytest.raises(imgfeed.CorruptError):
            for _ in iteration:
                pass
        position = loader.state_dict()
        assert position["epoch"] == 0
        assert next(iteration, None) is None
        assert loader.state_dict() == position


def test_a_damaged_sample_may_be_blank(damaged: Path, caplog: pytest.LogCaptureFixture) -> None:
    with DataLoader(damaged, 4, framework="numpy", transform=SMALL, num_workers=1, on_error="blank", with_index=True) as loader:
        blank = 0
        seen: list[int] = []
        for batch in loader:
            blank += int((~np.any(batch[0], axis=(1, 2, 3))).sum())
            seen += indices([batch])
    assert seen == list(range(SAMPLES))
    assert blank == 2  # one in each of the two shard files
    assert len(re.findall(r"n9\d+/n9\d+_\d+\.JPEG", caplog.text)) == 2, caplog.text


def test_a_transform_that_is_too_long(load: Load) -> None:
    flip = {"op": "RandomHorizontalFlip"}
    with pytest.raises(
        imgfeed.BadRequestError, match=r"a request with this transform has [\d,]+ bytes, at most 65,536 are taken"
    ):
        load(transform=[{"op": "RandomOrder", "transforms": [flip] * 3000}, {"op": "CenterCrop", "size": 32}])


def test_messages_of_the_page_stand_in_the_code() -> None:
    """docs/errors.md quotes the constant parts of messages; … stands for the rest."""
    root = Path(__file__).parents[2]
    sources = [
        path.read_text()
        for folder, kind in (("python/imgfeed", "py"), ("trainer/imgfeed_train", "py"), ("", "go"))
        for path in sorted((root / folder).rglob(f"*.{kind}"))
        if not path.name.endswith("_test.go") and ".venv" not in path.parts
    ]
    code = re.sub(r'"\s*(?:\+\s*)?f?"', "", "\n".join(sources))
    quoted = re.findall(r"^\| `([^`]+)` \|", (root / "docs" / "errors.md").read_text(), re.MULTILINE)
    assert len(quoted) > 40
    gone = [q for q in quoted if not re.search(".{0,80}?".join(re.escape(part) for part in q.strip("…").split("…")), code)]
    assert gone == []
