#!/usr/bin/env python3
"""Names sentences of the documents that are hard to read, by length or turn: prose.py FILE… exits with 1 if there are any.

A sentence ends at a full stop, question mark or exclamation mark, with a paragraph, an item of a list or a cell of a table. In
tables and lists it ends at a colon or semicolon too.
Code blocks and the targets of links do not count; code within a sentence counts as one word.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

WORDS_MAX = 35
#: Turns that CONTRIBUTING.md asks to avoid.
TURNS = re.compile(r"^What is [^?]*$|\bthat there (?:is|are)\b|\b(?:is|are) (?:told so|had|borne)\b|\bhalf as much again\b")
CUT = re.compile(r"\n\s*\n|\n\s*(?:[-*#|>]|\d+\.)\s|\||(?<=[.?!])[)\"”*_]*(?=\s)|<br>")


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


def main() -> int:
    """Check the files; print where long sentences are."""
    found = counted = words = 0
    for name in sys.argv[1:]:
        for line, sentence in sentences(Path(name).read_text()):
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
