"""Runs parts of the tests side by side, each a target of make, and says of each whether it passed and how long it took.

    parts.py LOGS AT-ONCE PART... -- MAKE...

What a part prints goes to LOGS/PART.log. Of one that passed its last line is shown, of one that failed everything, as soon as
it has ended; the others go on, so that one run shows all that fails. A signal that would end this ends the parts, with all that
they started.
"""

import contextlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from os import killpg
from pathlib import Path

#: How many seconds a part has after a signal, to end its own servers, before it is killed.
GRACE = 20.0
#: The last line of a part that skipped all of its tests: of pytest, or of skipped.py.
NOTHING_RAN = re.compile(r"^=*\s*(no tests ran|\d+ (skipped|deselected)(, \d+ (deselected|warnings?))*) in |^not started: ")
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Part:
    """A target of make that runs, in a group of processes of its own: a signal reaches each of them once."""

    def __init__(self, name: str, make: Sequence[str], logs: Path) -> None:
        self.name, self.log, self.start = name, logs / f"{name}.log", time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*make, name], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        say(f"{name} …")

    def end(self, how: int) -> None:
        """Send a signal to all processes of the group; without any left there is nothing to do."""
        with contextlib.suppress(ProcessLookupError):
            killpg(self.process.pid, how)

    def verdict(self) -> str:
        """Return the part's line of the summary, once it has ended."""
        took = f"in {time.monotonic() - self.start:.0f} s"
        if self.process.returncode:
            return f"{self.name}: FAILED {took}, see {self.log}"
        last = self.log.read_text(errors="replace").strip().rpartition("\n")[2].strip()
        how = "SKIPPED" if NOTHING_RAN.search(last) else "passed"
        return f"{self.name}: {how} {took}" + (f": {last}" if last else "")


def say(text: str) -> None:
    """Print, at once, also where the output is a file."""
    print(text, flush=True)


def end_all(parts: Sequence[Part], how: int) -> None:
    """Hand a signal on to parts, and kill what is left of them after a time."""
    for part in parts:
        part.end(how)
    deadline = time.monotonic() + GRACE
    for part in parts:
        try:
            part.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            say(f"{part.name} is killed: it did not end within {GRACE:.0f} s")
        part.end(signal.SIGKILL)


def run(logs: Path, at_once: int, names: Sequence[str], make: Sequence[str]) -> int:
    """Run parts, the first ones first; return the exit code: 1 if one failed, and a shell's after a signal."""
    logs.mkdir(parents=True, exist_ok=True)
    came: list[int] = []
    for number in ENDING:  # which also spares the parts that these are ignored, as in a shell's background
        signal.signal(number, lambda number, _: came.append(number))
    waiting, running, verdicts, failed = list(names), list[Part](), list[str](), False
    while (waiting or running) and not came:
        while waiting and len(running) < at_once:
            running.append(Part(waiting.pop(0), make, logs))
        time.sleep(0.05)
        for part in [part for part in running if part.process.poll() is not None]:
            running.remove(part)
            verdicts.append(part.verdict())
            if part.process.returncode:
                failed = True
                say(f"\n==== {part.log} ====\n{part.log.read_text(errors='replace')}==== end of {part.log} ====\n")
            say(verdicts[-1])
    if came:
        say(f"ended by {signal.Signals(came[0]).name}: {', '.join(part.name for part in running)}; the logs are in {logs}")
        end_all(running, came[0])
        return 128 + came[0]
    if failed:
        say("\n" + "\n".join(verdicts))
    return int(failed)


if __name__ == "__main__":
    parts, command = sys.argv[3 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    sys.exit(run(Path(sys.argv[1]), int(sys.argv[2]), parts, command))
