"""One training program with one loader, timed: what measure.py runs again and again.

    python3 train.py PROGRAM LOADER DATA SECONDS

PROGRAM is a key of PROGRAMS below, LOADER is `usual` or `imgfeed`. DATA is a folder with train/ and val/ in class folders and
their sets, train-shards/ and val-shards/; the reference finds its train.py in DATA/usual/ and DATA/imgfeed/. The model is one
that costs next to nothing, so that the loader is what is measured, and notes when each batch reaches it. The first batches
are left out: those of a ring of imgfeed's, and half as many again. After SECONDS more, or at the epoch's end, one line of JSON
says how many images came in how many seconds, and the process ends at once.
"""

import json
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch
import torchvision
from torch import nn
from torchvision import transforms

BATCH = 64
SKIPPED = 24  # batches
WORKERS = 2
CLASSES = 10
TRANSFORM = transforms.Compose(
    [
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.PILToTensor(),
        transforms.ConvertImageDtype(torch.float),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
)


class Clock:
    """When batches came, and the end of the run."""

    def __init__(self, seconds: float, out: IO[str]) -> None:
        self.seconds, self.out = seconds, out
        self.batches = self.images = 0
        self.began = self.last = 0.0

    def batch(self, images: int) -> None:
        """Note a batch that has come."""
        self.batches += 1
        self.last = time.perf_counter()
        if self.batches == SKIPPED:
            self.began = self.last
        elif self.batches > SKIPPED:
            self.images += images
            if self.last - self.began >= self.seconds:
                self.end()

    def end(self) -> None:
        """Say what was measured, and end the process: neither the program nor its loader has any more to do."""
        if not self.images:
            raise SystemExit(f"train.py: {self.batches} batches are too few: --repeat more")
        print(json.dumps({"images": self.images, "seconds": self.last - self.began}), file=self.out, flush=True)
        os._exit(0)


class Model(nn.Module):
    """A linear classifier of images that are first made very small."""

    clock: Clock

    def __init__(self, num_classes: int = CLASSES) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.AvgPool2d(32), nn.Flatten(), nn.Linear(3 * 7 * 7, num_classes))

    def forward(self, images: Any) -> Any:
        if not self.training:
            self.clock.end()
        self.clock.batch(len(images))
        return self.layers(images)


def loader(kind: str, data: Path) -> Any:
    """Return the loader of a program that has a line for it."""
    if kind == "imgfeed":
        from imgfeed import DataLoader

        return DataLoader(data / "train-shards", BATCH, shuffle=True, transform=TRANSFORM, num_workers=WORKERS)
    dataset = torchvision.datasets.ImageFolder(str(data / "train"), TRANSFORM)
    return torch.utils.data.DataLoader(dataset, BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True)


def lightning(kind: str, data: Path) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def training_step(self, batch: Any, _: int) -> Any:
            return nn.functional.cross_entropy(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    lightning.Trainer(max_epochs=1, accelerator="cpu", **quiet).fit(Module(), loader(kind, data))


def accelerate(kind: str, data: Path) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    model, optimizer, batches = accelerator.prepare(model, optimizer, loader(kind, data))
    for images, labels in batches:
        optimizer.zero_grad()
        accelerator.backward(nn.functional.cross_entropy(model(images), labels))
        optimizer.step()


def reference(kind: str, data: Path) -> None:
    """torchvision's, as published, or with the patch of examples/."""
    from torchvision.models._api import register_model

    @register_model()
    def next_to_nothing(*, num_classes: int, **_: Any) -> nn.Module:
        return Model(num_classes)

    program = data / kind / "train.py"
    sys.path.insert(0, str(program.parent))
    sys.argv = [str(program), "--data-path", str(data), "--model", "next_to_nothing", "--epochs", "1", "--device", "cpu"]
    sys.argv += ["--batch-size", str(BATCH), "--workers", str(WORKERS), "--print-freq", "1000000", "--lr", "0.001"]
    runpy.run_path(str(program), run_name="__main__")


PROGRAMS: dict[str, Callable[[str, Path], None]] = {"lightning": lightning, "accelerate": accelerate, "reference": reference}


def main() -> None:
    program, kind, data, seconds = sys.argv[1:]
    torch.set_num_threads(1)  # as torch's own workers have it; both cores are the loader's
    Model.clock = Clock(float(seconds), os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)  # the programs print
    PROGRAMS[program](kind, Path(data))
    Model.clock.end()


if __name__ == "__main__":
    main()
