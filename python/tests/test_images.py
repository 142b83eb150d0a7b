"""The Dockerfiles take into the images what the programs are built of. Building them for real is make test-containers' part."""

import re
import shutil
import subprocess
from pathlib import Path

import needs
import pytest

import imgfeed

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILES = ("Dockerfile", "trainer/Dockerfile")
VERSION_FILE = "python/imgfeed/__init__.py"


def build_stage(name: str) -> list[str]:
    """Return the lines of a Dockerfile's first stage, from FROM on."""
    lines = (ROOT / name).read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("FROM ")]
    return [line for line in lines[starts[0] : starts[1]] if line and not line.startswith("#")]


def folders() -> set[str]:
    """Return the folders of the repository that hold packages of the program."""
    ask = [needs.program("go"), "list", "-deps", "-f", "{{if not .Standard}}{{.Dir}}{{end}}", "./cmd/imgfeed"]
    listed = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {Path(line).relative_to(ROOT).parts[0] for line in listed if Path(line).is_relative_to(ROOT)}


@pytest.mark.parametrize("name", DOCKERFILES)
def test_dockerfile_copies_all_packages(name: str) -> None:
    copied = {line.split()[1] for line in build_stage(name) if line.startswith("COPY ") and len(line.split()) == 3}
    assert copied == folders() | {VERSION_FILE}, f"COPY of these folders in {name}"


@pytest.mark.parametrize("name", DOCKERFILES)
def test_dockerfile_stamps_the_version_as_make_does(name: str, tmp_path: Path) -> None:
    """The wheel is refused whose binaries are of another version: run the build's command with a go that tells its flags."""
    lines = build_stage(name)
    command = "\n".join(lines[next(i for i, line in enumerate(lines) if line.startswith("RUN stamp=")) :])
    shutil.copy(ROOT / VERSION_FILE, tmp_path / "version.py")
    told = tmp_path / "go"
    told.write_text('#!/bin/sh\necho "$@"\n')
    told.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "COMMIT": "1a2b3c4d5e6f"}
    script = command.removeprefix("RUN ")
    said = subprocess.run(["/bin/sh", "-ec", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout
    package = "github.com/imgfeed/imgfeed/internal/version"
    assert f"-X {package}.number={imgfeed.__version__} -X {package}.commit=1a2b3c4d5e6f " in said
    assert "-X $(STAMP).number=$(VERSION) -X $(STAMP).commit=$(COMMIT)" in (ROOT / "Makefile").read_text()


def test_context_holds_what_is_copied() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert folders() | {"go.mod", "go.sum", "python", "trainer"} == kept, ".dockerignore"


def test_images_share_the_layers_of_the_build() -> None:
    first, second = map(build_stage, DOCKERFILES)
    assert first == second, "the second image finds the first one's build in the cache only if the lines are the same"


@pytest.mark.parametrize("name", DOCKERFILES)
def test_images_say_what_they_are(name: str) -> None:
    last_stage = (ROOT / name).read_text().rpartition("\nFROM ")[2]
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', last_stage))
    assert labels.keys() >= {"title", "description", "source"}
    assert f'"{labels["source"]}"' in (ROOT / "python/pyproject.toml").read_text()
