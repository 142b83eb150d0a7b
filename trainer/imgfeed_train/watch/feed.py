"""What a feed says that it waits for, in words: the one table of disk, cpu, client and idle."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wait:
    """One answer of a feed. ``its`` is it as a clause, ``what`` the thing that it waits for, ``advice`` what would help."""

    its: str
    what: str
    advice: str = ""


#: By the server's own word, in the order in which logs number them.
WAITS: dict[str, Wait] = {
    "disk": Wait(
        "its feed waits for the disk",
        "the disk",
        "the disk: its threads spend their time reading. Faster storage, or memory that holds the sets, would help",
    ),
    "cpu": Wait(
        "its feed is short of CPU",
        "CPU",
        "CPU: its threads spend their time decoding and resizing. More CPUs, or sets of the encoding `pixels`, would help",
    ),
    "client": Wait("its feed has batches ready", "the training"),
    "idle": Wait("its feed has made the whole epoch", "nothing, with the whole epoch made,"),
}


def of(word: str) -> Wait:
    """Return a word's entry; one that this version does not know stands for itself."""
    return WAITS.get(word, Wait(f"its feed says {word}", word))
