"""Pages in a real Chromium: what is looked at, what every page must keep, and pictures of them.

IMGFEED_PICTURES=FOLDER keeps the pictures that the tests make, to be looked at; IMGFEED_PICTURES_DATA=FOLDER has them
made of the images in a folder (of class folders, or of images alone, each of which is a class then) instead of invented ones.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conftest import PATIENCE, RANDOM, answers, free_port, wait_for

from imgfeed import DataLoader
from imgfeed.programs import find_binary

#: Where pictures go, and what they are made of; invented images, and nowhere, if they are not set.
PICTURES = os.environ.get("IMGFEED_PICTURES")
PICTURES_DATA = os.environ.get("IMGFEED_PICTURES_DATA")

SIZES = {"light": (1280, 900), "dark": (1280, 900), "phone": (390, 844)}

#: What is wrong with how a page looks: wider than its window, pictures that are none, text that is cut off or hardly to be
#: read (WCAG's contrast of 4.5, or 3 for large text).
WRONG = """() => {
  const wrong = [];
  const root = document.documentElement, width = root.clientWidth;
  if (root.scrollWidth > width) wrong.push(`the page is ${root.scrollWidth} pixels wide, the window ${width}`);
  for (const img of document.images)
    if (img.complete && !img.naturalWidth && img.offsetParent) wrong.push(`no picture: ${img.alt}`);
  const parse = (text) => {
    const n = text.match(/[\\d.]+/g).map(Number);
    return text.startsWith("color(srgb") ? [255 * n[0], 255 * n[1], 255 * n[2], n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const canvas = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18, 1] : [255, 255, 255, 1];
  const ground = (e) => {
    if (!e) return canvas;
    const own = parse(getComputedStyle(e).backgroundColor);
    return own[3] === 1 ? own : over(own, ground(e.parentElement));
  };
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode()); ) {
    const text = node.textContent.trim(), e = node.parentElement;
    if (!text || ["SCRIPT", "STYLE", "NOSCRIPT", "TITLE", "title"].includes(e.tagName)) continue;
    if (!e.checkVisibility({ checkVisibilityCSS: true })) continue;
    const style = getComputedStyle(e), below = ground(e);
    const [a, b] = [light(over(parse(style.color), below)), light(below)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05), large = parseFloat(style.fontSize) >= 24;
    if (contrast < (large ? 3 : 4.5)) wrong.push(`contrast ${contrast.toFixed(1)}: ${text.slice(0, 60)}`);
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (e.closest(".scroll") || !box.width) continue;
    if (box.right > width + 1 || box.left < -1) wrong.push(`cut off: ${text.slice(0, 60)}`);
  }
  return wrong;
}"""


#: Where the focus is, whether it can be seen, and whether it has been there before.
STOP = """() => {
  const e = document.activeElement, style = getComputedStyle(e), again = e === document.body || e.dataset.stopped === "1";
  if (e !== document.body) e.dataset.stopped = "1";
  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  return [e.tagName.toLowerCase() + (e.id && "#" + e.id), ring, again];
}"""


class Page:
    """A page that remembers what the browser's console said. kind is one of SIZES."""

    def __init__(self, browser: Any, url: str, kind: str) -> None:
        width, height = SIZES[kind]
        self.kind = kind
        scheme = "light" if kind == "light" else "dark"
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.context.set_default_timeout(1000 * PATIENCE)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.page.on("console", lambda m: self.said.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.said.append(str(e)))
        self.page.goto(url)

    def close(self, name: str) -> None:
        """Check how the page looks, keep a picture of it, and close it."""
        self.check()
        self.picture(name)
        self.context.close()

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).inner_text())

    def wait(self, script: str) -> None:
        wait_for(lambda: self.page.evaluate(script))  # what playwright waits with, the page's policy forbids

    def check(self) -> None:
        """Fail for what is wrong with how the page looks, or where the console said something."""
        wrong = self.page.evaluate(WRONG)
        assert not wrong, "\n".join(wrong)
        assert self.said == []

    def picture(self, name: str) -> None:
        """Keep a picture of the whole page."""
        if PICTURES:
            Path(PICTURES).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=Path(PICTURES) / f"{name}-{self.kind}.png", full_page=True)

    def tab_stops(self) -> list[str]:
        """Press Tab through the page and return where it stops; fails where the focus cannot be seen."""
        stops: list[str] = []
        self.page.evaluate("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')")
        while True:
            self.page.keyboard.press("Tab")
            name, ring, again = self.page.evaluate(STOP)
            if again:
                return stops
            assert ring, f"the focus cannot be seen on {name}"
            stops.append(name)
            assert len(stops) < 1000


class Feed:
    """A server with a page, at an address that stays the same when it is started again."""

    def __init__(self, shards: Path | str, folder: Path, *options: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{self.address}/"
        self.shards, self.socket = shards, folder / "sock"
        self.options = ["--socket", str(self.socket), "--metrics", self.address, *options]
        self.start()

    def start(self) -> None:
        command = [find_binary(), "serve", str(self.shards), *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: answers(self.socket))

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    def loader(self, **options: Any) -> DataLoader:
        options = {"framework": "numpy", "transform": RANDOM, "reconnect": 0, **options}
        return DataLoader(f"unix:{self.socket}", **options)


@contextlib.contextmanager
def fed(shards: Path | str, folder: Path, *options: str) -> Iterator[Feed]:
    feed = Feed(shards, folder, *options)
    try:
        yield feed
    finally:
        feed.stop()
