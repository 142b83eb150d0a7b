"""What the site has beside docs/: pages of other folders, the commands' help, and the Python package's docstrings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
    "dashboards.md": "deploy/monitoring/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
PYTHON = (sys.executable, "-m")
#: The trainer's commands.
TRAIN = ("", "report", "prepare")
#: Modules of the Python package whose functions are not in the package itself, and those that are programs.
MODULES = ("batch", "callbacks", "ray")
CHECKS = ("check", "gpu_check", "demo")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)")
COMMAND = re.compile(r"^  ([a-z]+) +\S", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    made = {page: (ROOT / source).read_text() for page, source in PAGES.items()}
    made |= {f"{program}.md": commands(program) for program in ("imgfeed", "imgshard")}
    made["imgfeed-train.md"] = helps(
        "imgfeed-train", *((f"imgfeed-train {c}".rstrip(), [*PYTHON, "imgfeed_train", *c.split()]) for c in TRAIN)
    )
    made["checks.md"] = helps("Checks", *((f"python -m imgfeed.{m}", [*PYTHON, f"imgfeed.{m}"]) for m in CHECKS))
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


def said(command: Sequence[str | Path]) -> str:
    """Return a program's help, in a block."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'trainer'}", "COLUMNS": "120"}
    done = subprocess.run([*command, "--help"], check=True, capture_output=True, text=True, env=env)
    return f"``` {{.text .help}}\n{done.stdout}```"


def helps(title: str, *parts: tuple[str, Sequence[str | Path]]) -> str:
    """Return a page with the help of some commands, each below its name."""
    return "\n\n".join([f"# {title}", *(f"## {name}\n\n{said(command)}" for name, command in parts)]) + "\n"


def commands(program: str) -> str:
    """Return a page with a program's help and that of its commands, and of theirs."""

    def below(*words: str) -> Iterator[tuple[str, Sequence[str | Path]]]:
        command = [ROOT / "bin" / program, *words]
        yield " ".join([program, *words]), command
        for name in COMMAND.findall(said(command).partition("Commands:")[2].partition("\nFlags:")[0]):
            if name not in ("completion", "help"):
                yield from below(*words, name)

    return helps(program, *below())


def api() -> str:
    """Return a page of the package's classes and functions, made of their docstrings."""
    module = (ROOT / "python/imgfeed/__init__.py").read_text()
    names = [name for name in re.findall(r'"(\w+)"', module[module.index("__all__") :]) if not name.startswith("__")]
    names.sort(key=lambda name: (name.endswith("Error"), name != "DataLoader"))
    return "# Classes and functions\n\n" + "\n".join(f"::: imgfeed.{name}\n" for name in [*names, *MODULES])
