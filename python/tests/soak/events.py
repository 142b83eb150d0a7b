"""What happens in a soak, and when: a function of the seed alone."""

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

GAP = 1.0  # mean seconds between two events
REST = 2.0  # seconds in which nothing more happens to what an event was about


@dataclass(frozen=True)
class Kind:
    """A kind of event: how often it comes among the others, to whom, and for how many seconds."""

    what: str
    weight: float
    whom: tuple[str, ...]
    shortest: float = 0.05
    longest: float = 4.0


TRAINERS = ("rank0", "rank1")
KINDS = (
    Kind("kill", 4, ("feed",)),  # SIGKILL, and a new one after that time
    Kind("end", 3, ("feed",)),  # SIGTERM
    Kind("upgrade", 2, ("feed",), 0.01, 0.1),  # SIGTERM, and at once another binary with other flags
    Kind("hold", 2, ("feed", "steady")),  # SIGSTOP, and SIGCONT after that time
    Kind("hang", 0.1, ("feed",), 35, 40),  # the same for longer than clients believe in it
    Kind("unlink", 2, ("feed",), 0.05, 2),  # the socket vanishes, and another server makes it anew
    Kind("reload", 2, ("feed", "steady"), 0.01, 0.1),
    Kind("kill", 3, TRAINERS),
    Kind("end", 3, TRAINERS),
    Kind("hold", 2, (*TRAINERS, "witness")),
    Kind("kill", 2, ("own",)),  # a server that is a trainer's own
    Kind("hold", 1, ("own",)),
    Kind("damage", 3, ("train", "val"), 0.2, 4),  # a set's files, which are repaired after that time
    Kind("fill", 2, ("disk",), 0.2, 6),  # the one with states, sockets and temporary files
    Kind("guest", 2, ("steady guest", "feed guest"), 0.2, 6),  # a client that takes all slots, floods, and is killed
)


@dataclass(frozen=True)
class Event:
    at: float  # seconds from the beginning
    what: str
    whom: str
    lasts: float  # seconds, until it is undone
    dice: float  # from 0 to 1, for what is left to choose

    def __str__(self) -> str:
        return f"{self.what} {self.whom}"


def events(seed: int) -> Iterator[Event]:
    """Yield events without end, in order. Two that are about the same do not overlap."""
    dice = random.Random(seed)
    free: dict[str, float] = defaultdict(float)
    now = 0.0
    while True:
        now += dice.expovariate(1 / GAP)
        kind = dice.choices(KINDS, [kind.weight for kind in KINDS])[0]
        whom = dice.choice(kind.whom)
        lasts = math.exp(dice.uniform(math.log(kind.shortest), math.log(kind.longest)))
        event = Event(now, kind.what, whom, lasts, dice.random())
        if now >= free[whom]:
            free[whom] = now + lasts + REST
            yield event
