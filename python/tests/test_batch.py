"""What is done to whole batches: to each image by draws of its own, with torchvision's distribution."""

import pytest

from imgfeed.batch import RandomErasing

torch = pytest.importorskip("torch")
transforms = pytest.importorskip("torchvision.transforms")


def boxes(erased: torch.Tensor) -> torch.Tensor:
    """Top, left, height and width of what is erased of images of ones; all of it, since it is one rectangle."""
    gone = (erased == 0).all(1)
    assert ((erased == 1).all(1) | gone).all()
    found = []
    for axis in (2, 1):
        lines = gone.any(axis).int()
        found += [lines.argmax(1), lines.sum(1)]  # the first of them, and how many
    top, height, left, width = found
    assert torch.equal(gone.sum((1, 2)), height * width)
    for rest, first, length in ((gone.any(2), top, height), (gone.any(1), left, width)):
        line = torch.arange(rest.shape[1])
        assert torch.equal(rest, (line >= first[:, None]) & (line < (first + length)[:, None]))
    return torch.stack([top, left, height, width], 1)[height > 0]


def test_each_image_loses_its_own_rectangle() -> None:
    torch.manual_seed(0)
    count = 4000
    found = list(map(tuple, boxes(RandomErasing(0.25)(torch.ones(count, 3, 32, 48))).tolist()))
    assert abs(len(found) - 0.25 * count) < 5 * (count * 0.25 * 0.75) ** 0.5
    assert len(set(found)) > 0.9 * len(found)
    assert all(0.015 < h * w / (32 * 48) < 0.35 and 0.25 < h / w < 4 for _, _, h, w in found if h * w > 100)


def test_the_distribution_is_torchvisions() -> None:
    torch.manual_seed(1)
    count, one = 20000, torch.ones(3, 24, 30)
    ours = boxes(RandomErasing(1.0)(one.expand(count, 3, 24, 30))).double()
    theirs = [transforms.RandomErasing.get_params(one, (0.02, 0.33), (0.3, 3.3), [0.0])[:4] for _ in range(4000)]
    want = torch.tensor(theirs).double()
    assert len(ours) > 0.999 * count
    for k in range(4):
        error = (want[:, k].var() / len(want) + ours[:, k].var() / len(ours)) ** 0.5
        assert abs(ours[:, k].mean() - want[:, k].mean()) < 5 * error
        assert ours[:, k].std() == pytest.approx(float(want[:, k].std()), rel=0.1)


def test_what_is_erased_becomes_the_value() -> None:
    images = torch.full((8, 3, 16, 16), 7.0, dtype=torch.float16).to(memory_format=torch.channels_last)
    torch.manual_seed(2)
    erased = RandomErasing(1.0, value=(1, 2, 3))(images)
    assert erased.dtype == torch.float16 and erased.shape == images.shape and bool((images == 7).all())
    for channel, value in enumerate((1, 2, 3)):
        assert set(erased[:, channel].flatten().tolist()) == {value, 7}
    noise = RandomErasing(1.0, scale=(0.3, 0.3), value="random")(torch.zeros(64, 3, 16, 16))
    drawn = noise[noise != 0]
    assert abs(drawn.mean()) < 0.05 and abs(drawn.std() - 1) < 0.05
    assert torch.equal(RandomErasing(0.0)(images), images)
    assert torch.equal(RandomErasing(1.0, scale=(1, 1), ratio=(1, 1))(images), images)  # none is smaller than the image


def test_the_same_seed_erases_the_same() -> None:
    images, erase = torch.ones(16, 3, 20, 20), RandomErasing(0.5, value="random")
    torch.manual_seed(3)
    first = erase(images)
    torch.manual_seed(3)
    assert torch.equal(erase(images), first)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"p": 1.5}, "p is 1.5, want 0 to 1"),
        ({"p": float("nan")}, "p is nan"),
        ({"scale": (0.5, 0.1)}, "scale is"),
        ({"ratio": (0, 1)}, "ratio is"),
        ({"value": "noise"}, "want numbers or"),
    ],
)
def test_arguments_out_of_range(arguments: dict, words: str) -> None:
    with pytest.raises(ValueError, match=f"^imgfeed: RandomErasing's {words}|{words}"):
        RandomErasing(**arguments)
    with pytest.raises(ValueError, match="2 numbers, and the images 3 channels"):
        RandomErasing(1.0, value=(1, 2))(torch.ones(1, 3, 8, 8))
