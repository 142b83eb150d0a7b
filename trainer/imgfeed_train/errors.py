"""Errors that a user can do something about; the command prints them without a traceback."""


class TrainError(Exception):
    """Something outside the program is wrong; the message names it and the remedy."""


#: What reading a damaged or foreign file raises.
DAMAGED = (AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError)
