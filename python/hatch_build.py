"""Puts the program into the wheel under both its names, with its manual pages, and its sources into the sdist.

The wheel's commands are the program itself: no Python starts before it. Those of an editable installation run the checkout's.
Go builds the program, from the sources in an sdist or a checkout; where none are, as in an image, it lies in ../bin. On other
systems than Linux, where imgfeed can't run, it is imgshard alone.

IMGFEED_WHEEL_BIN names a folder that holds the program, IMGFEED_WHEEL_MACHINE another machine that it is for (as `uname -m`
says it), IMGFEED_WHEEL_MANUAL the folder that `imgfeed manual` and `imgshard manual` wrote to on this one.
"""

import json
import os
import platform
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAMES = ("imgfeed", "imgshard")
SOURCES = ("cmd", "internal", "loader", "server", "shard", "transform")
STAMP = "github.com/imgfeed/imgfeed/internal/version"
# A wheel holds no links, and pipx makes links to its commands.
IMGSHARD = '#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/imgfeed" imgshard "$@"\n'
EDITABLE = """#!/bin/sh
program={program}
[ -x "$program" ] || {{ echo "{name}: $program is missing: run make build there" >&2; exit 127; }}
exec "$program" "$@"
"""


def _sources(folder: Path) -> dict[str, str]:
    """Return where in an sdist each file goes that the program is built of."""
    files = [folder / "go.mod", folder / "go.sum"]
    for name in SOURCES:
        files += sorted(file for file in (folder / name).rglob("*") if file.is_file())
    inside = {file: file.relative_to(folder) for file in files}
    return {str(f): f"go/{name}" for f, name in inside.items() if not name.match("*_test.go") and "testdata" not in name.parts}


def _commit(folder: Path) -> str:
    """Return the commit of the sources in a folder, as make does, or the one that an sdist has noted; "" if none is known."""
    if (noted := folder / "commit").is_file():
        return noted.read_text()
    if not (folder / ".git").exists():
        return ""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _build(folder: Path, program: Path, version: str) -> None:
    """Build the program of the sources in a folder. The release of Go that go.mod names is fetched by any Go from 1.21 on."""
    toolchain = re.search(r"^toolchain (.*)$", (folder / "go.mod").read_text(), re.MULTILINE)
    env = {"GOTOOLCHAIN": toolchain[1] if toolchain else "auto", "GOEXPERIMENT": "simd", **os.environ, "CGO_ENABLED": "0"}
    flags = [
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        f"-s -w -X {STAMP}.number={version} -X {STAMP}.commit={_commit(folder)}",
    ]
    command = ["go", "build", *flags, "-o", str(program), f"./cmd/{program.name}"]
    try:
        subprocess.run(command, cwd=folder, env=env, check=True)
    except FileNotFoundError:
        sys.exit("imgfeed: a build needs Go 1.21 or later: install it from https://go.dev/dl, or a wheel, which needs none")
    except subprocess.CalledProcessError:
        sys.exit(f"imgfeed: Go could not build the program (see above): this takes Go 1.21, which fetches {env['GOTOOLCHAIN']}")


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
    targets = {str(page): f"share/man/man1/{page.name}" for page in sorted((folder / "man" / "man1").iterdir())}
    for name in NAMES:
        for file, path in (
            (f"{name}.bash", f"bash-completion/completions/{name}"),
            (f"_{name}", f"zsh/site-functions/_{name}"),
            (f"{name}.fish", f"fish/vendor_completions.d/{name}.fish"),
        ):
            if (folder / "completions" / file).is_file():
                targets[str(folder / "completions" / file)] = f"share/{path}"
    return targets


class BinariesHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the commands to the wheel, and go/ to the sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Set the wheel's tag and its extra files; fails if the program is not there and can't be built."""
        root = Path(self.root)
        sources = root / "go" if (root / "go").is_dir() else root.parent
        self.temporary = tempfile.TemporaryDirectory()
        if self.target_name == "sdist":
            commit = Path(self.temporary.name, "commit")
            commit.write_text(_commit(sources))
            build_data["force_include"].update({**_sources(sources), str(commit): "go/commit"})
        elif version == "editable":
            for name in NAMES:
                self._add_command(
                    name, EDITABLE.format(program=shlex.quote(str(sources / "bin" / name)), name=name), build_data
                )
        else:
            self._add_program(sources, build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for the archive."""
        self.temporary.cleanup()

    def _add_command(self, name: str, text: str, build_data: dict[str, Any]) -> None:
        script = Path(self.temporary.name, name)
        script.write_text(text)
        script.chmod(0o755)
        build_data["shared_scripts"][str(script)] = name

    def _add_program(self, sources: Path, build_data: dict[str, Any]) -> None:
        if sys.platform == "win32":
            sys.exit("imgfeed: it needs Linux: install it in WSL 2, a virtual machine or a container")
        work = Path(self.temporary.name)
        linux = sys.platform == "linux"
        name = "imgfeed" if linux else "imgshard"
        program = Path(os.environ.get("IMGFEED_WHEEL_BIN", sources / "bin"), name)
        if "IMGFEED_WHEEL_BIN" not in os.environ and (sources / "go.mod").is_file():
            program = work / name
            _build(sources, program, self.metadata.version)
        _check_version(program, self.metadata.version)
        build_data["shared_scripts"][str(program)] = name
        if linux:
            self._add_command("imgshard", IMGSHARD, build_data)

        manual = Path(os.environ.get("IMGFEED_WHEEL_MANUAL", work / "manual"))
        if not manual.is_dir():
            for words in ([], ["imgshard"]) if linux else ([],):
                subprocess.run([program, *words, "manual", manual], check=True)
        build_data["shared_data"].update(_manual(manual))
        machine = os.environ.get("IMGFEED_WHEEL_MACHINE", platform.machine())
        # A static binary needs no libc: the oldest tags of glibc and of musl are both true.
        tags = f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
        build_data["tag"] = f"py3-none-{tags if linux else re.sub('[-.]', '_', sysconfig.get_platform())}"
        build_data["pure_python"] = False
