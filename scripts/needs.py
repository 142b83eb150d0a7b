"""Finds the programs that tests run, by the table internal/testenv/programs.json. Without one a test is skipped with
"needs PROGRAM: how to get it", which `make test` lists at its end.
"""

import functools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAMS = json.loads((Path(__file__).parents[1] / "internal" / "testenv" / "programs.json").read_text())


@functools.cache
def find(name: str, folders: str | None = None) -> str | None:
    """Return the path of a program that answers as the table says, or None: another program may bear its name."""
    program = PROGRAMS[name]
    for command in program["commands"]:
        path = shutil.which(command, path=folders)
        if path is None:
            continue
        try:
            done = subprocess.run(
                [path, *program["version"]],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, check=False, timeout=60,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode in [0, *program.get("status", [])] and re.search(program["says"], done.stdout, re.MULTILINE):
            return path
    return None


def reason(*names: str, also: str = "") -> str:
    """Return which of the programs are missing from PATH and the folder `also`, and how to get them; "" if none is."""
    folders = f"{os.environ['PATH']}:{also}" if also else os.environ["PATH"]
    missing = [PROGRAMS[name] for name in names if find(name, folders) is None]
    return "\n".join(dict.fromkeys(f"needs {program['name']}: {program['install']}" for program in missing))


def programs(*names: str, also: str = "") -> None:
    """Skip the test unless all these programs are on PATH or in the folder `also`."""
    if missing := reason(*names, also=also):
        pytest.skip(missing)


def program(name: str) -> str:
    """Return the path of a program; skip the test if it is missing."""
    programs(name)
    return str(find(name, os.environ["PATH"]))


@functools.cache
def can_mount() -> bool:
    """Whether this process may mount: a container's root often may not."""
    if find("unshare", os.environ["PATH"]) is None:
        return False
    command = "d=$(mktemp -d) && mount -t tmpfs none $d && umount $d && rmdir $d"
    return subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode == 0
