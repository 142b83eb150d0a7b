"""Puts the static binaries of ../bin into the wheel, with their manual pages, and tags it for this machine's platform.

IMGFEED_WHEEL_BIN names another folder of binaries, IMGFEED_WHEEL_MACHINE another machine that they are for (as `uname -m`
says it), IMGFEED_WHEEL_MANUAL the folder that their command `manual` wrote to.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BINARIES = ("imgfeed", "imgshard")


def _check_version(binary: Path, want: str) -> None:
    """Fail if a binary is of another version than the wheel. One of another machine, which can't be run, is not asked."""
    try:
        told = subprocess.run([binary, "version", "--json"], capture_output=True, text=True, check=True).stdout
    except OSError:
        return
    if (got := json.loads(told)["version"]) != want:
        raise RuntimeError(f"{binary} is version {got}, and the wheel {want}: run `make build`")


def _manual(folder: Path) -> dict[str, str]:
    """Return where under an environment's prefix the files go that `imgfeed manual` and `imgshard manual` wrote."""
    places = {str(page): f"share/man/man1/{page.name}" for page in sorted((folder / "man" / "man1").iterdir())}
    for name in BINARIES:
        for file, place in (
            (f"{name}.bash", f"bash-completion/completions/{name}"),
            (f"_{name}", f"zsh/site-functions/_{name}"),
            (f"{name}.fish", f"fish/vendor_completions.d/{name}.fish"),
        ):
            places[str(folder / "completions" / file)] = f"share/{place}"
    return places


class BinariesHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds imgfeed/bin/ to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Set the wheel's tag and its extra files; fails if the binaries were not built."""
        if version == "editable":
            return
        folder = Path(os.environ.get("IMGFEED_WHEEL_BIN", Path(self.root).parent / "bin"))
        for name in BINARIES:
            binary = folder / name
            if not binary.is_file():
                raise FileNotFoundError(f"{binary}: run `make build` first")
            _check_version(binary, self.metadata.version)
            build_data["force_include"][str(binary)] = f"imgfeed/bin/{name}"
        if manual := os.environ.get("IMGFEED_WHEEL_MANUAL"):
            build_data["shared_data"].update(_manual(Path(manual)))
        machine = os.environ.get("IMGFEED_WHEEL_MACHINE", platform.machine())
        # Static binaries need no libc: the oldest tags of glibc and of musl are both true.
        build_data["tag"] = f"py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
        build_data["pure_python"] = False
