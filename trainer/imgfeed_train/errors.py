"""The errors that a user can do something about; the command prints them without a traceback."""


class TrainError(Exception):
    """Something outside the program is not as it must be; the message names it and says what to do."""


#: What comes of a file's content in which something is missing, or is something else than it should be.
DAMAGED = (AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError)


class RendezvousError(TrainError):
    """The ranks did not find one another in time."""


class AgreedError(TrainError):
    """What all ranks raise alike, so that its message names none of them."""


class LostRankError(TrainError):
    """Another rank ended, or was too late: what this one says of it is second-hand."""


class StorageError(TrainError, OSError):
    """A folder or store does not take or give what it should."""
