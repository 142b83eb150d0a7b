"""Lists the tests that were skipped, of JUnit's reports: first what to install for want of which program, then the others.

    skipped.py REPORT.xml...
    skipped.py --note REPORT.xml TESTS REASON    writes a report of tests that were not even started

Tests say "needs PROGRAM: how to get it". pytest.importorskip has words of its own, which are understood too.
"""

import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from pathlib import Path

MODULE = "github.com/imgfeed/imgfeed/"
GO_LOG = re.compile(
    r"^ +\w+\.go:\d+: (.*(?:\n {8}.*)*)", re.MULTILINE
)  # "    file_test.go:12: what a test says", and further lines
NEEDS = re.compile(r"^ *needs ([^:\n]+): (.+)", re.MULTILINE)
NO_MODULE = re.compile(r"could not import '([\w.]+)'|module '([\w.]+)' has __version__")


def skipped(report: Path) -> Iterator[tuple[str, str]]:
    """Yield each skipped test's name, and why it was skipped."""
    for case in ET.parse(report).getroot().iter("testcase"):
        skip = case.find("skipped")
        if skip is None:
            continue
        reason = skip.get("message") or ""
        if logged := GO_LOG.findall(reason):
            reason = logged[-1]  # Go's is all that the test said, and last why it was skipped
        module = case.get("classname", "").replace(MODULE, "")
        yield f"{module} {case.get('name')}".strip(), reason.strip()


def wants(reason: str) -> list[tuple[str, str]]:
    """Return the programs that a reason names, with what to install."""
    if found := NO_MODULE.search(reason):
        package = (found[1] or found[2]).split(".")[0]
        return [(f"Python package {package}", f"pip install {package}")]
    return NEEDS.findall(reason)


def count(tests: list[str]) -> str:
    """Say how many tests these are, and name the first."""
    return "1 test: " + tests[0] if len(tests) == 1 else f"{len(tests)} tests: {tests[0]} …"


def listing(tests: Iterable[tuple[str, str]]) -> str:
    """Return the text that ends `make test`."""
    programs: dict[tuple[str, str], list[str]] = {}
    others: dict[str, list[str]] = {}
    for name, reason in tests:
        for program in wants(reason):
            programs.setdefault(program, []).append(name)
        if not wants(reason):
            others.setdefault(" ".join(reason.split()), []).append(name)
    lines = []
    if programs:
        lines += ["Skipped, wholly or in part, for want of a program:"]
        lines += [f"  {program}: {install} ({count(tests)})" for (program, install), tests in sorted(programs.items())]
    if others:
        lines += ["Skipped for another reason:"]
        lines += [f"  {reason} ({count(tests)})" for reason, tests in sorted(others.items())]
    return "\n".join(lines or ["No test was skipped."])


def note(report: Path, tests: str, reason: str) -> None:
    """Write a report that says that tests were skipped."""
    suite = ET.Element("testsuite")
    ET.SubElement(ET.SubElement(suite, "testcase", name=tests), "skipped", message=reason)
    report.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(suite).write(report)
    print(f"not started: {tests}: {reason}")


if __name__ == "__main__":
    if sys.argv[1] == "--note":
        note(Path(sys.argv[2]), sys.argv[3], sys.argv[4])
    else:
        print(listing(test for report in sys.argv[1:] for test in skipped(Path(report))))
