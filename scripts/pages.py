"""What the site has beside docs/: pages of other folders, the commands' help, and the Python package's docstrings."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
SOURCES = "https://github.com/imgfeed/imgfeed/blob/main/"
#: Pages of the site that lie elsewhere in the repository.
PAGES = {
    "index.md": "README.md",
    "examples.md": "examples/README.md",
    "trainer.md": "trainer/README.md",
    "kubernetes.md": "deploy/kubernetes/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)")
COMMAND = re.compile(r"^  ([a-z]+) +\S", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    made = {page: (ROOT / source).read_text() for page, source in PAGES.items()}
    made |= {f"{program}.md": help_of(program) for program in ("imgfeed", "imgshard")}
    made["api.md"] = api()
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """Have links to files of the repository lead to their pages of the site, or to the repository."""
    path = page.file.src_path
    folder = (ROOT / PAGES.get(path, f"docs/{path}")).parent
    pages = {ROOT / source: page for page, source in PAGES.items()}

    def lead(link: re.Match[str]) -> str:
        target, anchor = (folder / link[1]).resolve(), link[2] or ""
        up = "../" * path.count("/")
        if target in pages:
            return f"]({up}{pages[target]}{anchor})"
        if target.is_relative_to(ROOT / "docs") and target.is_file():
            return f"]({up}{target.relative_to(ROOT / 'docs')}{anchor})"
        if target == ROOT / "docs" / "format":
            return f"]({up}format/index.md)"
        return f"]({SOURCES}{target.relative_to(ROOT)}{anchor})" if target.exists() else link[0]

    return LINK.sub(lead, text)


def help_of(program: str) -> str:
    """Return a page with a program's help and that of its commands."""

    def said(*command: str) -> str:
        return subprocess.run([ROOT / "bin" / program, *command, "--help"], check=True, capture_output=True, text=True).stdout

    whole = said()
    parts = [f"# {program}", f"```text\n{whole}```"]
    commands = [c for c in COMMAND.findall(whole) if c not in ("completion", "help")]
    for command in commands:
        parts.append(f"## {program} {command}\n\n```text\n{said(command)}```")
    return "\n\n".join(parts) + "\n"


def api() -> str:
    """Return a page of the package's classes and functions, made of their docstrings."""
    module = (ROOT / "python/imgfeed/__init__.py").read_text()
    names = re.findall(r'"(\w+)"', module[module.index("__all__") :])
    return "# Classes and functions\n\n" + "\n".join(f"::: imgfeed.{name}\n" for name in names if not name.startswith("__"))
