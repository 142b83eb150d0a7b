#!/usr/bin/env python3
"""Names sentences that are hard to read, by length or turn, in documents, docstrings and Go comments.

prose.py FILE… exits with 1 for any, and for lines of code in documents that are wider than the site shows.

A sentence ends at a full stop, question mark or exclamation mark, with a paragraph, an item of a list or a cell of a table. In
tables and lists it ends at a colon or semicolon too.
Code blocks and the targets of links do not count; code within a sentence counts as one word.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

WORDS_MAX = 35
#: Columns of code that the site shows without scrolling. The formats' pages have dumps of bytes, which are wider.
COLUMNS_MAX = 97
#: Turns that CONTRIBUTING.md asks to avoid.
TURNS = re.compile(
    r"^What (?:is|are) [^?]*$|\bthat there (?:is|are)\b|\b(?:is|are) (?:told|had|borne)\b"
    r"|\bhalf as much again\b|\bno readable\b|\bas far as there\b"
)
CUT = re.compile(r"\n\s*\n|\n\s*(?:[-*#|>]|\d+\.)\s|\||(?<=[.?!])[)\"”*_]*(?=\s)|<br>|(?<=\S) {3,}(?=\S)")


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a document in Markdown, each with the line where it begins."""

    def blank(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    text = re.sub(r"^```.*?^```", blank, text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ {4,}\S.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)\s]*\)", "]", re.sub(r"`[^`\n]+`", "code", text))
    text = re.sub(r"^\s*(?:\||[-*] |\d+\. ).*$", lambda row: re.sub(r"[:;](?=\s)", "|", row[0]), text, flags=re.MULTILINE)
    begin = 0
    for cut in [*CUT.finditer(text), None]:
        end = len(text) if cut is None else cut.start()
        part = text[begin:end]
        if part.strip():
            yield text.count("\n", 0, begin + len(part) - len(part.lstrip())) + 1, " ".join(part.split())
        begin = end if cut is None else cut.end()


def wide(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a document's code that are wider than the site shows, each with its number."""
    if path.suffix == ".md" and path.parent.name != "format":
        fenced = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            fenced ^= line.startswith("```")
            code = line if fenced else line.removeprefix("    ")
            if (fenced or code != line) and len(code) > COLUMNS_MAX:
                yield number, code


#: A line with a comment: code, with strings skipped, and the comment's text. Directives do not count.
GO_COMMENT = re.compile(r"""^((?:[^"`/]|"(?:[^"\\]|\\.)*"|`[^`]*`|/(?!/))*)//(?!go:) ?(.*)$""")


def go_comments(source: str) -> str:
    """Return a Go file's comments, each on its line; a comment behind code is a cell of a table."""
    if re.search(r"^// Code generated", source, re.MULTILINE):
        return ""
    lines = []
    for line in source.split("\n"):
        code, text = found.groups() if (found := GO_COMMENT.match(line)) else ("", "")
        text = "" if text.startswith("\t") else text.strip()
        lines.append(f"| {text} |" if code.strip() and text else text)
    return "\n".join(lines)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield a document, a Go file's comments, or the docstrings of a Python file, each with the lines before it."""
    if path.suffix == ".go":
        yield 0, go_comments(path.read_text())
        return
    if path.suffix != ".py":
        yield 0, path.read_text()
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno - 1, text


def main() -> int:
    """Check the files; print where long sentences are."""
    found = counted = words = 0
    for name in sys.argv[1:]:
        for line, code in wide(Path(name)):
            found += 1
            print(f"{name}:{line}: {len(code)} columns of code: {code[:60]}…")
        for line, sentence in ((before + line, said) for before, text in texts(Path(name)) for line, said in sentences(text)):
            count = len(re.findall(r"[\w’'-]+", sentence))
            if count < 3:
                continue
            counted += 1
            words += count
            turn = TURNS.search(sentence)
            if count > WORDS_MAX or turn:
                found += 1
                print(f"{name}:{line}: {f'say it plainly: {turn[0][:40]!r}' if turn else f'{count} words'}: {sentence[:100]}…")
    print(f"{counted} sentences of {words / max(1, counted):.1f} words, {found} to be mended")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
