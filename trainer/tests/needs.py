"""Programs that tests run. Without one a test says "needs PROGRAM: how to get it", which `make test` lists at its end."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

import pytest

#: Command: what it says when asked for its version, the option that asks, its name for people, what to install.
PROGRAMS = {
    "ip": ("iproute2", "-V", "ip of iproute2", "apt install iproute2"),
    "nsenter": ("util-linux", "--version", "nsenter of util-linux", "apt install util-linux"),
    "unshare": ("util-linux", "--version", "unshare of util-linux", "apt install util-linux"),
    "munged": ("munge", "--version", "munge", "apt install munge"),
    "slurmctld": ("slurm", "-V", "Slurm", "apt install slurm-wlm"),
    "slurmd": ("slurm", "-V", "Slurm", "apt install slurm-wlm"),
}


@functools.cache
def present(name: str, folders: str) -> bool:
    """Whether a command is in one of the folders, and is the one that is meant: others may bear its name."""
    sign, option, _, _ = PROGRAMS[name]
    path = shutil.which(name, path=folders)
    if not path:
        return False
    try:
        said = subprocess.run([path, option], capture_output=True, text=True, check=False, timeout=20, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return sign in said.stdout + said.stderr


def programs(*names: str, also: str = "") -> None:
    """Skip the test unless all these commands are on PATH or, if that is given, in the folder also."""
    folders = f"{os.environ['PATH']}:{also}" if also else os.environ["PATH"]
    missing = [PROGRAMS[name] for name in names if not present(name, folders)]
    if missing:
        pytest.skip("\n".join(dict.fromkeys(f"needs {people}: {install}" for _, _, people, install in missing)))
