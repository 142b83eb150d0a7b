"""The table of programs in examples/README.md: of the releases that are pinned, each with a test that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROW = re.compile(
    r"^\| \[[^|]+ \| (?P<release>[^|]+) \|.* \[(?P<name>\w+\.py)\]\(\.\./(?P<test>[^)]+)\)(?: ‡)? \|$", re.MULTILINE
)


def test_the_table_names_the_releases_that_run_and_their_tests() -> None:
    pins: dict[str, str] = {}
    for name in ("requirements-programs.txt", "requirements-programs-all.txt"):
        frameworks = (ROOT / "python" / name).read_text().split("\n\n")[0]
        pins |= re.findall(r"^([\w-]+)==(\S+)$", frameworks, re.MULTILINE)
    rows = list(ROW.finditer((ROOT / "examples/README.md").read_text()))
    named: dict[str, str] = {}
    for row in rows:
        assert (ROOT / row["test"]).is_file() and row["test"].endswith(row["name"])
        named |= re.findall(r"([\w-]+) ([\d.]+)", row["release"])
    assert {package: release for package, release in named.items() if package in pins} == pins
