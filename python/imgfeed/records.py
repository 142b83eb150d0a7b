"""Records of the work on samples, which a person can read and imgfeed.reference repeats.

The server repeats the sample when you look at its record. The batch keeps everything needed for this later request.
"""

import operator
from collections.abc import Iterator
from typing import Any, overload

from . import errors
from ._server.client import Batch
from ._server.service import Service

#: Calls of torchvision.transforms.functional, one after the other: each has a function's name as "op", and its arguments.
Record = list[dict[str, Any]]

_AT_ONCE = 32  # of one request to the server, which does them one after the other before it answers


def ask(service: Service, epoch: int, indices: list[int], repetitions: list[int] | None, view: int) -> list[Record]:
    """Return the work of the transform's view on samples, by index and repetition, in an epoch."""
    made: list[Record] = []
    for first in range(0, len(indices), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        again = None if repetitions is None else repetitions[part]
        made += service.ask(operator.methodcaller("records", epoch, indices[part], again, view))
    return made


class Records:
    """The records of a batch's samples, or of one view of them, in the batch's order: ``records[3]``, ``list(records)``.

    Each is requested when you first look at it, then kept. A blank sample's is None. This is not a Sequence: programs that move
    batches to a device go through those, and would request them all. Looking raises the errors of ``DataLoader.records``.
    """

    def __init__(self, service: Service, epoch: int, batch: Batch, view: int) -> None:
        """Take a batch of an epoch, which has its indices and repetitions."""
        arrays = batch.arrays
        if arrays.repetitions is None:
            raise errors.ProtocolError("imgfeed: the server's batches have no repetitions, by which records are asked for")
        self._service = service
        self._epoch = epoch
        self._view = view
        self._indices: list[int] = arrays.indices.tolist()
        self._repetitions: list[int] = arrays.repetitions.tolist()
        self._made: dict[int, Record | None] = {bad["place"]: None for bad in batch.bad if bad.get("by") is None}

    def __len__(self) -> int:
        """Return how many samples the batch has."""
        return len(self._indices)

    @overload
    def __getitem__(self, position: int) -> Record | None: ...
    @overload
    def __getitem__(self, position: slice) -> list[Record | None]: ...
    def __getitem__(self, position: int | slice) -> Record | list[Record | None] | None:
        """Return the record of the sample at a position in the batch, or those of several."""
        positions = range(len(self))[position]
        return self._of([positions])[0] if isinstance(positions, int) else self._of(list(positions))

    def __iter__(self) -> Iterator[Record | None]:
        """Give one record after the other, asking for some at a time."""
        for first in range(0, len(self), _AT_ONCE):
            yield from self[first : first + _AT_ONCE]

    def __repr__(self) -> str:
        return f"<records of {len(self)} samples, epoch {self._epoch}, view {self._view}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what stays of them in a copy or in another process: a list."""
        return list, (list(self),)

    def _of(self, positions: list[int]) -> list[Record | None]:
        asked = [i for i in positions if i not in self._made]
        indices, repetitions = [self._indices[i] for i in asked], [self._repetitions[i] for i in asked]
        self._made.update(zip(asked, ask(self._service, self._epoch, indices, repetitions, self._view), strict=True))
        return [self._made[i] for i in positions]


def of_batch(service: Service, epoch: int, batch: Batch) -> Records | list[Records]:
    """Return the records of a batch; with several views a list of them, like its images."""
    if not isinstance(batch.arrays.images, list):
        return Records(service, epoch, batch, 0)
    return [Records(service, epoch, batch, view) for view in range(len(batch.arrays.images))]
