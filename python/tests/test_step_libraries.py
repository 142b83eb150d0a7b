"""map= with functions of other libraries, as docs/python.md shows them: the document's own code, run by those libraries."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SMALL

from imgfeed import DataLoader

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "python.md"
LIBRARIES = {
    "with_albumentations": {"A": "albumentations"},
    "with_torchvision": {"v2": "torchvision.transforms.v2", "torch": "torch"},
    "with_pillow": {"Image": "PIL.Image", "ImageOps": "PIL.ImageOps"},
    "erase": {},
}


def function(name: str) -> Any:
    """Return a function of the document, whose block may have others beside it."""
    modules = {}
    for alias, module in LIBRARIES[name].items():
        modules[alias] = pytest.importorskip(module)
    section = DOCUMENT.read_text().split("## A function of your own")[1].split("\n## ")[0]
    code = "\n".join(re.findall(r"^(?:    )?((?:policy|jitter) = .*)$", section, re.M))
    lines = [line for line in code.splitlines() if any(f"{alias}." in line for alias in modules)]
    body = re.search(rf"^( *)def {name}\(.*\n(?:\1 +.*\n)+", section, re.M)
    text = "\n".join(line.removeprefix(body[1]) for line in body[0].splitlines())
    space: dict[str, Any] = dict(modules)
    exec("\n".join([*lines, text]), space)
    return space[name]


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_documents_functions(shards: Path, name: str) -> None:
    """By any number of workers, they do what they do on each image of a loader without them."""
    of_mine = function(name)
    options: dict[str, Any] = {
        "shuffle": True,
        "seed": 4,
        "with_index": True,
        "num_workers": 1,
        "framework": "numpy",
        "subset": 0.4,
    }
    size = [{**op, "size": 8 * op["size"]} for op in SMALL]
    want: dict[int, Any] = {}
    with DataLoader(shards, 8, transform=size, **options) as plain:
        for images, _, indices in plain:
            for image, index in zip(images, indices, strict=True):
                rng = np.random.default_rng([4, 0, int(index), 0, 0])
                made = of_mine(np.array(image)) if name == "with_pillow" else of_mine(np.array(image), rng)
                want[int(index)] = np.asarray(made.permute(1, 2, 0) if hasattr(made, "permute") else made)
    for workers in (1, 3):
        with DataLoader(shards, 8, transform=size, map=of_mine, map_workers=workers, **options) as loader:
            for images, _, indices in loader:
                for image, index in zip(images, indices, strict=True):
                    assert np.array_equal(image, want[int(index)])


def test_torch_gets_tensors(shards: Path) -> None:
    torch = pytest.importorskip("torch")

    def scaled(image: Any) -> Any:
        return torch.from_numpy(image).permute(2, 0, 1) / 255

    options: dict[str, Any] = {"transform": SMALL, "num_workers": 1, "framework": "torch"}
    with DataLoader(shards, 8, map=scaled, **options) as loader, DataLoader(shards, 8, **options) as plain:
        (images, labels), (want, _) = next(iter(loader)), next(iter(plain))
        assert torch.equal(images, want / 255)
        assert labels.dtype == torch.int64
