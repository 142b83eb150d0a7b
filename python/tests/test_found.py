"""Servers that loaders run for themselves: found by status, with a page if one is asked for."""

import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest
from conftest import PATIENCE

from imgfeed import DataLoader
from imgfeed.programs import find_binary


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def imgfeed(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find_binary(), *args], capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_own_servers_are_found(shards: Path, runtime: Path) -> None:
    assert imgfeed("status").returncode == 1
    with DataLoader(shards, batch_size=8, transform="eval") as one:
        status = imgfeed("status", "--json")
        assert [s["client_pid"] for s in json.loads(status.stdout)["sessions"]] == [os.getpid()]
        with DataLoader(shards, batch_size=8, transform="eval") as two:
            sockets = re.findall("^unix:(.*)", imgfeed("status").stdout, re.MULTILINE)
            assert len(sockets) == 2
            assert re.findall("^unix:(.*)", imgfeed("status", sockets[0]).stdout, re.MULTILINE) == sockets[:1]
            two._service.server.kill()
            two._service.server.process.wait()
            assert len(re.findall("^unix:", imgfeed("status").stdout, re.MULTILINE)) == 1
        del one
    assert imgfeed("status").returncode == 1
    assert not list(runtime.rglob("*.d/*"))


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_the_page_of_an_own_server(
    shards: Path, runtime: Path, how: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IMGFEED_METRICS", "127.0.0.1:0" if how == "environment" else "")
    metrics = "127.0.0.1:0" if how == "argument" else None
    with DataLoader(shards, batch_size=8, transform="eval", metrics=metrics, verbose=True) as loader:
        page = loader.stats()["page"]
        with urllib.request.urlopen(f"{page}status.json", timeout=PATIENCE) as reply:
            assert json.load(reply)["page"] == page
        assert f"status page at {page}" in imgfeed("status").stdout
        for _ in loader:
            pass
    assert page in capfd.readouterr().err
    with pytest.raises(ValueError, match="metrics can't be chosen here: start the server with imgfeed serve --metrics"):
        DataLoader("unix:/nowhere", metrics="9090")
