"""A shard set as a map-style dataset, for notebooks, evaluation and other loaders."""

import os
from collections.abc import Callable
from typing import Any

from ._arguments.arguments import LEAST
from ._arguments.paths import source_path
from ._server.samples import Samples
from .loader import DataLoader


class Dataset(Samples):
    """A shard set as a map-style dataset, as torchvision's ImageFolder is: an image of Pillow and a label for each index.

    In torch's DataLoader each worker reads through an ``imgfeed serve`` of its own with one thread, unless source is
    ``unix:PATH`` of a running server. ``file(i)`` is a sample's file, ``get(i)`` its fields, ``key(i)`` its name.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        split: str | None = None,
        *,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
    ) -> None:
        """Open a set.

        Args:
            source: The set's path or URL, or ``unix:PATH`` of a server.
            split: Which one, if there are several.
            transform: Called with each image (PIL, RGB).
            target_transform: Called with each label.

        Raises:
            ImgfeedError: The set can't be read; the message says why.
        """
        self.source = source_path("source", source)
        self.transform = transform
        self.target_transform = target_transform
        self._open(split)

    def _open(self, split: str | None) -> None:
        options: dict[str, Any] = {"transform": LEAST.operations, "framework": "numpy", "rank": 0, "world": 1, "metrics": ""}
        options["num_workers"] = 0 if self.source.startswith("unix:") else 1
        super().__init__(DataLoader(self.source, split=split, **options)._service)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return the image, whole and as it is stored, and the label, both transformed."""
        image, label = super().__getitem__(index)
        return (
            image if self.transform is None else self.transform(image),
            label if self.target_transform is None else self.target_transform(label),
        )

    def __repr__(self) -> str:
        return f"imgfeed.Dataset({self.source!r}, split={self.split!r}): {len(self)} samples"

    def close(self) -> None:
        """End the server, if it is the dataset's own. The next sample starts another one."""
        self._service.close()

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process opens the set by."""
        return {name: getattr(self, name) for name in ("source", "split", "transform", "target_transform")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        split = state.pop("split")
        self.__dict__.update(state)
        self._open(split)
