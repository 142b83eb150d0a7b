"""What `make test` says at its end of the tests that were skipped."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "skipped.py"

PACKAGE = "github.com/imgfeed/imgfeed/internal/image/jpeg"
GO = f"""<testsuites><testsuite>
<testcase classname="{PACKAGE}" name="TestMatrix">\
<skipped message="=== RUN   TestMatrix&#xA;\
    exact_test.go:241: comparing with Pillow 9.4.0: needs nothing: more&#xA;\
    exact_test.go:272: needs cjpeg of libjpeg-turbo: apt install libjpeg-turbo-progs&#xA;\
        needs ImageMagick: apt install imagemagick&#xA;\
--- SKIP: TestMatrix (1.46s)&#xA;"></skipped></testcase>
<testcase classname="{PACKAGE}" name="TestJpegtran">\
<skipped message="=== RUN   TestJpegtran&#xA;\
    jpegtran_test.go:159: needs ImageMagick: apt install imagemagick&#xA;\
--- SKIP: TestJpegtran (4.00s)&#xA;"></skipped></testcase>
<testcase classname="{PACKAGE}" name="TestPhotographs">\
<skipped message="=== RUN   TestPhotographs&#xA;\
    exact_test.go:111: set IMGFEED_TEST_IMAGES&#xA;\
--- SKIP: TestPhotographs (0.00s)&#xA;"></skipped></testcase>
<testcase classname="{PACKAGE}" name="TestOddities" time="1.22"></testcase>
</testsuite></testsuites>"""

PYTHON = """<testsuites><testsuite>
<testcase classname="" name="tests.test_torch"><skipped message="could not import 'torch': No module named 'torch'"/></testcase>
<testcase classname="tests.test_x" name="test_y"/>
</testsuite></testsuites>"""


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("skipped", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_program_is_named_once_with_what_to_install(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "go.xml").write_text(GO)
    (tmp_path / "python.xml").write_text(PYTHON)
    script.note(tmp_path / "sub" / "trainer.xml", "trainer/tests", "needs torch 2: TORCH_PYTHON= names one")
    reports = [tmp_path / "go.xml", tmp_path / "python.xml", tmp_path / "sub" / "trainer.xml"]
    text = script.listing(test for report in reports for test in script.skipped(report))
    assert text.splitlines() == [
        "Skipped, wholly or in part, for want of a program:",
        "  ImageMagick: apt install imagemagick (2 tests: internal/image/jpeg TestMatrix …)",
        "  Python package torch: pip install torch (1 test: tests.test_torch)",
        "  cjpeg of libjpeg-turbo: apt install libjpeg-turbo-progs (1 test: internal/image/jpeg TestMatrix)",
        "  torch 2: TORCH_PYTHON= names one (1 test: trainer/tests)",
        "Skipped for another reason:",
        "  set IMGFEED_TEST_IMAGES (1 test: internal/image/jpeg TestPhotographs)",
    ]


def test_nothing_skipped_is_said_too(script: ModuleType) -> None:
    assert script.listing([]) == "No test was skipped."
