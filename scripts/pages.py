"""The site's pages that are not in docs/, from other folders, the commands' help and Python's docstrings; and llms.txt."""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
import imgfeed  # noqa: E402
from imgfeed._arguments.arguments import ARGUMENTS  # noqa: E402

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
#: The site's table of contents, as mkdocs hands it over.
NAVIGATION: list[Any] = []
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
    pages = {ROOT / source: page for page, source in PAGES.items()} | {ROOT / "python/imgfeed/loader.py": "api.md"}

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
    return f"``` text\n{done.stdout}```"


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


def arguments(text: str) -> str:
    """Return the groups of a DataLoader's docstring, each as a table: name, type, default and meaning of its arguments."""
    parts, given = [], inspect.signature(imgfeed.DataLoader).parameters
    for group, block in re.findall(r"^([A-Z][a-z ]+):\n((?: {4}.*\n|\n)+)", text + "\n", re.MULTILINE):
        rows = [f"### {group}", "", "| argument | type | default | meaning |", "|---|---|---|---|"]
        for name, meaning in re.findall(r"^ {4}(\w+): ((?:.*\n)(?: {8}.*\n)*)", block, re.MULTILINE):
            kind = ARGUMENTS[name].metadata["kind"].want if name in ARGUMENTS else ""
            default = f"`{given[name].default!r}`" if kind and name != "dataset" else ""
            rows.append(f'| <code class="name">{name}</code> | {kind} | {default} | {" ".join(meaning.split())} |')
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def api() -> str:
    """Return a page of the package's classes and functions, made of their docstrings."""
    names = [name for name in imgfeed.__all__ if name != "DataLoader"]
    names.sort(key=lambda name: name.endswith("Error"))
    text = inspect.getdoc(imgfeed.DataLoader) or ""
    intro, group, rest = text.partition("\nData:\n")
    parts = ["# Classes and functions", "## DataLoader", "`imgfeed.DataLoader(dataset, batch_size=1, shuffle=False, *, …)`"]
    parts += [intro, arguments(group + rest)]
    members = [n for n, member in vars(imgfeed.DataLoader).items() if n[0] != "_" and getattr(member, "__doc__", None)]
    parts += [f"::: imgfeed.DataLoader.{name}\n    options: {{heading_level: 3}}" for name in members]
    parts += [f"::: imgfeed.{name}" for name in (*names, *MODULES)]
    return "\n\n".join(parts) + "\n"


def about(page: Any) -> str:
    """Return a page's line of llms.txt: its title, its address, and the first sentence of its text."""
    paragraphs = re.sub(r"^```.*?^```", "", page.markdown, flags=re.MULTILINE | re.DOTALL).split("\n\n")
    first = next((p for p in paragraphs if re.match(r"\s?[\w*`\[]", p)), "")
    sentence = re.match(r".*?[.?:](?=\s|$)", re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", " ".join(first.split())))
    return f"- [{page.title}]({page.url})" + (f": {sentence[0]}" if sentence else "")


def on_nav(nav: Any, **_: Any) -> None:
    """Keep the table of contents for llms.txt."""
    NAVIGATION[:] = nav.items


def on_post_build(config: Any) -> None:
    """Write llms.txt beside the site, for programs that read: the pages, as the table of contents has them."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for item in NAVIGATION:
        lines += ["", f"## {item.title}", ""]
        for page in item.children:
            lines += [about(each) for each in (page.children or [page])]
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n")
