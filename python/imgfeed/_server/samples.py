"""A loader's data: as much of torch's Dataset as training scripts use."""

import importlib
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from .._arguments.kinds import whole
from .._arguments.numbers import INT64_MAX, INT64_MIN
from .client import Session
from .service import Service

INDEX = whole(0, INT64_MAX, "a sample's index, 0 or more")
ANY_INDEX = whole(INT64_MIN, INT64_MAX, "a sample's index; negative ones count from the end")


class Samples:
    """The samples of a split, one by one."""

    def __init__(self, service: Service) -> None:
        """Describe the split that a service serves, and ask it for the rest when somebody wants to know."""
        self._service = service
        self.split = service.served.split
        #: Digests of samples and order, and of the records ("" if the set has none): SHA-256, in hexadecimal.
        self.fingerprint = service.served.fingerprint
        self.content = service.served.content
        self.encoding = service.served.encoding
        #: The values that samples have beside their labels: each field's type, as ``float32[40]``, by name.
        self.fields = {field.name: str(field) for field in service.served.fields}
        self._samples = service.served.samples

    def __repr__(self) -> str:
        fields = f", fields={list(self.fields)}" if self.fields else ""
        return f"<imgfeed {type(self).__name__}: split {self.split!r}, {len(self)} samples, {self.encoding['name']}{fields}>"

    def __len__(self) -> int:
        """Return the number of samples in the split, of all ranks together."""
        return self._samples

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """Return a sample as it is stored, without the transform: a PIL image (RGB) and its label."""
        number = ANY_INDEX.check("index", index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"imgfeed: there is no sample {number}: the split has {len(self)}")
        try:
            pil = importlib.import_module("PIL.Image")
        except ImportError:
            raise ImportError("imgfeed: dataset[i] is an image of Pillow, which is not installed") from None
        pixels, label = self._service.ask(lambda session: session.sample(number % len(self)))
        return pil.fromarray(pixels), label

    @cached_property
    def classes(self) -> list[str]:
        """The names of the classes; class i has label i. Where images have no labels, those of the objects or masks."""
        names = self._service.ask(Session.classes)
        return names or list(next((field.classes for field in self._service.served.fields if field.classes), ()))

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class."""
        return {name: i for i, name in enumerate(self.classes)}

    @cached_property
    def targets(self) -> npt.NDArray[np.int64]:
        """The label of every sample, in index order: int64, -1 where a sample's partition is out of reach."""
        return self._service.ask(Session.labels).astype(np.int64)

    def get(self, index: int) -> dict[str, Any]:
        """Return the values of a sample's fields by name: numbers of numpy, arrays of shape (N,), texts, bytes, JSON values.

        Objects are a dictionary of arrays, with boxes (float32, (n, 4): left, top, right, bottom) and labels. A mask is uint8,
        (H, W). All are as they are stored.
        """
        number = INDEX.check("index", index)
        return self._service.ask(lambda session: session.values(number, self._service.served.fields))

    def file(self, index: int) -> bytes:
        """Return a sample's file, as it was packed. Raises UnsupportedError if the set's encoding keeps no files."""
        number = INDEX.check("index", index)
        return self._service.ask(lambda session: session.file(number))

    def key(self, index: int) -> str:
        """Return the path below the split's root of the sample with this index, as ``with_index=True`` gives it."""
        number = INDEX.check("index", index)
        return self._service.ask(lambda session: session.key(number))


class LoaderDataset(Samples):
    """The split that a loader serves. Iterating the loader gives its samples; ``dataset[i]`` is for looking at single ones."""

    def __getitems__(self, indices: list[int]) -> NoReturn:
        """Refuse to be the data of torch's DataLoader, which alone asks for several samples at once.

        Frameworks make one to skip the batches of a checkpoint, or to put in a sampler of their own.
        """
        raise TypeError(
            "imgfeed: torch's DataLoader was put around the dataset of an imgfeed loader: images would come as they are "
            "stored, without the transform. Iterate the loader itself. If a framework did so to skip batches after a "
            "checkpoint, let the loader do it: load_state_dict() of the state that was saved with the checkpoint, and "
            "in Hugging Face's TrainingArguments ignore_data_skip=True; with Accelerate leave out skip_first_batches()"
        )
