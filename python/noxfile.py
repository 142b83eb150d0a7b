"""The wheel in a fresh environment of each release of Python, numpy and torch that there is: ``make test-versions``.

Each row is an environment. Those whose Python is not on PATH are skipped, and said to be; docs/python.md has what ran.
The torches take some GB each: ``make test-versions ROWS='3.14-no-torch 3.15-no-torch'`` chooses.
"""

import tempfile
from pathlib import Path

import nox

HERE = Path(__file__).resolve().parent
WHEELS = HERE.parent / "dist"
#: Of the tests, those that take more than Python, numpy, torch, torchvision and Pillow, or nothing of what is in the wheel.
LEFT_OUT = ("programs", "test_demo.py", "test_images.py", "test_webdataset.py", "test_wheel.py")

OLDEST_NUMPY = ("numpy==1.22.0", "pillow==9.4.0")
TORCH_1 = ("torch==1.13.1", "torchvision==0.14.1", "numpy<2", "pillow==9.4.0", "setuptools<70")
TORCH_2_0 = ("torch==2.0.1", "torchvision==0.15.2", "numpy<2", "pillow<13", "setuptools<70")
TORCH_2_6 = ("torch==2.6.0", "torchvision==0.21.0", "numpy>=2", "pillow<13")
NEWEST = ("torch", "torchvision", "numpy>=2", "pillow")
NO_TORCH = ("numpy>=2", "pillow")

nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = False


@nox.session
@nox.parametrize(
    ("python", "packages"),
    [
        nox.param("3.10", OLDEST_NUMPY, id="3.10-oldest-numpy-no-torch"),
        nox.param("3.10", TORCH_1, id="3.10-torch-1.13"),
        nox.param("3.11", TORCH_2_0, id="3.11-torch-2.0"),
        nox.param("3.12", TORCH_2_6, id="3.12-torch-2.6"),
        nox.param("3.13", NEWEST, id="3.13-newest-torch"),
        nox.param("3.13t", NEWEST, id="3.13t-newest-torch"),
        nox.param("3.13t", NO_TORCH, id="3.13t-no-torch"),
        nox.param("3.14", NEWEST, id="3.14-newest-torch"),
        nox.param("3.14", NO_TORCH, id="3.14-no-torch"),
        nox.param("3.14t", NEWEST, id="3.14t-newest-torch"),
        nox.param("3.14t", NO_TORCH, id="3.14t-no-torch"),
        nox.param("3.15", NEWEST, id="3.15-newest-torch"),
        nox.param("3.15", NO_TORCH, id="3.15-no-torch"),
    ],
)
def versions(session: nox.Session, packages: tuple[str, ...]) -> None:
    """Install the wheel with some packages, say which came, and run the tests on it."""
    wheels = sorted(WHEELS.glob("imgfeed-*.whl"))
    if not wheels:
        session.error(f"there is no wheel in {WHEELS}: make wheel")
    session.install("--only-binary", ":all:", str(wheels[-1]), *packages, "pytest")
    left_out = [f"--ignore={HERE / 'tests' / name}" for name in LEFT_OUT]
    # Elsewhere than in the checkout, and without its programs: what is imported and run is the wheel's.
    with tempfile.TemporaryDirectory() as folder, session.chdir(folder):
        environment: dict[str, str | None] = {"IMGFEED_BIN": None, "PYTHONPATH": None, "PYTHONSAFEPATH": "1"}
        if str(session.python).endswith("t"):
            environment["PYTHON_GIL"] = "0"  # also where an extension module would have it back
        session.run("python", str(HERE / "tests" / "installed.py"), env=environment)
        configuration = [
            "-c",
            str(HERE / "pyproject.toml"),
            "--rootdir",
            str(HERE),
            "-p",
            "no:cacheprovider",
            "-o",
            "faulthandler_timeout=300",
        ]
        session.run("pytest", *configuration, *left_out, *session.posargs, str(HERE / "tests"), env=environment)
