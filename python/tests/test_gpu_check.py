"""python -m imgfeed.gpu_check: its report on a simulated device, and how it ends without one."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import simulated_cuda

from imgfeed import gpu_check

torch = pytest.importorskip("torch")


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device at once, as what is computed there is: test_device.py has it late."""
    simulated_cuda.install(monkeypatch)
    monkeypatch.setattr(simulated_cuda.CudaOutput, "send", lambda self, tensor: tensor.clone())
    monkeypatch.setattr(gpu_check.Gpu, "send", lambda self, value: value.clone() if torch.is_tensor(value) else value)
    monkeypatch.setattr(gpu_check.Gpu, "wait", lambda self: None)
    monkeypatch.setattr(gpu_check.Gpu, "facts", lambda self: [("GPU", "none"), ("driver", "none")])
    monkeypatch.setattr(gpu_check.Gpu, "page_locked", lambda self, memory: True)
    monkeypatch.setattr(gpu_check, "_MATRIX", 64)
    monkeypatch.setattr(gpu_check, "_COMPARED", 24)
    small = torch.nn.Sequential(torch.nn.AvgPool2d(32), torch.nn.Flatten(), torch.nn.Linear(147, 1000))
    monkeypatch.setattr(gpu_check, "_network", lambda torch: ("a small network", small))


def arguments(shards: Path) -> list[str]:
    return ["--data", str(shards), "--batch-size", "16", "--seconds", "100ms"]


def holds(printed: str) -> dict[str, str]:
    """Return what the report says of each check."""
    rows = [[cell.strip() for cell in line.split("|")] for line in printed.split("| check |")[1].splitlines()[2:]]
    return {row[1]: row[2] for row in rows}


@pytest.mark.usefixtures("simulated")
def test_the_report(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = gpu_check.main(arguments(shards))
    printed = capsys.readouterr().out
    checks = holds(printed)
    hidden = checks.pop("overlap of copies with computation")  # this device computes while nobody looks, or not
    assert status == (0 if hidden == "yes" else 1), printed
    assert checks.pop("images/s in training") == "–"
    assert len(checks) >= 4 and "a small network, 5 classes; the server: " in printed and set(checks.values()) == {"yes"}, (
        printed
    )
    assert "24 images, equal in every bit" in printed and "| GPU | none |" in printed and "from the loader" in printed


@pytest.mark.usefixtures("simulated")
def test_what_does_not_hold_is_told(shards: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    spoiled = iter([True])

    def wrong(self: Any, tensor: Any) -> Any:
        return tensor ^ 1 if next(spoiled, False) else tensor

    monkeypatch.setattr(simulated_cuda.CudaOutput, "send", wrong)
    monkeypatch.setattr(gpu_check.Gpu, "page_locked", lambda self, memory: False)
    monkeypatch.setattr(gpu_check, "overlap", lambda *args: None)
    monkeypatch.setattr(gpu_check, "rates", lambda *args: None)
    assert gpu_check.main(arguments(shards)) == 1
    printed = capsys.readouterr().out
    checks = holds(printed)
    assert checks["page-locked ring"] == "**NO**" and checks["equal bits, uint8"] == "**NO**"
    assert checks["equal bits, normalize=, float16"] == "yes" and "they differ by 1 at most" in printed


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main([]) == 2
    words = capsys.readouterr().err
    assert "finds no CUDA device, so there is nothing to check" in words and "driver is" in words
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for device in ("cuda:3", "cpu", "none"):
        assert gpu_check.main(["--device", device]) == 2
        assert f"--device is '{device}'" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["soon", "0", "-1s", "nan", "inf", ""])
def test_what_is_no_time(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with pytest.raises(SystemExit):
        gpu_check.main([f"--seconds={text}"])
    assert f"--seconds: is {text!r}, want a time such as 30s or 30, above 0" in capsys.readouterr().err


def test_without_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('none')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from imgfeed import gpu_check; sys.exit(gpu_check.main([]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "imgfeed.gpu_check: it needs torch, which is not installed\n")


def test_a_set_of_its_own(tmp_path: Path) -> None:
    assert (Path(gpu_check.synthetic(tmp_path, 1)) / "manifest.json").is_file()
