"""Several views of each image: a list of images in each batch, and the pixels of each view's transform."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import SAMPLES, SMALL, installed_resampler

from imgfeed import BadRequestError, DataLoader

Load = Callable[..., DataLoader]
GLOBAL = [
    {"op": "RandomResizedCrop", "size": 32, "scale": [0.4, 1]},
    {"op": "RandomHorizontalFlip"},
    {"op": "ColorJitter", "hue": 0.1},
]
LOCAL = [{"op": "RandomResizedCrop", "size": [12, 8], "scale": [0.05, 0.4]}, {"op": "RandomSolarize", "threshold": 100}]
VIEWS = {"views": [GLOBAL, GLOBAL, {"repeat": 3, "ops": LOCAL}]}
SHAPES = [(32, 32), (32, 32), (12, 8), (12, 8), (12, 8)]


@pytest.mark.parametrize("transport", ["shm", "socket"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_batch_has_a_list_of_views(load: Load, transport: str, layout: str) -> None:
    loader = load(8, transform=VIEWS, transport=transport, layout=layout, with_params=True, shuffle=True, seed=3)
    alone = load(8, transform=GLOBAL, layout=layout, with_params=True, shuffle=True, seed=3)
    batches = 0
    for (images, labels, index, params), (first, *rest) in zip(loader, alone, strict=True):
        assert isinstance(images, list) and isinstance(params, list) and len(params) == len(SHAPES)
        n = len(labels)
        assert [v.shape for v in images] == [(n, h, w, 3) if layout == "NHWC" else (n, 3, h, w) for h, w in SHAPES]
        assert np.array_equal(images[0], first), "the first view draws what its transform draws alone"
        assert np.array_equal(labels, rest[0]) and np.array_equal(index, rest[1]) and np.array_equal(params[0], rest[2])
        for one, other in ((0, 1), (2, 3), (3, 4)):
            assert not np.array_equal(images[one], images[other]) and not np.array_equal(params[one], params[other])
        batches += 1
    assert batches == -(-SAMPLES // 8)


def test_views_are_torchvisions(load: Load) -> None:
    pytest.importorskip("torchvision", minversion="0.15")
    check = pytest.importorskip("imgfeed.check")
    loader = load(32, transform=VIEWS, resampler=installed_resampler(), shuffle=True, seed=1)
    report = check.check(loader, 64)
    assert report.compared == 64 and report.differ == []


@pytest.mark.parametrize("preset", ["eval", "simclr", "byol", "moco-v3", "dino", "dinov2"])
def test_presets_are_torchvisions(load: Load, preset: str) -> None:
    pytest.importorskip("torchvision")
    check = pytest.importorskip("imgfeed.check")
    report = check.check(load(6, transform=preset, resampler=installed_resampler(), shuffle=True), 6)
    assert report.compared == 6 and report.differ == []
    assert all(share < 1e-3 and any(call["op"] == "gaussian_blur" for call in record) for _, share, _, record in report.rounded)


def test_crops_are_torchvisions(load: Load) -> None:
    pytest.importorskip("torchvision")
    check = pytest.importorskip("imgfeed.check")
    crops = [{"op": "RandomRotation", "degrees": 20}, {"op": "Resize", "size": 60}, {"op": "TenCrop", "size": 48}]
    loader = load(16, transform=crops, resampler=installed_resampler(), with_params=True)
    images, *_, params = next(iter(loader))
    assert len(images) == len(params) == 10 and len(loader.records([3], 0, view=9)[0]) == 4
    records = [loader.records([3], 0, view=view)[0] for view in range(10)]
    assert all(record[0] == records[0][0] for record in records), "all crops are of one rotated image"
    report = check.check(loader, 32)
    assert report.compared == 32 and report.differ == report.rounded == []


def test_a_sample_whose_views_differ_is_one_sample(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    check = importlib.import_module("imgfeed.check")
    report = check.Report(5, [(3, 0.1, 1, []), (3, 0.2, 1, []), (5, 0.1, 2, [])], [(3, 0.0001, 1, []), (7, 0.0002, 1, [])])
    check._tell(report, load(), "torchvision")
    said = capsys.readouterr().out
    assert "2 of 5 samples are identical" in said and "1 differ by one level in up to 0.0200% of the values" in said


def test_batches_that_are_held(load: Load) -> None:
    held = list(load(8, transform=VIEWS, slots=3))
    assert all(len(images) == 5 for images, *_ in held)
    again = [[v.copy() for v in images] for images, *_ in load(8, transform=VIEWS)]
    for (images, *_), want in zip(held, again, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(images, want, strict=True))


def test_one_view_in_a_list_is_a_list_of_one(load: Load) -> None:
    images, *_ = next(iter(load(8, transform={"views": [SMALL]})))
    assert [v.shape for v in images] == [(8, 32, 32, 3)]


def test_a_sample_that_cannot_be_read_is_black_in_all_views(load: Load) -> None:
    loader = load(8, transform={"views": [SMALL, [{"op": "CenterCrop", "size": 4}]]}, on_error="blank")
    assert all(len(images) == 2 for images, *_ in loader)


def test_tensors(load: Load) -> None:
    torch = pytest.importorskip("torch")
    numpy = [[v.copy() for v in images] for images, *_ in load(8, transform=VIEWS)]
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
    loader = load(8, transform=VIEWS, framework="torch", normalize=(mean, std), with_params=True)
    for (images, _, _, params), want in zip(loader, numpy, strict=True):
        assert all(isinstance(p, torch.Tensor) and p.shape == (len(p), 5) for p in params)
        for got, pixels in zip(images, want, strict=True):
            assert got.dtype == torch.float32 and got.shape[1] == 3
            expected = (pixels.transpose(0, 3, 1, 2) / 255 - np.reshape(mean, (1, 3, 1, 1))) / np.reshape(std, (1, 3, 1, 1))
            assert np.allclose(got.numpy(), expected, atol=1e-5)


def test_collate(load: Load) -> None:
    made = next(iter(load(8, transform=VIEWS, collate_fn=list)))
    assert len(made) == 8
    views, label, index = made[3]
    assert [v.shape[:2] for v in views] == SHAPES and isinstance(label, int) and isinstance(index, int)


def test_objects_of_torchvision(load: Load) -> None:
    torch = pytest.importorskip("torch")
    transforms = pytest.importorskip("torchvision.transforms")
    crop = [transforms.RandomResizedCrop(16), transforms.RandomHorizontalFlip()]
    ends = [transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)]
    spec = {
        "views": [
            transforms.Compose([*crop, *ends]),
            {"repeat": 2, "ops": transforms.Compose([transforms.CenterCrop(8), *ends])},
        ]
    }
    images, *_ = next(iter(load(8, transform=spec, framework="torch")))
    assert [tuple(v.shape) for v in images] == [(8, 3, 16, 16), (8, 3, 8, 8), (8, 3, 8, 8)]
    assert all(v.dtype == torch.float32 and v.min() >= -1 for v in images)
    with pytest.raises(ValueError, match="views 0 and 1 end otherwise"):
        load(transform={"views": [transforms.Compose([*crop, *ends]), transforms.Compose(crop)]})


@pytest.mark.parametrize(
    ("transform", "error", "words"),
    [
        ({"views": "train"}, TypeError, r"want {\"views\": \[transform"),
        ({"views": [SMALL], "repeat": 2}, TypeError, r"want {\"views\": \[transform"),
        ({"views": [{"views": [SMALL]}]}, TypeError, "views hold no views"),
        ({"views": [SMALL, 3]}, TypeError, "transform's view 1 holds int"),
        (
            {"views": [{"repeat": 2.5, "ops": "eval"}]},
            BadRequestError,
            "view 0: repeat is 2.5, want a whole number from 1 to 64",
        ),
        ({"views": []}, BadRequestError, "no views"),
        (
            {"views": [{"repeat": 100, "ops": "eval"}]},
            BadRequestError,
            "view 0: repeat is 100, want a whole number from 1 to 64",
        ),
        ({"views": ["eval", [{"op": "Resize", "size": 8}]]}, BadRequestError, "view 1: the images would differ in size"),
        ({"views": ["eval", [{"op": "Blur"}]]}, BadRequestError, r"view 1: operation 0 \(Blur\): unknown operation"),
    ],
)
def test_views_that_cannot_be(load: Load, transform: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        load(transform=transform)
