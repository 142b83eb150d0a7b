"""The exceptions that this package raises. All are ``ImgfeedError``; each is also the built-in that fits best."""

import builtins


class ImgfeedError(Exception):
    """Base of every error that imgfeed reports. The message is the server's own where the server found the fault."""


class BadRequestError(ImgfeedError, ValueError):
    """The server refused a request: an unknown transform, a rank outside the world, an index out of range."""


class CorruptError(ImgfeedError):
    """A sample, shard or manifest is damaged. The message names the file, the record and the offset."""


class TooManyBadError(CorruptError):
    """More samples than ``max_bad=`` can't be read. The message lists them; ``loader.bad`` holds them."""


class UnsupportedError(ImgfeedError):
    """The data or the request is well formed, but of a kind that this version can't serve."""


class MissingError(ImgfeedError, LookupError, FileNotFoundError):
    """The dataset's path, a split, or a partition's folder isn't on this machine."""


class ServerError(ImgfeedError, ConnectionError):
    """The server failed inside, could not be started or reached, or went away."""


class LostError(ServerError):
    """The server that was there, or is waited for, is not: it was killed, was stopped, does not answer, or has not come yet."""


class ProtocolError(ServerError):
    """The data on the socket do not follow docs/format/wire.md."""


class BinaryNotFoundError(ServerError, FileNotFoundError):
    """The ``imgfeed`` program was not found; the message lists where it was looked for."""


class TimeoutError(ImgfeedError, builtins.TimeoutError):  # noqa: A001 - as asyncio and concurrent.futures had it
    """No batch, or no reply, came within the time allowed."""


class MapError(ImgfeedError, RuntimeError):
    """A function that was given as ``map=`` failed. The message names the sample and ends with the function's traceback."""


class StateError(ImgfeedError, ValueError):
    """A state given to ``load_state_dict`` belongs to other data, another seed or another version."""


#: The exception for each kind of an ``error`` message of the server; any other is a ServerError.
BY_KIND: dict[str, type[ImgfeedError]] = {
    "bad_request": BadRequestError,
    "corrupt": CorruptError,
    "unsupported": UnsupportedError,
    "missing": MissingError,
    "internal": ServerError,
    "stopped": LostError,
}
