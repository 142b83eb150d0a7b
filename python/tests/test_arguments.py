"""Every argument is checked before anything is started, and the error names it."""

import inspect
import math
import os
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import imgfeed
from imgfeed import DataLoader
from imgfeed._arguments.arguments import ARGUMENTS, REFUSED, Options, check

try:
    import torch
except ImportError:
    torch = None

Load = Callable[..., DataLoader]
DEFAULTS = {name: p.default for name, p in inspect.signature(DataLoader).parameters.items() if name in ARGUMENTS}


def checked(**given: Any) -> Options:
    return check({**DEFAULTS, "dataset": "/none", **given}, {})


def test_the_table_has_every_argument_of_the_signature() -> None:
    parameters = inspect.signature(DataLoader).parameters
    assert set(ARGUMENTS) == {name for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD}
    assert not set(ARGUMENTS) & set(REFUSED)


def test_defaults_are_what_is_wanted() -> None:
    options = checked()
    assert all(getattr(options, name) == default for name, default in DEFAULTS.items() if name != "dataset")


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_foreign_type_is_refused_at_once(name: str) -> None:
    if name in ("device", "dtype"):
        pytest.importorskip("torch")
    functions = ("collate_fn", "worker_init_fn", "order", "map", "map_batch", "mix", "size")
    for foreign in (object(), 1j, {1, 2}, *(() if name in functions else (lambda: None,))):
        given: dict[str, Any] = {"dataset": "/none", name: foreign}
        with pytest.raises(TypeError, match=rf"^imgfeed: {name}\b"):
            DataLoader(**given)


NUMBERS = ("batch_size", "seed", "rank", "world", "num_workers", "slots", "timeout")


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, 10**400, math.nan, math.inf, "1", True, np.bool_(True), np.array([1, 2])]
)
def test_numbers_that_are_none_or_too_large(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^imgfeed: {name} is "):
        checked(**{name: value})


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("batch_size", 1, 2**63 - 1),
        ("seed", -(2**63), 2**63 - 1),
        ("rank", 0, 2**63 - 1),
        ("world", 1, 2**63 - 1),
        ("num_workers", 0, 2**63 - 1),
        ("slots", 0, 2**63 - 1),
        ("timeout", 0, 2147483),
    ],
)
def test_ranges_end_where_they_say(name: str, low: int, high: int) -> None:
    for value in (low, high):
        assert getattr(checked(**{name: value}), name) == value
    for value in (low - 1, high + 1):
        with pytest.raises(ValueError, match=rf"^imgfeed: {name} is {value}, want "):
            checked(**{name: value})


def test_the_server_takes_numbers_at_the_ends(load: Load) -> None:
    for seed in (-(2**63), 2**63 - 1):
        loader = load(8, shuffle=True, seed=seed)
        loader.set_epoch(2**63 - 1)
        assert len(list(loader)) == len(loader)
    with pytest.raises(ValueError, match="epoch is 9223372036854775808, want a whole number, 0 or more"):
        load().set_epoch(2**63)


def test_the_server_says_what_is_too_large(load: Load) -> None:
    limits = load()._service.ask(lambda session: session.limits)
    most = {name: limits[name] for name in ("batch_size", "world", "slots", "size", "repeats")}
    for name, value in {**most, "num_samples": limits["positions"]}.items():
        rank = {"rank": 0} if name == "world" else {}
        weights = {"weights": "balanced"} if name == "num_samples" else {}
        for over in (value + 1, 2**63 - 1):
            with pytest.raises(imgfeed.ImgfeedError, match=str(value)):
                load(**{**rank, **weights, name: over})


SWITCHES = [name for name, default in DEFAULTS.items() if isinstance(default, bool)]


@pytest.mark.parametrize("name", SWITCHES)
def test_only_true_and_false_are_switches(name: str) -> None:
    for value in ("no", "False", "", 2, 0.0, [], np.int64(1)):
        with pytest.raises(TypeError, match=rf"^imgfeed: {name} is .*, want True or False"):
            checked(**{name: value})
    for value in (False, 0, np.bool_(False)):
        assert getattr(checked(**{name: value}), name) is False
    assert len(SWITCHES) >= 9


def test_torchs_shuffle_may_be_none() -> None:
    assert checked(shuffle=None).shuffle is False
    with pytest.raises(TypeError, match="drop_last is None"):
        checked(drop_last=None)


@pytest.mark.parametrize("name", ["on_error", "framework", "layout", "transport"])
def test_choices_name_what_there_is(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^imgfeed: {name} is 'foo', want '\w+'.* or '\w+'$"):
        checked(**{name: "foo"})


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (math.nan, "transform's Resize: size holds nan, want a finite number"),
        (-math.inf, "holds -inf"),
        (2**63, "holds 9223372036854775808"),
        ([40, math.nan], "holds nan"),
        (b"40", "can't be sent to the server"),
        ({40: 1}, "holds {40: 1}, want the names of parameters as text"),
    ],
)
def test_numbers_in_a_transform(size: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        checked(transform=[{"op": "Resize", "size": size}])


def test_a_transform_that_holds_itself() -> None:
    operation: dict[str, Any] = {"op": "RandomApply"}
    operation["transforms"] = [operation]
    with pytest.raises(ValueError, match=r"transform's RandomApply: .* within each other, 64 deep or more"):
        checked(transform=[operation])


def test_a_transform_is_taken_as_it_was() -> None:
    size = np.array([32, 32])
    operations = [{"op": "CenterCrop", "size": size}]
    options = checked(transform=operations)
    size[0] = operations[0]["size"] = 1
    assert options.operations(options.transform, {}) == [{"op": "CenterCrop", "size": [32, 32]}]


def test_the_home_folder(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(shards.parent))
    for path in ("~/train-shards", Path("~/train-shards"), b"~/train-shards"):
        assert checked(dataset=path).dataset == str(shards)
    assert checked(dataset="unix:~/sock").dataset == f"unix:{shards.parent}/sock"
    assert checked(dataset="./~").dataset == f"{os.getcwd()}/~"
    with DataLoader("~/train-shards", num_workers=1, framework="numpy") as loader:
        assert len(loader.dataset) > 0


def test_a_path_with_a_nul() -> None:
    with pytest.raises(ValueError, match=r"dataset .* holds no NUL"):
        checked(dataset="/data\0")
    for name in ("cache", "cache_size", "allow_source", "feeders", "tls", "metrics"):
        with pytest.raises(ValueError, match=f"imgfeed: {name} is .*: it holds a NUL"):
            DataLoader(".", 4, **{name: "\0"})


def test_an_address_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("ftp://bucket/train", "file:///data", b"azs://bucket"):
        with pytest.raises(ValueError, match=r"dataset is .*://.*, an address of an unknown kind: want a folder, or"):
            checked(dataset=address)
    for address in ("s3://bucket/train", "https://host/train", "hf://datasets/owner/name", "gs://bucket/train"):
        assert checked(dataset=address).dataset == address
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s4:" / "train").mkdir(parents=True)
    assert checked(dataset="s4://train").dataset == f"{tmp_path}/s4:/train"  # a folder that there is


def test_local_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert checked(dataset=[Path("a"), b"b/../c", "s3://d"]).dataset.paths == (f"{tmp_path}/a", f"{tmp_path}/b/../c", "s3://d")
    assert checked(dataset={Path("a"): 1, "b": 2}).dataset == ((f"{tmp_path}/a", f"{tmp_path}/b"), (1, 2))
    assert checked(dataset="unix:sock").dataset == f"unix:{tmp_path}/sock"
    assert (checked(cache="a").cache, checked(tls=Path("b")).tls) == (f"{tmp_path}/a", f"{tmp_path}/b")
    assert checked(feeders=["a:1", "file:b", "dns:c:2"]).feeders == f"a:1,file:{tmp_path}/b,dns:c:2"
    assert checked(feeders="file:b,file:/c").feeders == f"file:{tmp_path}/b,file:/c"


def test_a_list_of_paths_is_shown_as_paths() -> None:
    with pytest.raises(ValueError, match="dataset has unix:/sock, want paths of sets: "):
        checked(dataset=[Path("/a"), "unix:/sock"])
    with pytest.raises(ValueError, match="dataset is empty, want paths of sets"):
        checked(dataset=[])


def test_a_socket_path_has_a_limit(tmp_path: Path) -> None:
    assert checked(dataset="unix:/" + 106 * "x").dataset == "unix:/" + 106 * "x"
    for path in ("/" + 107 * "x", "/" + 54 * "é"):
        with pytest.raises(ValueError, match=r"dataset is .*at most 107 bytes, and this has 10[89]: choose a shorter one"):
            DataLoader("unix:" + path)


@pytest.mark.parametrize(
    ("normalize", "error"),
    [
        ("cifar", ValueError),
        (True, TypeError),
        (0.5, TypeError),
        (("123", "456"), TypeError),
        (((0, 0, 0), (1, 1, None)), TypeError),
        (((0, 0, 0),), ValueError),
        (((0, 0), (1, 1)), ValueError),
        (((0, 0, 0), (1, 1, 0)), ValueError),
        (((0, 0, 0), (1, 1, -1)), ValueError),
        (((0, 0, 0), (1, 1, math.nan)), ValueError),
        (((0, 0, math.inf), (1, 1, 1)), ValueError),
    ],
)
def test_statistics_that_normalise_nothing(normalize: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^imgfeed: normalize is .*, want 'imagenet' or a pair"):
        checked(normalize=normalize)


def test_statistics_of_numpy() -> None:
    mean = np.array([0.5, 0.25, 0.125], np.float32)
    assert checked(normalize=(mean, 2 * mean)).normalize == ((0.5, 0.25, 0.125), (1.0, 0.5, 0.25))


def test_types_that_hold_no_pixel() -> None:
    torch = pytest.importorskip("torch")
    for name in ("int8", "bool", "complex64", "qint8"):
        with pytest.raises(ValueError, match=rf"dtype is torch\.{name}, want one that holds pixels from 0 to 255: uint8"):
            checked(dtype=getattr(torch, name))
    for dtype in (torch.uint8, torch.int64):
        assert checked(dtype=dtype).dtype is dtype
        with pytest.raises(ValueError, match="floating point for what normalize= gives"):
            checked(dtype=dtype, normalize="imagenet")
    for dtype in (torch.int16, torch.bfloat16, torch.float16):  # every pixel survives
        pixels = torch.arange(256, dtype=torch.uint8)
        assert torch.equal(pixels.to(checked(dtype=dtype).dtype).to(torch.uint8), pixels)


@pytest.mark.parametrize("device", ["foo", "", "cuda:x", "cuda:-1", -1, 2**40, "mps", "meta"])
def test_devices_that_there_are_not(device: Any) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"^imgfeed: device is .*, want 'cpu', 'cuda', 'cuda:N'"):
        checked(device=device)


def test_devices_by_name_number_and_object() -> None:
    torch = pytest.importorskip("torch")
    assert checked(device="cpu").device == checked(device=torch.device("cpu")).device == torch.device("cpu")
    assert checked(device=1).device == checked(device=np.int64(1)).device == torch.device("cuda:1")
    with pytest.raises(TypeError, match="device is True"):
        checked(device=True)


def test_only_torch_has_devices_and_types(load: Load) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="these need torch, and framework is 'numpy': device, normalize, pin_memory"):
        load(device="cpu", normalize="imagenet", pin_memory=True)


def test_arguments_do_not_change_later(load: Load) -> None:
    loader = load(8)
    for name in ("batch_size", "sampler", "batch_sampler", "dataset", "timeout", "shuffle", "rank", "collate_fn"):
        with pytest.raises(ValueError, match=f"{name} can't be changed"):
            setattr(loader, name, 1)
    assert loader.batch_size == 8


def test_arrays_are_taken_as_they_are() -> None:
    """Numbers of numpy and torch don't become objects of Python, of which those of a large set take gigabytes."""
    size = 300_000
    for name, array in (("weights", np.ones(size)), ("weights", np.ones(size, np.float32)), ("order", np.arange(size))):
        for given in [array, *([] if torch is None else [torch.from_numpy(array)])]:
            tracemalloc.start()
            taken = getattr(checked(**{name: given}), name)
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert most < 1.5 * 8 * size
            assert taken.dtype == ("int64" if name == "order" else "float64")
            assert np.array_equal(taken, array) and not np.shares_memory(taken, array)


def test_tensors_that_numpy_does_not_take() -> None:
    torch = pytest.importorskip("torch")
    for weights in (torch.ones(9, requires_grad=True), torch.ones(9, dtype=torch.bfloat16)):
        assert checked(weights=weights).weights.tolist() == [1.0] * 9


@pytest.mark.parametrize("weights", [np.ones(9, bool), np.ones((9, 1)), np.array(1.0), np.full(9, "1")])
def test_arrays_that_are_no_weights(weights: Any) -> None:
    with pytest.raises(TypeError, match=r"(?s)imgfeed: weights is .* want a number for each sample"):
        checked(weights=weights)


def test_an_iterations_timeout_may_change(load: Load) -> None:
    iteration = iter(load(8, timeout=30))
    assert iteration.timeout == 30
    iteration.timeout = 20
    assert iteration.timeout == 20
    for wrong in ("20", math.nan, -1):
        with pytest.raises((TypeError, ValueError), match=r"timeout is .*, want seconds"):
            iteration.timeout = wrong


def test_the_server_is_not_asked_for_a_key_that_is_no_number(load: Load) -> None:
    dataset = load(8).dataset
    assert dataset.key(np.int64(3)) == dataset.key(3)
    with pytest.raises(TypeError, match="index is '3'"):
        dataset.key("3")
    with pytest.raises(imgfeed.ImgfeedError):
        dataset.key(len(dataset))


DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def rows(section: str) -> list[list[str]]:
    """Return the cells of a section's tables in docs/python.md."""
    text = DOCUMENT.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")]
    assert cells
    return cells


def test_the_docstring_lists_every_argument() -> None:
    """In the groups and the order of the table, each with its meaning; the site's page is made of it."""
    text = DataLoader.__doc__ or ""
    for group in dict.fromkeys(row.metadata["group"] for row in ARGUMENTS.values()):
        block = text.split(f"\n    {group.capitalize()}:\n")[1].split("\n\n")[0]
        want = [name for name, row in ARGUMENTS.items() if row.metadata["group"] == group]
        if group == "torch compatibility":
            want += REFUSED
        assert re.findall(r"^ {8}(\w+): \S", block, re.MULTILINE) == want


def test_the_document_has_every_error_and_attribute(load: Load) -> None:
    def base(name: str) -> str:
        bases = [b.__name__ for b in getattr(imgfeed, name).__bases__ if b is not imgfeed.ImgfeedError]
        return ", ".join(f"`{b}`" for b in bases)

    named = {r[0].strip("`"): r[1] for r in rows("Errors")}
    others = ("DataLoader", "Dataset", "ImgfeedError", "from_torch", "reference")
    assert named == {name: base(name) for name in imgfeed.__all__ if name not in others}
    loader, text = load(8), " ".join(r[0] + r[1] for r in rows("A loader"))
    public = [n for part in (loader, loader.dataset) for n in dir(part) if not n.startswith("_")]
    assert [n for n in public if f"{n}`" not in text and f"{n}(" not in text and f"{n}." not in text] == []


def test_arguments_do_not_change(load: Load) -> None:
    loader = load(2)
    options, small = loader._options, checked(batch_size=3)
    transform = options.transform
    loader.set_batch_size(5)
    loader.set_transform("train")
    assert (options.batch_size, options.transform) == (2, transform)
    assert (loader._options.batch_size, loader._options.transform) == (5, "train")
    assert loader.batch_sampler.batch_size == loader.batch_size == 5
    assert len(loader) == len(loader.batch_sampler) == -(-len(loader.dataset) // 5)
    assert checked(decode="full", map=print).transform != checked().transform
    with pytest.raises(AttributeError):
        small.batch_size = 4
