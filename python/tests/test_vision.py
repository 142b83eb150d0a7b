"""transform= takes torchvision's own objects, and batches are what torchvision makes of single images."""

import functools
import importlib.util
import logging
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, installed_resampler

from imgfeed import DataLoader, ImgfeedError
from imgfeed._arguments import vision

torch = pytest.importorskip("torch")
v1 = pytest.importorskip("torchvision.transforms")
Load = Callable[..., DataLoader]
SOME = range(0, SAMPLES, 5)  # samples
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
versions = [pytest.param(v1, id="v1")]
try:
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    versions.append(pytest.param(v2, id="v2"))
except ImportError:  # torchvision before 0.16
    v2 = None
bicubic = v1.InterpolationMode.BICUBIC


def resizes_uint8() -> bool:
    """Whether torch resizes uint8 tensors in whole numbers."""
    return v2 is not None and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


@functools.cache
def picture(path: Path) -> Any:
    """An image of Pillow, which transforms leave as it is."""
    return pytest.importorskip("PIL.Image").open(path).convert("RGB")


def expected(pipeline: Any, images: Path, loader: DataLoader, index: Any) -> Any:
    """What torchvision makes of the batch's images, one by one; uint8 where it leaves images of Pillow."""
    made = [pipeline(picture(images / loader.dataset.key(int(i)))) for i in index]
    tensors = [one if isinstance(one, torch.Tensor) else v1.functional.pil_to_tensor(one) for one in made]
    return torch.stack([one.as_subclass(torch.Tensor) for one in tensors])


def compare(load: Load, images: Path, pipeline: Any, **options: Any) -> None:
    loader = load(8, transform=pipeline, framework="torch", resampler=installed_resampler(), subset=SOME, **options)
    compared = 0
    for batch, _, index in loader:
        want = expected(pipeline, images, loader, index)
        assert type(batch) is torch.Tensor and batch.dtype == want.dtype
        assert torch.equal(batch, want)  # every bit, of floats too
        compared += len(index)
    assert compared == len(SOME)


@pytest.mark.parametrize("t", versions)
def test_what_is_not_random_is_torchvisions_bit_for_bit(load: Load, images: Path, t: Any) -> None:
    compare(load, images, t.Compose([t.Resize(64), t.CenterCrop(48)]))
    compare(load, images, t.Compose([t.Resize((40, 56), bicubic), t.RandomHorizontalFlip(1.0), t.PILToTensor()]))
    compare(
        load,
        images,
        t.Compose([t.Compose([t.Resize([64], interpolation=t.InterpolationMode.NEAREST)]), t.CenterCrop((32, 48))]),
    )
    compare(load, images, t.CenterCrop(200))
    compare(load, images, t.Compose([t.CenterCrop(40), t.RandomCrop((40, 50), padding=(5, 0), pad_if_needed=True)]))


@pytest.mark.parametrize("t", versions)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_normalised_batches_are_torchvisions(load: Load, images: Path, t: Any, layout: str) -> None:
    resize = [t.Resize(40), t.CenterCrop(32)]
    compare(load, images, t.Compose([*resize, t.ToTensor()]), layout=layout)
    compare(load, images, t.Compose([*resize, t.ToTensor(), t.Normalize(MEAN, STD)]), layout=layout)
    compare(
        load,
        images,
        t.Compose([*resize, t.PILToTensor(), t.ConvertImageDtype(torch.float32), t.Normalize(MEAN, STD)]),
        layout=layout,
    )
    compare(
        load,
        images,
        t.Compose([*resize, t.PILToTensor(), t.ConvertImageDtype(torch.float64), t.Normalize(MEAN, STD, inplace=True)]),
    )


@pytest.mark.skipif(v2 is None, reason="needs torchvision 0.16 or later")
def test_normalised_batches_of_v2(load: Load, images: Path) -> None:
    resize = [v2.RGB(), v2.Resize(40), v2.CenterCrop(32)]
    compare(load, images, v2.Compose([*resize, v2.ToImage(), v2.Identity()]))
    compare(load, images, v2.Compose([*resize, v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]))
    compare(load, images, v2.Compose([*resize, v2.ToImage(), v2.ToDtype(torch.float16, scale=True)]))
    typed = v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=False)
    compare(load, images, v2.Compose([*resize, v2.ToImage(), typed, v2.ToPureTensor()]))
    compare(
        load, images, v2.Compose([v2.ToImage(), v2.CenterCrop(100), v2.ToDtype(torch.float32, scale=True)])
    )  # nothing is resized
    compare(load, images, torch.nn.Sequential(*resize, v2.PILToTensor()))


@pytest.mark.parametrize("weights", ["ResNet50_Weights.IMAGENET1K_V2", "ConvNeXt_Tiny_Weights.IMAGENET1K_V1"])
def test_the_transforms_of_weights(load: Load, images: Path, weights: str) -> None:
    models = pytest.importorskip("torchvision.models")
    name, version = weights.split(".")
    compare(load, images, getattr(getattr(models, name), version).transforms())


@pytest.mark.parametrize("t", versions)
def test_random_operations_have_torchvisions_parameters(load: Load, images: Path, t: Any) -> None:
    functional = v1.functional
    crop = t.RandomResizedCrop((32, 40), scale=(0.3, 0.6), ratio=(0.9, 1.2), interpolation=bicubic)
    loader = load(
        8, transform=t.Compose([crop, t.RandomHorizontalFlip(0.3), t.ToTensor()]), with_params=True, framework="torch",
        resampler=installed_resampler(),
    )  # fmt: skip
    flips = 0
    for batch, _, index, params in loader:
        for pixels, i, drawn in zip(batch, index, params, strict=True):
            top, left, height, width, flip = drawn.tolist()
            original = picture(images / loader.dataset.key(int(i)))
            share = height * width / (original.width * original.height)
            assert 0.28 < share < 0.62 and 0.85 < width / height < 1.25
            made = functional.resized_crop(original, top, left, height, width, [32, 40], bicubic)
            assert torch.equal(functional.to_tensor(functional.hflip(made) if flip else made), pixels)
            flips += flip
    assert 0.1 * SAMPLES < flips < 0.5 * SAMPLES
    loader = load(8, transform=t.Compose([t.Resize((40, 40)), t.RandomCrop(32, padding=[1, 2, 3, 4])]), with_params=True)
    for *_, params in loader:
        assert (params[:, :2] >= [-2, -1]).all() and (params[:, :2] <= [12, 11]).all()


@pytest.mark.parametrize("t", versions)
def test_colours_are_torchvisions_bit_for_bit(load: Load, images: Path, t: Any) -> None:
    crop = t.CenterCrop((32, 40))
    for step in (
        t.RandomInvert(1.0),
        t.Grayscale(3),
        t.RandomGrayscale(1.0),
        t.RandomAdjustSharpness(1.8, 1.0),
        t.RandomPosterize(3, 1.0),
        t.RandomSolarize(100, 1.0),
        t.RandomAutocontrast(1.0),
        t.RandomEqualize(1.0),
        t.RandomInvert(0.0),
        t.ColorJitter((1.3, 1.3)),
        t.ColorJitter(contrast=(0.4, 0.4)),
        t.ColorJitter(saturation=(1.7, 1.7)),
        t.ColorJitter(hue=(-0.2, -0.2)),
        t.RandomApply([t.Grayscale(3), t.RandomInvert(1.0)], p=1.0),
        t.RandomApply([t.RandomInvert(1.0)], p=0.0),
        t.RandomChoice([t.Compose([t.RandomInvert(1.0), t.RandomSolarize(80, 1.0)]), t.RandomInvert(1.0)], p=[1, 0]),
        t.RandomOrder([t.RandomInvert(1.0)]),
        v1.RandomOrder([]),
        v1.RandomApply(torch.nn.ModuleList(), p=1.0),
        torch.nn.Identity(),
        t.RandomApply([torch.nn.Identity(), t.RandomInvert(1.0)], p=1.0),
        t.RandomOrder([torch.nn.Sequential(), t.RandomInvert(1.0), v1.RandomApply([])]),
        t.RandomChoice([torch.nn.Identity(), t.RandomInvert(1.0)], p=[1, 0]),
        t.RandomChoice([v1.RandomApply([]), t.RandomInvert(1.0)], p=[0, 1]),
    ):
        compare(load, images, t.Compose([crop, step]))
        compare(load, images, t.Compose([t.Resize((20, 30)), step, t.PILToTensor()]))
    compare(load, images, v1.Compose([v1.CenterCrop(40), v1.RandomChoice([v1.Compose([]), v1.RandomInvert(1.0)], p=[1, 0])]))
    if v2 is not None:
        compare(load, images, v2.Compose([crop, v2.RandomChoice([v2.Identity(), v2.RandomInvert(1.0)], p=[1, 0])]))


@pytest.mark.parametrize("t", versions)
def test_maps_and_padding_are_torchvisions_bit_for_bit(load: Load, images: Path, t: Any) -> None:
    crop, nearest, bilinear = t.CenterCrop((32, 40)), v1.InterpolationMode.NEAREST, v1.InterpolationMode.BILINEAR
    for step in (
        t.RandomVerticalFlip(1.0), t.RandomRotation((33.5, 33.5), fill=9), t.RandomRotation((90, 90)),
        t.RandomRotation((180, 180), bilinear), t.RandomRotation((-12.25, -12.25), bicubic, center=(3, 4), fill=(1, 2, 3)),
        t.RandomAffine((7.5, 7.5), scale=(1.25, 1.25), shear=(8, 8), interpolation=bilinear, fill=100),
        t.RandomAffine((0, 0), shear=(0, 0, -9.5, -9.5), center=(0, 0), interpolation=nearest),
        t.Pad(3, fill=7), t.Pad((1, 2), padding_mode="reflect"), t.Pad([1, 2, 3, 4], padding_mode="symmetric"),
        t.Pad(5, padding_mode="edge"), t.RandomCrop((36, 42), padding=[1, 3, 1, 1], fill=(9, 8, 7)),
        t.RandomCrop((40, 46), padding=[2, 3, 4, 5], padding_mode="reflect"),
    ):  # fmt: skip
        compare(load, images, t.Compose([crop, step]))
    loader = load(8, transform=t.Compose([crop, blur := t.GaussianBlur((5, 9), (1.5, 1.5))]), framework="torch")
    for batch, _, index in loader:  # by one where a sum is as good as half way
        off = batch.int() - expected(t.Compose([crop, blur]), images, loader, index).int()
        assert off.abs().max() <= 1 and (off != 0).float().mean() < 0.001
    compare(load, images, t.Compose([t.Resize(40, max_size=44), t.RandomRotation((30, 30), expand=True), crop]))


@pytest.mark.parametrize("t", versions)
def test_five_and_ten_crops_are_torchvisions(load: Load, images: Path, t: Any) -> None:
    for resize, crop, count in [
        (t.Resize(64), t.FiveCrop(48), 5),
        (t.Resize(50), t.TenCrop([40, 32]), 10),
        (t.Resize((45, 71)), t.TenCrop(33, vertical_flip=True), 10),
    ]:
        numbers = [t.PILToTensor(), t.ConvertImageDtype(torch.float)]
        transform = t.Compose([resize, crop, *numbers])
        loader = load(8, transform=transform, framework="torch", resampler=installed_resampler(), subset=SOME)
        for batch, _, index in loader:
            assert isinstance(batch, list) and len(batch) == count
            for number in range(count):  # of the tuple that torchvision gives
                alone = t.Compose([resize, lambda image, crop=crop, number=number: crop(image)[number], *numbers])
                assert torch.equal(batch[number], expected(alone, images, loader, index))


@pytest.mark.parametrize("t", versions)
def test_policies_are_taken_with_their_parameters(load: Load, images: Path, t: Any) -> None:
    compare(load, images, t.Compose([t.CenterCrop((32, 40)), t.RandAugment(num_ops=0)]))
    steps = [
        t.AutoAugment(t.AutoAugmentPolicy.SVHN, interpolation=bicubic),
        t.RandAugment(3, 5, 11, fill=7),
        t.TrivialAugmentWide(fill=[1, 2, 3]),
        t.AugMix(2, 4, 1, 0.5, False),
    ]
    mix = {"severity": 2, "mixture_width": 4, "chain_depth": 1, "alpha": 0.5, "all_ops": False}
    known = load(8)._service.session().operations
    assert vision.operations(vision.pipeline("transform", t.Compose(steps)).operations, known) == [
        {"op": "AutoAugment", "policy": "svhn", "interpolation": "bicubic", "fill": None},
        {"op": "RandAugment", "num_ops": 3, "magnitude": 5, "num_magnitude_bins": 11, "interpolation": "nearest", "fill": 7},
        {"op": "TrivialAugmentWide", "num_magnitude_bins": 31, "interpolation": "nearest", "fill": [1, 2, 3]},
        {"op": "AugMix", **mix, "interpolation": "bilinear", "fill": None},
    ]
    batches = load(
        8,
        transform=t.Compose([t.RandomResizedCrop(24), t.AutoAugment(), t.RandAugment(), t.TrivialAugmentWide(), t.AugMix()]),
        framework="torch",
    )
    assert all(images.shape[2:] == (24, 24) for images, *_ in batches)


@pytest.mark.parametrize("t", versions)
def test_what_the_feed_does_not_do_is_named(load: Load, t: Any) -> None:
    class Own:
        def __call__(self, image: Any) -> Any:
            return image

    class Resize(t.Resize):
        """One with code of its own."""

    for steps, words in [
        ([t.RandomPerspective()], r"holds torchvision\.transforms\..*RandomPerspective, which imgfeed does not do.*by map="),
        ([t.RandomApply([t.CenterCrop(3), t.ToTensor()])], "'s RandomApply holds ToTensor: numbers are made of whole batches"),
        ([t.Resize(40), t.Lambda(lambda x: x)], "Lambda, which imgfeed does not do. It does Resize, CenterCrop"),
        ([t.TenCrop(32), t.Lambda(torch.stack)], r"Lambda, which imgfeed does not do.*leave it out, and torch\.stack"),
        ([t.Resize(40), Own()], "Own, which imgfeed does not do"),
        ([Resize(40)], "Resize, which imgfeed does not do"),
        ([t.CenterCrop(32), t.ToTensor(), t.RandomErasing()], "RandomErasing, which imgfeed does not do"),
        ([t.ToTensor(), t.CenterCrop(32)], "CenterCrop after ToTensor: operations on images come first"),
        ([t.RandomApply([Resize(3)])], "RandomApply holds .*Resize, which"),
    ]:
        with pytest.raises(ValueError, match=f"^imgfeed: transform.*{words}"):
            load(8, transform=t.Compose(steps), framework="torch")


@pytest.mark.parametrize("t", versions)
def test_a_transform_that_gives_no_size_says_so(load: Load, t: Any) -> None:
    empty = t.Compose([t.PILToTensor()])
    empty.transforms = []  # which transforms.v2 refuses to make
    for transform in (t.PILToTensor(), t.ToTensor(), empty, t.Compose([t.ToTensor(), t.Normalize(MEAN, STD)])):
        for given in (transform, {"views": ["eval", transform]}):
            with pytest.raises(ValueError, match=r"^imgfeed: transform[\S\s]*, and the images of a batch need one size: begin"):
                load(8, transform=given)


@pytest.mark.parametrize("t", versions)
def test_what_the_server_does_not_do_it_says(load: Load, t: Any) -> None:
    with pytest.raises(ValueError, match=r"interpolation is box, want nearest, bilinear or bicubic"):
        load(8, transform=t.Compose([t.CenterCrop(32), t.RandomRotation(3, interpolation=4)]))
    with pytest.raises(ValueError, match=r"degrees is 1e\+09, want -1e\+06 to 1e\+06"):
        load(8, transform=t.Compose([t.CenterCrop(32), t.RandomAffine(1e9)]))
    with pytest.raises(ValueError, match=r"num_output_channels is 1, want 3"):
        load(8, transform=t.Compose([t.CenterCrop(32), t.Grayscale()]))


@pytest.mark.parametrize("t", versions)
def test_normalize_copies_no_batch(load: Load, t: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes the one that the conversion has made, and stays as the caller made it."""
    normalize = t.Normalize(MEAN, STD)
    loader = load(8, framework="torch", transform=t.Compose([t.Resize(40), t.CenterCrop(32), t.ToTensor(), normalize]))
    copies: list[Any] = []
    monkeypatch.setattr(torch.Tensor, "clone", copies.append)
    assert next(iter(loader))[0].min() < 0
    assert copies == [] and normalize.inplace is False


def test_the_transforms_of_timm(load: Load) -> None:
    create = pytest.importorskip("timm.data").create_transform
    options: dict[str, Any] = {"no_aug": False, "is_training": True, "color_jitter": None, "use_prefetcher": False}
    made = create(32, **options, interpolation="bicubic", scale=(0.2, 1.0))
    same_of_torchvision = v1.Compose(
        [
            v1.RandomResizedCrop(32, scale=(0.2, 1.0), interpolation=v1.InterpolationMode.BICUBIC),
            v1.RandomHorizontalFlip(),
            v1.ToTensor(),
            v1.Normalize(MEAN, STD),
        ]
    )
    loaders = (load(8, framework="torch", transform=t) for t in (made, same_of_torchvision))
    for ours, theirs in zip(*loaders, strict=True):
        assert ours[0].dtype == torch.float32 and torch.equal(ours[0], theirs[0])
    pixels = next(iter(load(8, framework="torch", transform=create(32, use_prefetcher=True))))[0]
    assert pixels.dtype == torch.uint8
    drawn = load(8, framework="torch", transform=create(32, **options, interpolation="random"))
    counts = Counter(
        call["interpolation"] for calls in drawn.records(range(SAMPLES), 0) for call in calls if call["op"] == "resize"
    )
    assert counts.keys() == {"bilinear", "bicubic"} and min(counts.values()) > SAMPLES // 4
    assert next(iter(drawn))[0].shape == (8, 3, 32, 32)
    with pytest.raises(ValueError, match=r"RandomErasing, which imgfeed does not do.*imgfeed\.batch\.RandomErasing is"):
        load(8, framework="torch", transform=create(32, **options, interpolation="bicubic", re_prob=0.2))


@pytest.mark.parametrize(
    "config",
    ["rand-m9-mstd0.5-inc1", "rand-m15-n3-mmax20-mstd101-p0.7", "original-mstd0.5", "v0r",
     "3a", "augmix-m5-w4-d2", "augmix-a0.5-b1-mstd1"],
)  # fmt: skip
def test_the_policies_of_timm(load: Load, config: str) -> None:
    create = pytest.importorskip("timm.data").create_transform
    made = create(32, is_training=True, auto_augment=config, interpolation="bicubic", color_jitter=None)
    said = [
        {"op": "RandomResizedCrop", "size": 32, "interpolation": "bicubic"},
        {"op": "RandomHorizontalFlip"},
        {"op": "TimmAugment", "config": config, "fill": [124, 116, 104], "interpolation": "bicubic"},
        {"op": "Resize", "size": [32, 32]},
    ]
    made = v1.Compose([*made.transforms[:3], v1.Resize((32, 32))])
    for ours, theirs in zip(load(8, transform=said, subset=SOME), load(8, transform=made, subset=SOME), strict=True):
        assert torch.equal(torch.as_tensor(ours[0]), torch.as_tensor(theirs[0]))


def test_a_policy_that_no_string_of_timm_makes(load: Load) -> None:
    timm = pytest.importorskip("timm.data.auto_augment")
    for config, options in (("rand-m9", {"translate_pct": 0.2}), ("rand-m9-tweights", {})):
        other = timm.rand_augment_transform(config, {"img_mean": (1, 2, 3), **options})
        with pytest.raises(ValueError, match="holds a RandAugment of timm that imgfeed has no string for"):
            load(8, transform=v1.Compose([v1.CenterCrop(32), other]))


def test_a_pipeline_and_arguments_that_say_the_same(load: Load) -> None:
    made = v1.Compose([v1.Resize(40), v1.CenterCrop(32), v1.ToTensor()])
    for given in ({"normalize": "imagenet"}, {"dtype": torch.float16}):
        with pytest.raises(
            ValueError, match="transform ends in ToTensor, which makes numbers of the pixels already: leave out"
        ):
            load(8, transform=made, framework="torch", **given)
    with pytest.raises(ValueError, match="these need torch, and framework is 'numpy': transform"):
        load(8, transform=made, framework="numpy")
    assert load(8, transform=v1.CenterCrop(32), framework="numpy", normalize=None).dataset


def test_tensors_that_would_be_resized(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    made = v1.Compose([v1.PILToTensor(), v1.Resize(40), v1.CenterCrop(32)])
    with caplog.at_level(logging.WARNING, "imgfeed"):
        assert len(load(8, transform=made)) > 0
    assert "some results differ from torchvision's: those of Resize on tensors of v1" in caplog.text
    with pytest.raises(ImgfeedError, match=r"bit-exact results were asked for: some .* Resize on tensors of v1"):
        load(8, transform=made, bit_exact=True)


@pytest.mark.skipif(v2 is None or not resizes_uint8(), reason="needs torchvision 0.16 or later, and AVX2")
def test_resized_tensors_are_torchvisions_bit_for_bit(load: Load, images: Path) -> None:
    compare(load, images, v2.Compose([v2.ToImage(), v2.Resize(40), v2.CenterCrop(32)]), bit_exact=True)
    compare(load, images, v2.Compose([v2.PILToTensor(), v2.Resize((70, 21), bicubic), v2.Resize((33, 34))]), bit_exact=True)
    resized = v2.Compose([v2.Resize(50), v2.ToPureTensor(), v2.Resize((41, 42)), v2.PILToTensor()])
    compare(load, images, resized, bit_exact=True)  # ToPureTensor leaves an image of Pillow as it is


@pytest.mark.skipif(v2 is None or not resizes_uint8(), reason="needs torchvision 0.16 or later, and AVX2")
def test_colours_of_tensors_are_torchvisions_bit_for_bit(load: Load, images: Path) -> None:
    for step in (
        v2.ColorJitter(hue=(0.2, 0.2)),
        v2.ColorJitter(saturation=(1.5, 1.5)),
        v2.ColorJitter(contrast=(0.6, 0.6)),
        v2.ColorJitter(brightness=(1.3, 1.3)),
        v2.Grayscale(3),
        v2.RandomGrayscale(1.0),
        v2.RandomAutocontrast(1.0),
        v2.RandomEqualize(1.0),
        v2.RandomAdjustSharpness(1.7, 1.0),
        v2.RandomSolarize(99.5, 1.0),
        v2.RandomApply([v2.ColorJitter(hue=(-0.3, -0.3))], 1.0),
        v2.Resize((20, 61), antialias=False),
        v2.Resize((61, 64), v2.InterpolationMode.NEAREST),
        v2.Resize((33, 21), v2.InterpolationMode.NEAREST_EXACT),
        v2.RandomRotation((30, 30)),
        v2.RandomRotation((30, 30), v2.InterpolationMode.BILINEAR, fill=[1, 2, 3]),
        *(t((30, 30), fill=127.5) for t in (v2.RandomRotation, v2.RandomAffine)),
        v2.Pad(3, fill=127.5),
        v2.RandomAffine((9, 9), scale=(0.7, 0.7), shear=(5, 5), interpolation=v2.InterpolationMode.BILINEAR),
    ):
        compare(load, images, v2.Compose([v2.ToImage(), v2.CenterCrop((32, 40)), step]), bit_exact=True)


def test_a_pipeline_goes_with_a_pickled_loader(load: Load) -> None:
    loader = load(8, transform=v1.Compose([v1.Resize(40), v1.CenterCrop(32), v1.ToTensor()]), framework="torch")
    assert "transform=[Resize(size=40, " in repr(loader)
    with pickle.loads(pickle.dumps(loader)) as other:
        assert all(torch.equal(a[0], b[0]) for a, b in zip(loader, other, strict=True))


def test_the_v2_of_torchvision_0_15_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    beta = pytest.importorskip("torchvision.transforms.v2")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torchvision.tv_tensors" else find(name))
    with pytest.raises(ValueError, match=r"holds CenterCrop of transforms\.v2, which takes torchvision 0\.16"):
        DataLoader("/none", transform=beta.CenterCrop(32))
