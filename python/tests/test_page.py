"""The status page in a real Chromium: it draws, keeps up to date, survives the server's end, and complains of nothing."""

from __future__ import annotations

import os
import shutil
import socket as sockets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import RANDOM, answers, wait_for

from imgfeed import DataLoader
from imgfeed.launcher import find_binary

playwright = pytest.importorskip("playwright.sync_api")

#: Where screenshots go, to be looked at; nowhere if it is not set.
SCREENSHOTS = os.environ.get("IMGFEED_TEST_SCREENSHOTS")
SIZES = {"light": (1200, 900), "dark": (1200, 900), "phone": (390, 844)}


class Feed:
    """A server with a page, at an address that stays the same when it is started again."""

    def __init__(self, shards: Path, folder: Path) -> None:
        with sockets.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{s.getsockname()[1]}"
        self.shards, self.socket = shards, folder / "sock"
        self.start()

    def start(self) -> None:
        command = [find_binary(), "serve", str(self.shards), "--socket", str(self.socket), "--metrics", self.address]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: answers(self.socket))

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    def loader(self, **options: Any) -> DataLoader:
        return DataLoader(f"unix:{self.socket}", framework="numpy", transform=RANDOM, reconnect=0, **options)


@pytest.fixture
def feed(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feed]:
    feed = Feed(shards, tmp_path_factory.mktemp("page"))
    yield feed
    feed.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs Chromium: apt install chromium")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Page:
    """A page that remembers what the browser's console said."""

    def __init__(self, browser: Any, feed: Feed, kind: str) -> None:
        width, height = SIZES[kind]
        scheme = "light" if kind == "light" else "dark"
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.page.on("console", lambda m: self.said.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.said.append(str(e)))
        self.page.goto(f"http://{feed.address}/")

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).inner_text())

    def wait(self, script: str) -> None:
        wait_for(lambda: self.page.evaluate(script), 20)  # what playwright waits with, the page's policy forbids

    def close(self, name: str) -> None:
        if SCREENSHOTS:
            self.page.screenshot(path=Path(SCREENSHOTS) / f"page-{name}.png", full_page=True)
        self.context.close()


def drawn(page: Page, place: str) -> bool:
    """Whether a plot shows more than its axes: a pixel that has a colour."""
    return bool(
        page.page.evaluate(
            """(id) => {
            const canvas = document.querySelector(`#${id} canvas`);
            const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            for (let i = 0; i < data.length; i += 4) {
                const [r, g, b, alpha] = data.slice(i, i + 4);
                if (alpha && Math.max(r, g, b) - Math.min(r, g, b) > 40) return true;
            }
            return false;
        }""",
            place,
        )
    )


@pytest.mark.parametrize("kind", SIZES)
def test_page_shows_what_the_server_does(browser: Any, feed: Feed, kind: str) -> None:
    loader = feed.loader(batch_size=4, shuffle=True, seed=7, slots=2)
    batches = iter(loader)
    first = [next(batches) for _ in range(2)]
    page = Page(browser, feed, kind)
    page.wait("document.querySelectorAll('details.session').length === 1")
    assert "waiting for the client" in page.text("details.session .verdict")
    assert page.text("details.session .epoch") == "epoch 0"
    page.page.keyboard.press("Tab")  # by keyboard alone: to the session, and open it
    for _ in range(5):
        if page.page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
        page.page.keyboard.press("Tab")
    page.page.keyboard.press("Enter")
    page.wait("document.querySelector('details.session img')?.naturalWidth > 0")
    labels = [f"{np.asarray(label)}" for label in first[-1][1]]
    assert len(page.text("details.session .inside > div > p:last-child").split(" · ")) == len(labels)
    del first
    for _ in batches:
        pass
    page.wait("Number(document.querySelectorAll('#now dd')[1].textContent) >= 100")
    page.wait("document.querySelectorAll('canvas').length === 2")
    wait_for(lambda: drawn(page, "throughput") and drawn(page, "stages"), 20)
    wide = page.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert wide, "the page is wider than the window"
    page.close(kind)
    loader.close()
    assert page.said == []


def test_page_survives_the_server(browser: Any, feed: Feed) -> None:
    page = Page(browser, feed, "light")
    page.wait("document.querySelector('#server').textContent.includes('process')")
    before = page.text("#server")
    feed.stop()
    page.wait("!document.querySelector('#lost').hidden")
    assert "No answer from the server since" in page.text("#lost")
    feed.start()
    page.wait("document.querySelector('#lost').hidden")
    assert page.text("#server").rsplit(",", 1)[0] != before.rsplit(",", 1)[0]  # another process
    page.close("again")
    assert all("ERR_CONNECTION_REFUSED" in text for text in page.said), page.said


def test_page_with_sixty_four_sessions(browser: Any, feed: Feed) -> None:
    loaders = [feed.loader(batch_size=1, rank=rank, world=64, slots=2) for rank in range(64)]
    epochs = [iter(loader) for loader in loaders]
    for epoch in epochs:
        next(epoch)
    page = Page(browser, feed, "light")
    page.wait("document.querySelectorAll('details.session').length === 64")
    names = [name.split(" ")[3] for name in page.page.locator("details.session .name").all_inner_texts()]
    assert names == [str(rank) for rank in range(64)]
    for loader in loaders:
        loader.close()
    page.wait("document.querySelectorAll('details.session').length === 0")
    page.close("sixty-four")
    assert page.said == []
