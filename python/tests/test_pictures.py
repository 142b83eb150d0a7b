"""How it looks: the page of a busy server, and the pages of view and stats, each in a real Chromium."""

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import PICTURES, PICTURES_DATA, SIZES, Feed, Page, fed
from conftest import imgshard

pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def pictured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of what the pictures are made of."""
    folder = tmp_path_factory.mktemp("pictured")
    if PICTURES_DATA is None:
        imgshard("synth", folder / "synth", "--classes", "12", "--train", "12", "--val", "0", "--size", "400", "--seed", "5")
        source = folder / "synth" / "train"
    else:
        source = Path(PICTURES_DATA)
        if not any(entry.is_dir() for entry in source.iterdir()):
            for file in sorted(source.iterdir())[:200]:
                (folder / "classes" / file.stem).mkdir(parents=True)
                shutil.copy(file, folder / "classes" / file.stem)
            source = folder / "classes"
    imgshard("build", source, "-o", folder / "train-shards")
    return folder / "train-shards"


@pytest.fixture(scope="module")
def busy(pictured: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feed]:
    """A server with three sessions that train, epochs long enough for any test."""
    with fed(pictured, tmp_path_factory.mktemp("busy")) as feed:
        stop = threading.Event()
        long: dict[str, Any] = {"weights": "balanced", "num_samples": 20000, "seed": 1}
        loaders = [feed.loader(batch_size=16, rank=r, world=2, transform="train", **long) for r in range(2)]
        loaders.append(feed.loader(batch_size=8, transform="eval", slots=3, **long))

        def train(loader: Any, rest: float) -> None:
            while not stop.is_set():
                for _ in loader:
                    if stop.wait(rest):
                        return

        threads = [threading.Thread(target=train, args=(loader, 0.3)) for loader in loaders]
        for thread in threads:
            thread.start()
        time.sleep(20 if PICTURES else 2)  # so that the plots of pictures have something to show
        yield feed
        stop.set()
        for thread in threads:
            thread.join()
        for loader in loaders:
            loader.close()


@pytest.mark.parametrize("kind", SIZES)
def test_picture_of_the_page(browser: Any, busy: Feed, kind: str) -> None:
    page = Page(browser, busy.url, kind)
    page.wait("document.querySelectorAll('details.session').length === 3")
    page.wait("document.querySelectorAll('canvas').length === 2")
    page.page.locator("details.session > summary").nth(1).click()
    page.wait("[...document.querySelectorAll('figure.sample img')].some((i) => i.naturalWidth)")
    assert page.page.locator("figure.sample").count() == 8
    page.page.mouse.move(2, 2)
    stops = page.tab_stops()
    assert stops.count("summary") == 4 and stops.count("a") == 3, stops
    page.close("page")


@pytest.fixture(scope="module")
def sheet(pictured: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("view") / "sheet.html"
    imgshard("view", pictured, "-n", "24", "--transform", "train", "--draws", "8", "-o", out)
    return out


@pytest.mark.parametrize("kind", SIZES)
def test_picture_of_view(browser: Any, sheet: Path, kind: str) -> None:
    page = Page(browser, sheet.as_uri(), kind)
    page.page.evaluate("Promise.all([...document.images].map((i) => { i.loading = 'eager'; return i.decode(); }))")
    assert page.page.locator("figure").count() == 24
    assert page.page.evaluate("[...document.images].filter((i) => !i.naturalWidth || !i.alt).length") == 0
    assert page.tab_stops() == ["input#search"]
    beside = "(d) => d.getBoundingClientRect().left > d.previousElementSibling.getBoundingClientRect().right"
    draws = page.page.evaluate(f"[...document.querySelectorAll('.pictures .pictures')].map({beside})")
    assert draws == [kind != "phone"] * 24  # every row of them
    page.page.add_style_tag(content=".view section { content-visibility: visible }")  # a picture shows all sections
    page.close("view")


@pytest.mark.parametrize("kind", SIZES)
def test_picture_of_stats(browser: Any, pictured: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "stats.html"
    imgshard("stats", pictured, "-o", out)
    page = Page(browser, out.as_uri(), kind)
    assert page.page.locator("svg").count() >= 4
    page.close("stats")


@pytest.mark.long
def test_view_of_ten_thousand_samples(browser: Any, tmp_path: Path) -> None:
    """A sheet of CIFAR's size opens and searches quickly; the limits are those of a busy machine."""
    rng = np.random.default_rng(1)
    records = np.empty((10000, 3073), np.uint8)
    records[:, 0] = np.arange(10000) % 10
    records[:, 1:] = rng.integers(0, 256, (10000, 3, 4, 4), np.uint8).repeat(8, 2).repeat(8, 3).reshape(10000, 3072)
    source = tmp_path / "cifar-10-batches-bin"
    source.mkdir()
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    (source / "batches.meta.txt").write_text("\n".join(names) + "\n")
    for k in range(5):
        records[2000 * k : 2000 * (k + 1)].tofile(source / f"data_batch_{k + 1}.bin")
    records[:10].tofile(source / "test_batch.bin")
    imgshard("build", source, "-o", tmp_path / "shards")
    out = tmp_path / "sheet.html"
    imgshard("view", next((tmp_path / "shards").glob("train*")), "-n", "10000", "-o", out)
    started = time.monotonic()
    page = Page(browser, out.as_uri(), "light")
    page.wait("document.querySelector('figure img').naturalWidth > 0")
    opened = time.monotonic() - started
    assert page.page.locator("figure").count() == 10000
    took = page.page.evaluate("""async () => {
      const input = document.getElementById("search"), took = [];
      const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      for (const text of ["d", "do", "dog", "dog 0", "", "airplane", "nothing", ""]) {
        const from = performance.now();
        input.value = text;
        input.dispatchEvent(new Event("input"));
        await painted();
        took.push(Math.round(performance.now() - from));
      }
      return took;
    }""")
    page.page.fill("#search", "truck")
    page.wait("document.getElementById('shown').textContent === '1000 found'")
    print(f"{out.stat().st_size / 2**20:.1f} MiB, opened in {opened:.2f} s, searches took {took} ms")
    assert opened < 15 and max(took) < 2000
    assert page.said == []
    page.context.close()
