"""imgfeed: a DataLoader that takes batches from the imgfeed server through shared memory.

from imgfeed import DataLoader
for images, labels in DataLoader("/data/train-shards", 256, transform="train", shuffle=True, seed=0):
    ...
"""

import warnings

from ._server.launcher import limits_here
from .dataset import Dataset
from .errors import (
    BadRequestError,
    BinaryNotFoundError,
    CorruptError,
    ImgfeedError,
    LostError,
    MapError,
    MissingError,
    ProtocolError,
    ServerError,
    StateError,
    TimeoutError,  # noqa: A004
    TooManyBadError,
    UnsupportedError,
)
from .loader import DataLoader
from .replay import reference
from .torchloader import from_torch

__version__ = "0.1.0"

if limits_here():
    warnings.warn(limits_here(), RuntimeWarning, stacklevel=2)

__all__ = [
    "BadRequestError", "BinaryNotFoundError", "CorruptError", "DataLoader", "Dataset", "ImgfeedError", "LostError",
    "MapError", "MissingError", "ProtocolError", "ServerError", "StateError", "TimeoutError", "TooManyBadError",
    "UnsupportedError", "from_torch", "reference",
]  # fmt: skip
