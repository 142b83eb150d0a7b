"""The wheel: its commands are the program itself, and the package finds it."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import imgfeed
from imgfeed.programs import find_binary

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("hatchling")


def hook() -> ModuleType:
    """Return python/hatch_build.py."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "python" / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_commands_start_the_program_without_python(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "IMGFEED_WHEEL_BIN": str(Path(find_binary()).resolve().parent)}
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist"]
    subprocess.run(build, cwd=ROOT / "python", env=env, check=True, stdout=subprocess.DEVNULL)
    (wheel,), prefix = (tmp_path / "dist").glob("*.whl"), tmp_path / "prefix"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",
        "--prefix",
        prefix,
        wheel,
    ]
    subprocess.run(install, check=True)
    link = tmp_path / "imgshard"
    link.symlink_to(prefix / "bin" / "imgshard")  # as pipx makes them
    for command in (prefix / "bin" / "imgfeed", prefix / "bin" / "imgshard", link):
        path = "" if command.name == "imgfeed" else "/usr/bin:/bin"  # imgshard is a script of the shell
        said = subprocess.run([command, "--version"], env={"PATH": path}, capture_output=True, text=True, check=True).stdout
        assert said.startswith(f"{command.name} version {imgfeed.__version__}")
    (package,) = (prefix / "lib").glob("python3*/site-packages")
    env = {"PATH": "", "PYTHONPATH": str(package)}
    ask = "from imgfeed.programs import find_binary as find; print(find(), find('imgshard'))"
    found = subprocess.run(
        [sys.executable, "-c", ask], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert found.split() == [str(prefix / "bin" / name) for name in ("imgfeed", "imgshard")]
    for page in ("man/man1/imgfeed.1", "man/man1/imgshard-build.1", "bash-completion/completions/imgshard"):
        assert (prefix / "share" / page).is_file()


def test_commands_of_an_editable_installation_run_the_checkouts(tmp_path: Path) -> None:
    hooks, data = hook().BinariesHook(str(ROOT / "python"), {}, None, None, str(tmp_path), "wheel"), {"shared_scripts": {}}
    hooks.initialize("editable", data)
    scripts = {name: Path(path).read_text() for path, name in data["shared_scripts"].items()}
    hooks.finalize("editable", data, "")
    assert scripts.keys() == {"imgfeed", "imgshard"}
    script, program = tmp_path / "script", tmp_path / "imgshard"
    script.write_text(scripts["imgshard"].replace(str(ROOT / "bin" / "imgshard"), str(program)))
    missing = subprocess.run(["/bin/sh", script, "ls"], capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stderr) == (127, f"imgshard: {program} is missing: run make build there\n")
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    assert subprocess.run(["/bin/sh", script, "ls", "a b"], capture_output=True, text=True, check=True).stdout == "ls a b\n"


def test_a_build_knows_its_commit(tmp_path: Path) -> None:
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.com"]
    assert hook()._commit(tmp_path) == ""
    for words in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert hook()._commit(tmp_path) == head[:12]
    (tmp_path / "commit").write_text("1a2b3c4d5e6f")  # of an sdist, which has no history
    assert hook()._commit(tmp_path) == "1a2b3c4d5e6f"
