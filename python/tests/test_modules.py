"""What is private in the client looks private, and programs around it use public names only."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import imgfeed

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {
    *("batch", "callbacks", "check", "demo", "errors", "gpu_check", "programs", "ray", "records", "replay"),
    *("loader", "dataset", "torchloader"),  # of DataLoader, Dataset and from_torch
}


def texts() -> Iterator[tuple[str, str]]:
    """Yield the code of the trainer, the examples, their patches and the documents, with its name."""
    for folder in ("trainer/imgfeed_train", "examples", "bench", "deploy", "scripts"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if ".venv" not in path.parts and not path.name.startswith("test_") and path.name != "pages.py":
                yield str(path.relative_to(ROOT)), path.read_text()
        for path in sorted((ROOT / folder).rglob("*.patch")):
            yield (
                str(path.relative_to(ROOT)),
                "\n".join(re.findall(r"^\+\s*((?:from|import) imgfeed.*)", path.read_text(), re.M)),
            )
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]:
        yield str(path.relative_to(ROOT)), imported(path)


def imported(path: Path) -> str:
    """Return the lines of a patch or a document that import from imgfeed."""
    return "\n".join(re.findall(r"^\+?\s*((?:from imgfeed[\w.]* import|import imgfeed).*)", path.read_text(), re.M))


def imports(code: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of everything that code imports from imgfeed; "" for a module itself."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_programs_import_public_names_only() -> None:
    found = [(where, *of) for where, code in texts() for of in imports(code) if of[0].split(".")[0] == "imgfeed"]
    assert {where.split("/")[0] for where, *_ in found} >= {"trainer", "examples", "bench", "docs", "README.md"}
    for where, module, name in found:
        parts = module.split(".")[1:]
        assert not parts or (len(parts) == 1 and parts[0] in PUBLIC), f"{where} imports {module}"
        if name and parts != ["ray"]:
            assert hasattr(importlib.import_module(module), name) and not name.startswith("_"), (
                f"{where}: {module} has no {name}"
            )
        assert parts or not name or name in imgfeed.__all__ or name in PUBLIC, f"{where} imports {name}, which is private"


def test_every_other_module_is_in_a_private_package() -> None:
    package = Path(imgfeed.__file__).parent
    assert {path.stem for path in package.glob("*.py") if not path.stem.startswith("_")} == PUBLIC
    assert {path.parent.name for path in package.glob("*/__init__.py")} == {"_arguments", "_epoch", "_map", "_server"}


@pytest.mark.parametrize("name", ["find_binary", "source_path", "connect"])
def test_names_for_programs(name: str) -> None:
    assert name in importlib.import_module("imgfeed.programs").__all__
