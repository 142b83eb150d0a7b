"""What the operating system knows of CPU time: of another process, and of cores, whoever used them. Linux only."""

import ctypes
import os
import time
from collections.abc import Collection

libc = ctypes.CDLL(None, use_errno=True)


class ProcessClock:
    """The CPU time of another process: user and system, all threads."""

    def __init__(self, pid: int) -> None:
        """Raise OSError if there is no such process."""
        clock = ctypes.c_int()
        if error := libc.clock_getcpuclockid(pid, ctypes.byref(clock)):
            raise OSError(error, f"no CPU clock of process {pid}")
        self._clock = clock.value

    def seconds(self) -> float:
        return time.clock_gettime(self._clock)


def busy_seconds(cores: Collection[int]) -> float:
    """Return for how many seconds these cores together have worked, for anyone, since the machine started."""
    ticks = 0
    with open("/proc/stat", encoding="ascii") as stat:
        for line in stat:
            name, *counts = line.split()
            if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
                user, nice, system, _, _, irq, softirq, steal = map(int, counts[:8])
                ticks += user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


class Others:
    """What share of some cores other programs take, from the moment of making this."""

    def __init__(self, cores: Collection[int]) -> None:
        self._cores = cores
        self._busy, self._clock = busy_seconds(cores), time.perf_counter()

    def share(self, own_seconds: float) -> float:
        """Return the share from 0 to 1, when own_seconds of CPU time since then were the caller's."""
        busy, elapsed = busy_seconds(self._cores) - self._busy, time.perf_counter() - self._clock
        return max(0.0, busy - own_seconds) / elapsed / len(self._cores)
