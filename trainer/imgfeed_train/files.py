"""Files that are replaced whole or not at all: a reader finds the old content or the new one, whenever this process ends."""

import os
import shutil
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Replace a file's content."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    new.replace(path)


def link(file: Path, name: Path) -> None:
    """Give a file another name too, and take that name from another file."""
    new = name.with_name(f".{name.name}.new")
    new.unlink(missing_ok=True)
    try:
        os.link(file, new)
    except OSError:  # a file system without links
        shutil.copyfile(file, new)
    new.replace(name)
    new.unlink(missing_ok=True)  # rename(2) leaves it if both names have the same file
