"""Alerts by promtool, and the dashboard's queries by a Prometheus that scrapes a server at work."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
from imgfeed import DataLoader
from imgfeed.programs import find_binary

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(bool(missing := needs.reason("prometheus", "promtool")), reason=missing)


def promtool(*args: str) -> None:
    done = subprocess.run(["promtool", *args], cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts() -> None:
    promtool("check", "rules", "alerts.yaml")
    promtool("check", "config", "--syntax-only", "prometheus.yaml")
    promtool("test", "rules", "alerts_test.yaml")


def test_every_alert_is_tested() -> None:
    named = {line.split()[-1] for line in (HERE / "alerts.yaml").read_text().splitlines() if "- alert:" in line}
    tests = (HERE / "alerts_test.yaml").read_text()
    assert len(named) == 10
    for name in named:
        assert f'alertname="{name}"' in tests


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as reply:
        return json.load(reply)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that has scraped a server, which two clients use, for some seconds; the value is its address."""
    folder = tmp_path_factory.mktemp("monitoring")
    subprocess.run([find_binary("imgshard"), "synth", folder / "synth", "--train", "12", "--val", "0"], check=True)
    subprocess.run([find_binary("imgshard"), "build", folder / "synth" / "train", "-o", folder / "train-shards"], check=True)
    target, port, path = f"127.0.0.1:{free_port()}", free_port(), folder / "sock"
    config = (HERE / "prometheus.yaml").read_text()
    config = (
        config.replace("host.docker.internal:9090", target)
        .replace("10s", "1s")
        .replace("alerts.yaml", str(HERE / "alerts.yaml"))
    )
    (folder / "prometheus.yaml").write_text(config)
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    serve = [find_binary(), "serve", folder / "train-shards", "--socket", path, "--metrics", target]
    scrape = ["prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data"]
    over = threading.Event()
    with (
        subprocess.Popen(serve, **quiet) as server,
        subprocess.Popen([*scrape, f"--web.listen-address=127.0.0.1:{port}"], **quiet) as scraper,
    ):
        threads = [threading.Thread(target=consume, args=(path, rank, over)) for rank in range(2)]
        for thread in threads:
            thread.start()
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for_samples(address)
            yield address
        finally:
            over.set()
            for thread in threads:
                thread.join()
            server.terminate()
            scraper.terminate()


def consume(path: Path, rank: int, over: threading.Event) -> None:
    """Iterate until it is over, as a training of small steps."""
    with DataLoader(f"unix:{path}", batch_size=4, transform="train", framework="numpy", rank=rank, world=2) as loader:
        while not over.is_set():
            for _ in loader:
                time.sleep(0.01)


def wait_for_samples(address: str) -> None:
    deadline = time.monotonic() + 60
    query = urllib.parse.urlencode({"query": "min(count_over_time(imgfeed_threads[1m]))"})
    while time.monotonic() < deadline:
        try:
            result = ask(f"{address}/api/v1/query?{query}")["data"]["result"]
            if result and float(result[0]["value"][1]) >= 6:
                return
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.5)
    raise AssertionError("Prometheus has not scraped the server in a minute")


def test_every_panel_has_data(prometheus: str) -> None:
    dashboard = json.loads((HERE / "grafana" / "imgfeed.json").read_text())
    assert len(dashboard["panels"]) == 12
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "5s").replace("$job", ".*").replace("$instance", ".*")
            reply = ask(f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
            values = [float(series["value"][1]) for series in reply["data"]["result"]]
            assert reply["status"] == "success", expression
            assert any(not math.isnan(value) for value in values), f"{panel['title']}: {expression} gives {reply['data']}"


def test_no_alert_fires_at_a_server_that_is_well(prometheus: str) -> None:
    rules = ask(f"{prometheus}/api/v1/rules")["data"]["groups"]
    assert sum(len(group["rules"]) for group in rules) == 10
    assert all(rule["health"] == "ok" and rule["state"] != "firing" for group in rules for rule in group["rules"]), rules
