"""The shape of the package: a page that is read from top to bottom, and imports that run one way."""

from __future__ import annotations

import ast
from pathlib import Path

import imgfeed_train
from imgfeed_train.settings import Settings, parser

ROOT = Path(imgfeed_train.__file__).parent


def imports() -> dict[str, set[str]]:
    """Return for each module of the package those that it imports, wherever in its text."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        package = name.split(".")[:-1]
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = [*package[: len(package) + 1 - node.level], *(node.module or "").split(".")]
                stem = ".".join(part for part in base if part)
                for alias in node.names:
                    below = f"{stem}.{alias.name}" if stem else alias.name
                    found[name] |= {one for one in (below, stem) if one in modules and one != name}
    return found


def test_no_circle_of_imports() -> None:
    graph, done = imports(), set[str]()
    assert "step" in graph["train"] and "train" in graph["command"]

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join([*above[above.index(name) :], name])
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_the_page_is_one() -> None:
    text = (ROOT / "train.py").read_text()
    order = ["# Data:", "# Model:", "# Batches", "# Optimiser", "def run(", "def _epoch(", "def _evaluate(", "def _save("]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert len(text.splitlines()) < 220
    assert "imgfeed_train/train.py" in parser().format_help()


def test_every_setting_is_a_flag_with_help() -> None:
    said = parser().format_help()
    for name in Settings.__dataclass_fields__:
        assert "--" + name.replace("_", "-") in said, name
    assert all(f.metadata["help"] for f in Settings.__dataclass_fields__.values())
