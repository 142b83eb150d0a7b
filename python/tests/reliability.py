"""The table of faults in docs/reliability.md: each row is written, or compared, by the test that injects the fault."""

import fcntl
import os
import re
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- The rows are written by the tests. -->\n", "<!-- end -->"
#: Set to have the tests write the rows; without, a row that differs fails its test.
UPDATE = "IMGFEED_UPDATE_FAULTS"


def titles() -> list[str]:
    """Return what the tests call their faults, in the order in which they stand there."""
    sources = [path.read_text() for path in sorted(Path(__file__).parent.glob("test_*.py"))]
    return [title for source in sources for title in re.findall(r'\boutcome\(\s*"([^"]+)"', source)]


def rows() -> dict[str, str]:
    """Return the table's lines, by title."""
    lines = DOCUMENT.read_text().split(BEGIN)[1].split(END)[0].splitlines()[2:]
    return {line.split("|")[1].strip(): line for line in lines}


def outcome(fault: str, comes: str, error: BaseException | str | None = None) -> None:
    """Say what came of a fault; error is what its user reads."""
    said = "" if error is None else str(error).splitlines()[0]
    said = re.sub(r"/\S*/(\S+-shards)", r"\1", said)
    said = re.sub(r"(rank-\d+(?:/\d+)?)|\b[0-9a-f]{8}\b|\b\d+\b", lambda m: m[1] or "N", said)
    kind = f"`{type(error).__name__}`: " if isinstance(error, BaseException) else ""
    cell = f"{kind}{said}".replace("|", r"\|")
    line = f"| {fault} | {comes} | {cell} |"
    if not os.environ.get(UPDATE):
        assert rows().get(fault) == line, f"{DOCUMENT} is not what happens: run with {UPDATE}=1, and see what has changed"
        return
    with DOCUMENT.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests of other processes write theirs
        known = {**rows(), fault: line}
        before, table = DOCUMENT.read_text().split(BEGIN)
        head = "| fault | outcome | message to the user |\n|---|---|---|\n"
        body = "".join(known[title] + "\n" for title in titles() if title in known)
        DOCUMENT.write_text(f"{before}{BEGIN}{head}{body}{END}{table.split(END)[1]}")
