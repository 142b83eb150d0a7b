"""Boxes and masks that follow the images, in batches of every kind."""

import importlib.util
import itertools
import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import installed_resampler, loaders
from shard_writer import CLASSES, FIELDS, stored, with_fields

import imgfeed
from imgfeed import DataLoader, reference
from imgfeed import check as checks

#: What moves targets and draws nothing, and the same by numpy.
FLIP = [{"op": "RandomHorizontalFlip", "p": 1}, {"op": "Resize", "size": [48, 64]}]
DRAWN = [
    {"op": "RandomZoomOut", "mask_fill": 7},
    {"op": "RandomIoUCrop"},
    {"op": "SanitizeBoundingBoxes"},
    {"op": "RandomHorizontalFlip"},
    {"op": "Resize", "size": [40, 40]},
]
#: Lists of every kind of operation that moves targets.
RECIPES: dict[str, Any] = {
    **{name: name for name in ("detection", "ssd300", "segmentation")},
    "drawn": DRAWN,
    "crops": [
        {"op": "RandomResize", "min_size": 60, "max_size": 200},
        {"op": "RandomCrop", "size": 96, "pad_if_needed": True, "fill": 9, "mask_fill": 255},
        {"op": "ClampBoundingBoxes"},
        {"op": "CenterCrop", "size": 120},
    ],
    "maps": [
        {"op": "RandomAffine", "degrees": 20, "translate": [0.1, 0.1], "scale": [0.8, 1.2], "mask_fill": 3},
        {"op": "RandomRotation", "degrees": 90},
        {"op": "ConvertBoundingBoxFormat", "format": "cxcywh"},
        {"op": "RandomVerticalFlip"},
        {"op": "Letterbox", "size": [64, 80], "mask_fill": 255},
        {"op": "RandomPhotometricDistort"},
    ],
    "scaled": [
        {"op": "ScaleJitter", "target_size": [100, 100], "scale_range": [0.3, 1.5]},
        {"op": "FixedSizeCrop", "size": 90, "mask_fill": 255},
        {"op": "Pad", "padding": [1, 2, 3, 4], "mask_fill": 5},
        {"op": "SanitizeBoundingBoxes", "min_size": 4, "min_area": 40},
    ],
}


@pytest.fixture(scope="module")
def both(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The common images with objects and masks, without class labels."""
    return with_fields(shards, tmp_path_factory.mktemp("both") / "train-shards", FIELDS, stored, classes=[])


@pytest.fixture(scope="module")
def masked(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The common images with class labels and masks."""
    out = tmp_path_factory.mktemp("masked") / "train-shards"
    return with_fields(shards, out, FIELDS[2:], lambda sample: stored(sample)[2:])


@pytest.fixture
def load(both: Path) -> Iterator[Callable[..., DataLoader]]:
    """Makes loaders of numpy arrays with boxes and indices, and closes them."""
    yield from loaders(both, framework="numpy", with_index=True, transform=FLIP, boxes="xyxy", num_workers=1)


#: The results of flipped, by index: all sets of this module have the same samples.
FLIPPED: dict[int, dict[str, Any]] = {}


def flipped(loader: DataLoader, index: int) -> dict[str, Any]:
    """Return what FLIP makes of a sample's targets, in numpy."""
    if index in FLIPPED:
        return FLIPPED[index]
    values, image = loader.dataset.get(index), loader.dataset[index][0]
    boxes, scale = values["objects"]["boxes"], np.array([64 / image.width, 48 / image.height] * 2, np.float32)
    boxes = np.stack([image.width - boxes[:, 2], boxes[:, 1], image.width - boxes[:, 0], boxes[:, 3]], axis=1) * scale
    rows = np.floor(np.arange(48, dtype=np.float32) * np.float32(image.height / 48)).astype(int)
    columns = np.floor(np.arange(64, dtype=np.float32) * np.float32(image.width / 64)).astype(int)
    mask = values["mask"][:, ::-1][rows.clip(max=image.height - 1)][:, columns.clip(max=image.width - 1)]
    size = np.array([image.height, image.width])
    FLIPPED[index] = {**values["objects"], "boxes": boxes, "mask": mask, "image_id": values["image_id"], "orig_size": size}
    return FLIPPED[index]


def equal(got: Any, want: dict[str, Any]) -> bool:
    """Whether two targets have the same values under the same names."""
    return got.keys() == want.keys() and all(np.array_equal(got[name], want[name]) for name in want)


def flat(batches: Any) -> list[tuple[int, dict[str, Any]]]:
    """Return each sample's index and a copy of its target, in order."""
    return [
        (int(i), {name: np.array(value) for name, value in target.items()})
        for _, targets, index in batches
        for i, target in zip(index, targets, strict=True)
    ]


def same(a: list[tuple[int, dict[str, Any]]], b: list[tuple[int, dict[str, Any]]]) -> bool:
    return len(a) == len(b) and all(i == j and equal(x, y) for (i, x), (j, y) in zip(a, b, strict=True))


@pytest.mark.parametrize("transport", ["shm", "socket"])
def test_a_dictionary_for_each_image(load: Any, transport: str) -> None:
    loader = load(shuffle=True, transport=transport)
    held = list(loader)  # more than the ring has slots: some are copies
    assert loader.dataset.classes == CLASSES and loader.dataset.fields["objects"] == "objects"
    for images, targets, indices in held:
        assert images.shape == (len(targets), 48, 64, 3) and isinstance(targets, list)
        for target, index in zip(targets, indices, strict=True):
            assert equal(target, flipped(loader, int(index))), index
            assert target["boxes"].dtype == np.float32 and target["boxes"].shape == (index % 5, 4)
            assert target["labels"].dtype == target["iscrowd"].dtype == target["orig_size"].dtype == np.int64
            assert target["area"].dtype == np.float32 and target["image_id"] == 1000 + index
            assert target["mask"].dtype == np.uint8 and target["mask"].base is not None


def test_torch_gets_tensors(load: Any) -> None:
    torch = pytest.importorskip("torch")
    plain = load()
    for device in (None, "cpu"):
        for images, targets, indices in load(framework="torch", device=device):
            assert images.shape == (len(targets), 3, 48, 64)
            for target, index in zip(targets, indices.tolist(), strict=True):
                want = flipped(plain, index)
                assert all(isinstance(target[name], torch.Tensor) for name in ("boxes", "labels", "area", "orig_size", "mask"))
                assert type(target["image_id"]) is int
                assert equal({name: np.asarray(value) for name, value in target.items()}, want)


@pytest.mark.parametrize("transport", ["shm", "socket"])
def test_on_a_device(load: Any, masked: Path, monkeypatch: pytest.MonkeyPatch, transport: str) -> None:
    """Dictionaries stay on the host, a mask array goes along; a slot is held until its copy is done."""
    pytest.importorskip("torch")
    import simulated_cuda

    simulated_cuda.install(monkeypatch)
    options: dict[str, Any] = {"transform": DRAWN[3:], "shuffle": True, "transport": transport}
    for of in ({}, {"data": masked, "boxes": None}):
        device = load(framework="torch", device="cuda", slots=3, **options, **of)
        for (images, targets, _), (want, wanted, _) in zip(device, load(**options, **of), strict=True):
            assert np.array_equal(images.numpy().transpose(0, 2, 3, 1), want)
            if isinstance(targets, list):
                assert all(equal({k: np.asarray(v) for k, v in a.items()}, b) for a, b in zip(targets, wanted, strict=True))
            else:
                assert np.array_equal(targets.numpy(), wanted)


def test_boxes_and_masks_are_tv_tensors(load: Any) -> None:
    tv = pytest.importorskip("torchvision.tv_tensors")
    _, targets, _ = next(iter(load(framework="torch", boxes="cxcywh")))
    assert type(targets[1]["boxes"]) is tv.BoundingBoxes and type(targets[1]["mask"]) is tv.Mask
    assert targets[1]["boxes"].format == tv.BoundingBoxFormat.CXCYWH and targets[1]["boxes"].canvas_size == (48, 64)


def test_formats_and_units(load: Any) -> None:
    plain = flat(load())
    size = np.array([64, 48, 64, 48], np.float32)
    for unit, form in itertools.product((None, "pixels", "fraction"), ("xyxy", "xywh", "cxcywh")):
        for (_, want), (_, got) in zip(plain, flat(load(boxes=form, boxes_unit=unit)), strict=True):
            x1, y1, x2, y2 = want["boxes"].T
            boxes = {
                "xyxy": [x1, y1, x2, y2],
                "xywh": [x1, y1, x2 - x1, y2 - y1],
                "cxcywh": [(x1 * 2 + (x2 - x1)) / 2, (y1 * 2 + (y2 - y1)) / 2, x2 - x1, y2 - y1],
            }[form]
            assert np.array_equal(got["boxes"], np.stack(boxes, axis=1) / (size if unit == "fraction" else np.float32(1)))


@pytest.mark.parametrize("recipe", RECIPES)
def test_image_boxes_and_mask_are_torchvisions(load: Any, recipe: str) -> None:
    """torchvision.transforms.v2.functional repeats the records on what is stored."""
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2.functional")
    loader = load(16, transform=RECIPES[recipe], shuffle=True, with_params="records", resampler=installed_resampler())
    kept = 0
    for images, targets, indices, records in itertools.islice(loader, 3):
        for image, target, index, record in zip(images, targets, indices.tolist(), records, strict=True):
            values = loader.dataset.get(index)
            original = {**values["objects"], "mask": values["mask"]}
            made, moved = reference(loader.dataset[index][0], record, original)
            assert np.array_equal(image, np.asarray(made)), (index, record)
            boxes = v2.convert_bounding_box_format(moved["boxes"], new_format="XYXY").as_subclass(torch.Tensor).numpy()
            tolerance = 1e-4 if recipe == "maps" else 0  # see docs/targets.md
            assert boxes.shape == target["boxes"].shape and np.abs(boxes - target["boxes"]).max(initial=0) <= tolerance, record
            assert (np.asarray(moved["mask"]) != target["mask"]).mean() <= (1e-3 if recipe == "maps" else 0), record
            assert all(np.array_equal(moved[name], target[name]) for name in ("labels", "area", "iscrowd"))
            kept += len(boxes)
    assert kept > 20


def test_lists_of_torchvisions_objects(load: Any, masked: Path) -> None:
    """The lists of detectors and of segmentation as their programs write them, and the presets of the same name."""
    v2, tv = pytest.importorskip("torchvision.transforms.v2"), pytest.importorskip("torchvision.tv_tensors")
    steps = [v2.RandomPhotometricDistort(p=0.5), v2.RandomZoomOut(fill=0), v2.RandomApply([v2.RandomIoUCrop()], 0.8)]
    steps += [v2.SanitizeBoundingBoxes(min_size=1), v2.RandomHorizontalFlip(), v2.Resize((640, 640))]
    detection = v2.Compose([*steps, v2.SanitizeBoundingBoxes(min_size=1)])
    crop = v2.RandomCrop(480, pad_if_needed=True, fill={tv.Mask: 255, "others": 0})
    segmentation = v2.Compose([v2.RandomResize(260, 1040), v2.RandomHorizontalFlip(), crop])
    for transform, preset, of in (
        (detection, "detection", {"boxes": "cxcywh"}),
        (segmentation, "segmentation", {"data": masked, "boxes": None}),
    ):
        loaders = [load(4, transform=one, subset=np.arange(8), slots=2, **of) for one in (transform, preset)]
        for (images, targets, _), (want, wanted, _) in zip(*loaders, strict=True):
            assert np.array_equal(images, want)
            pairs = zip(targets, wanted, strict=True)
            assert all(equal(a, b) if isinstance(a, dict) else np.array_equal(a, b) for a, b in pairs)


def test_records_asked_for_are_those_of_the_batch(load: Any) -> None:
    loader = load(transform=DRAWN, with_params="records", repeats=2)
    for _, _, indices, records in loader:
        again = loader.records(indices[::2], 0, [0] * len(indices[::2]))
        assert list(records)[::2] == again and any(call["op"] == "sanitize_bounding_boxes" for call in again[0])
    assert loader.records([3], 1) != loader.records([3], 2)


def test_masks_alone_replace_the_labels_and_objects_do_not(load: Any, masked: Path) -> None:
    pytest.importorskip("torch")
    loader = load(data=masked, boxes=None)
    for images, masks, indices in loader:
        assert masks.shape == (len(images), 48, 64) and masks.dtype == np.uint8 and masks.base is not None
        for mask, index in zip(masks, indices.tolist(), strict=True):
            assert (mask[:20] == index % 200).all() and (mask[30:] < 4).all()
    images, masks, _ = next(iter(load(data=masked, boxes=None, framework="torch", normalize="imagenet")))
    assert masks.shape == (8, 48, 64) and str(masks.dtype) == "torch.uint8" and images.is_floating_point()
    images, masks, same, _ = next(iter(load(data=masked, boxes=None, fields=["mask"])))
    assert np.array_equal(masks, same)
    _, labels, ids, _ = next(iter(load(boxes=None, fields=["image_id"])))
    assert labels.tolist() == [-1] * 8 and ids[0] == 1000


def test_class_labels_stand_beside_boxes(load: Any, shards: Path, tmp_path: Path) -> None:
    made = with_fields(shards, tmp_path / "train-shards", FIELDS[1:2], lambda sample: stored(sample)[1:2])
    loader = load(data=made, layout="NCHW")
    for images, targets, indices in loader:
        assert images.shape[1:] == (3, 48, 64)
        for target, index in zip(targets, indices.tolist(), strict=True):
            assert target["label"] == loader.dataset.targets[index] and target["image_id"] == index and "mask" not in target


def test_every_batch_of_an_epoch_resumes(load: Any) -> None:
    options: dict[str, Any] = {"transform": DRAWN, "shuffle": True, "seed": 5}
    whole = flat(load(16, **options))
    loader, states = load(16, **options), []
    for _ in loader:
        states.append(pickle.loads(pickle.dumps(loader.state_dict())))
    for n, state in enumerate(states, 1):
        again = load(12, **options)
        again.load_state_dict(state)
        if n < len(states):
            assert same(flat(again), whole[16 * n :])
    assert len(whole) == 105


@pytest.mark.parametrize("even", [True, False])
def test_ranks_have_the_samples_of_one(load: Any, even: bool) -> None:
    options: dict[str, Any] = {"transform": DRAWN, "shuffle": True, "even_batches": even}
    whole = dict(flat(load(**options)))
    parts = [flat(load(rank=rank, world=2, **options)) for rank in range(2)]
    assert sum(map(len, parts)) == 106 if even else 105
    for index, target in itertools.chain(*parts):
        assert equal(target, whole[index])


def test_choices_of_samples(load: Any, both: Path, tmp_path: Path) -> None:
    other = shutil.copytree(both, tmp_path / "copy" / "train-shards")
    for options in (
        {"subset": [3, 3, 9, 104]},
        {"subset": 0.2, "shuffle": True},
        {"weights": np.arange(105.0), "num_samples": 30},
        {"order": [7, 3, 7]},
        {"repeats": 2},
        {"sampler": [5, 4, 1]},
        {"data": [both, other]},
        {"data": {str(both): 0.7, str(other): 0.3}, "shuffle": True},
    ):
        loader = load(**options)
        for index, target in flat(loader):
            assert equal(target, flipped(loader, index)), options
            assert target["image_id"] == 1000 + index % 105


def test_unreadable_images(load: Any, both: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(both, tmp_path / "broken" / "train-shards")
    file = broken / "rank-0001" / "00000.imgshard"
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 0x55
    file.write_bytes(data)
    with pytest.raises(imgfeed.CorruptError):
        list(load(data=broken))
    loader = load(data=broken, on_error="blank")
    targets = dict(flat(loader))
    (bad,) = loader.bad
    got = targets.pop(bad)
    assert got["boxes"].shape == (0, 4) and got["labels"].shape == got["area"].shape == (0,) and (got["mask"] == 255).all()
    assert all(equal(target, flipped(loader, index)) for index, target in targets.items())
    loader = load(data=broken, on_error="substitute")
    targets = dict(flat(loader))
    assert bad not in targets and loader.bad[bad].by in targets
    assert all(equal(target, flipped(loader, index)) for index, target in targets.items())


def test_another_size(load: Any) -> None:
    loader = load(size={0: 48, 1: 24})
    assert [images.shape[1:3] for images, *_ in itertools.islice(loader, 1)] == [(48, 64)]
    loader.set_epoch(1)
    (images, targets, _), *_ = loader
    assert images.shape[1:3] == targets[0]["mask"].shape == (24, 32)
    halves = flat(load(size=24))
    for (_, half), (_, whole) in zip(halves, flat(load()), strict=True):
        assert np.allclose(half["boxes"] * 2, whole["boxes"], rtol=1e-6)
    loader.set_transform([{"op": "CenterCrop", "size": 30}])
    loader.set_epoch(0)
    (images, targets, _), *_ = loader
    assert images.shape[1] >= 30 and targets[1]["mask"].shape == images.shape[1:3]


def test_a_function_that_collates(load: Any) -> None:
    loader = load(collate_fn=lambda samples: samples)
    for batch in loader:
        for image, target, index in batch:
            assert image.shape == (48, 64, 3) and equal(target, flipped(loader, index))


def test_refused_with_the_remedy(load: Any, masked: Path, shards: Path) -> None:
    views, crop = {"views": [FLIP, FLIP]}, [{"op": "RandomResizedCrop", "size": 40}]
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"boxes": "xyyx"}, ValueError, "'xyxy', 'xywh', 'cxcywh' or None"),
        ({"boxes": 4}, TypeError, "want 'xyxy'"),
        ({"boxes": None, "boxes_unit": "pixels"}, ValueError, "boxes_unit goes with boxes="),
        ({"boxes_unit": "percent"}, ValueError, "'pixels', 'fraction' or None"),
        ({"target": "objects"}, ValueError, "use fields= for another field"),
        ({"boxes": None, "fields": ["objects"]}, imgfeed.BadRequestError, "ask for their format"),
        ({"data": masked}, imgfeed.BadRequestError, "needs a field of type objects"),
        ({"data": shards}, imgfeed.BadRequestError, "needs a field of type objects"),
        ({"fields": ["objects"]}, ValueError, "which boxes= gives in the dictionaries"),
        ({"subset": ["car"]}, ValueError, "names 'car': the split has no such class; it has none"),
        ({"weights": "balanced"}, ValueError, "goes by class labels, which not all images have: give weights by sample"),
        ({"transform": views}, imgfeed.BadRequestError, "follow one view"),
        ({"transform": [*FLIP, {"op": "AugMix"}]}, imgfeed.BadRequestError, "AugMix"),
        ({"transform": crop, "buckets": [(40, 40), (40, 80)]}, imgfeed.BadRequestError, "leave buckets out"),
    ]
    for options, error, words in wrong:
        with pytest.raises(error, match=words):
            next(iter(load(**options)))


def test_another_transform_from_an_epoch_on(load: Any) -> None:
    """Each epoch is as with its own transform alone, in any order, also where a later one is larger, and after a resume."""
    larger = [{"op": "Resize", "size": [100, 90]}]
    options: dict[str, Any] = {"shuffle": True, "subset": np.arange(30), "slots": 3}
    loader = load(transform={5: larger, 0: DRAWN, 2: "ssd300"}, **options)
    alone = {0: load(transform=DRAWN, **options), 2: load(transform="ssd300", **options), 5: load(transform=larger, **options)}
    for epoch in (0, 1, 2, 4, 5, 9, 0):
        loader.set_epoch(epoch)
        plain = alone[max(begin for begin in alone if begin <= epoch)]
        plain.set_epoch(epoch)
        for (images, *_), (want, *_) in zip(loader, plain, strict=True):
            assert np.array_equal(images, want)
        plain.set_epoch(epoch)
        loader.set_epoch(epoch)
        assert same(flat(loader), flat(plain)), epoch
    loader.set_epoch(5)
    next(iter(loader))
    again = pickle.loads(pickle.dumps(loader))
    again.load_state_dict(loader.state_dict())
    alone[5].set_epoch(5)
    assert same(flat(again), flat(alone[5])[8:])
    assert "transform={0: [{" in repr(loader)


def test_transforms_by_epoch_are_checked_before_the_first(load: Any) -> None:
    wrong: list[tuple[Any, type[Exception], str]] = [
        ({1: FLIP}, ValueError, "want one for epoch 0 too"),
        ({0: FLIP, -1: FLIP}, ValueError, "transform's key is -1"),
        ({0: FLIP, 3: 4}, TypeError, r"transform\[3\] holds int"),
        ({0: FLIP, 3: {0: FLIP}}, TypeError, r"transform\[3\] holds"),
        ({}, TypeError, "transform holds"),
        ({0: FLIP, 9: [*FLIP, {"op": "AugMix"}]}, imgfeed.BadRequestError, "AugMix"),
        ({0: FLIP, 9: "train2"}, imgfeed.BadRequestError, "train2"),
    ]
    for transform, error, words in wrong:
        with pytest.raises(error, match=words):
            load(transform=transform)
    loader = load(transform={0: FLIP, 9: DRAWN})
    loader.set_transform({0: DRAWN, 1: FLIP})
    assert same(flat(loader), flat(load(transform=DRAWN)))
    assert same(flat(loader), flat(load(transform=FLIP)))


def test_transforms_by_epoch_end_alike(both: Path) -> None:
    pytest.importorskip("torch")
    transforms = pytest.importorskip("torchvision.transforms")
    crop, tensor = transforms.CenterCrop(32), transforms.ToTensor()
    ends = transforms.Compose([crop, tensor])
    with pytest.raises(ValueError, match="epochs 0 and 4 end otherwise"):
        DataLoader(both, 4, transform={0: ends, 4: crop})
    with DataLoader(both, 4, transform={0: ends, 4: transforms.Compose([transforms.CenterCrop(24), tensor])}) as loader:
        assert next(iter(loader))[0].is_floating_point()
        loader.set_epoch(4)
        assert tuple(next(iter(loader))[0].shape) == (4, 3, 24, 24)
        with pytest.raises(ValueError, match="other conversions"):
            loader.set_transform({0: crop})


def darkened(image: Any, target: Any, index: int) -> Any:
    """Blacken the inside of boxes, or a mask's label 0; everything that a function gets of a target has its share."""
    mask = target["mask"] if isinstance(target, dict) else target
    if isinstance(target, dict):
        assert target["image_id"] == 1000 + index and len(target["labels"]) == len(target["area"]) == index % 5
        for x1, y1, x2, y2 in target["boxes"].round().astype(int):
            image[y1:y2, x1:x2] = 0
    image[mask == 0] = 1
    return image


@pytest.mark.parametrize("transport", ["shm", "socket"])
def test_a_function_gets_the_target(load: Any, masked: Path, transport: str) -> None:
    options: dict[str, Any] = {"transport": transport, "shuffle": True}
    for of in ({}, {"data": masked, "boxes": None}):
        plain = load(with_params=True, fields=["mask"], **options, **of)
        mapped = load(map=darkened, map_workers=2, fields=["mask"], with_params=True, **options, **of)
        for got, want in zip(mapped, plain, strict=True):
            for k, index in enumerate(want[-2].tolist()):
                assert equal(got[1][k], want[1][k]) if isinstance(got[1], list) else np.array_equal(got[1][k], want[1][k])
                assert np.array_equal(got[0][k], darkened(np.array(want[0][k]), want[1][k], index))
            assert np.array_equal(got[2], want[2]) and np.array_equal(got[4], want[4])
    same_ones = [np.array(images) for images, *_ in load(map_batch=lambda images: images // 2, **options)]
    halves = [images // 2 for images, *_ in load(**options)]
    assert all(map(np.array_equal, same_ones, halves))


def test_functions_leave_targets_alone(load: Any, masked: Path, shards: Path) -> None:
    for of in ({}, {"data": masked, "boxes": None}):
        with pytest.raises(imgfeed.MapError, match="return the image alone"):
            next(iter(load(map=lambda image, target: (image, target), **of)))
    for of in ({"boxes": None}, {"data": shards, "boxes": None}):
        with pytest.raises(TypeError, match="wants target: give the loader boxes="):
            load(map=darkened, **of)


def test_the_check_compares_boxes_and_masks(
    both: Path, masked: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torchvision.tv_tensors")
    run = ["--samples", "20", "--transform"]
    for data, transform in ((both, json.dumps(RECIPES["maps"])), (both, json.dumps(DRAWN)), (masked, json.dumps(FLIP))):
        with pytest.raises(SystemExit) as ended:
            checks.main([str(data), *run, transform])
        assert ended.value.code == 0 and "20 of 20 samples are identical to torchvision" in capsys.readouterr().out

    def wrong(image: Any, record: Any, target: Any) -> Any:
        made, moved = reference(image, record, target)
        moved["mask"][0] += 1
        if "boxes" in moved:
            moved["boxes"][:1, 2] += 0.5
            moved["labels"][2:3] += 1
        return made, moved

    monkeypatch.setattr(checks, "reference", wrong)
    with pytest.raises(SystemExit) as ended:
        checks.main([str(both), *run, json.dumps(FLIP)])
    said = capsys.readouterr().out
    assert ended.value.code == 1 and "0 of 20 samples are identical" in said
    assert "boxes differ by up to 0.5" in said and "of the mask differ" in said and "other labels" in said


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("size", [[48, 3], [3, 48], [3, 3]])
def test_the_canvas_of_an_image_three_pixels_wide(load: Any, layout: str, size: list[int]) -> None:
    pytest.importorskip("torchvision.tv_tensors")
    loader = load(framework="torch", layout=layout, transform=[{"op": "Resize", "size": size}])
    images, targets, _ = next(iter(loader))
    assert list(targets[0]["boxes"].canvas_size) == size == list(images.shape[2:])


def test_the_check_of_a_loader(load: Any) -> None:
    pytest.importorskip("torchvision.tv_tensors")
    loader = load(transform=DRAWN, boxes="cxcywh", boxes_unit="fraction", resampler=installed_resampler())
    report = checks.check(loader, samples=30)
    assert report.compared == 30 and report.differ == report.targets == []


def test_the_check_names_the_torchvision_that_it_needs(both: Path) -> None:
    if importlib.util.find_spec("torchvision") is None or importlib.util.find_spec("torchvision.tv_tensors") is not None:
        pytest.skip("needs a torchvision before 0.16")
    with pytest.raises(SystemExit, match=r"install torchvision 0\.16"):
        checks.main([str(both), "--transform", json.dumps(FLIP)])
