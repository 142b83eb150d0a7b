"""The trainer of imgfeed: image classifiers on one node or many, fed by imgfeed, resumable to the bit."""

__version__ = "0.1.0"
