"""The status page in a real Chromium: it draws, keeps up to date, survives the server's end, and complains of nothing."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import SIZES, Feed, Page, fed
from conftest import RANDOM, SAMPLES, copied, imgshard, listed, wait_for
from test_remote import Store

from imgfeed import DataLoader

PIL = pytest.importorskip("PIL.Image")
pytest.importorskip("playwright.sync_api")


@pytest.fixture
def feed(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feed]:
    with fed(shards, tmp_path_factory.mktemp("page")) as feed:
        yield feed


def drawn(page: Page, plot: str) -> bool:
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
            plot,
        )
    )


@pytest.mark.parametrize("kind", SIZES)
def test_page_shows_what_the_server_does(browser: Any, feed: Feed, kind: str) -> None:
    loader = feed.loader(batch_size=4, shuffle=True, seed=7, slots=2, with_index=True)
    batches = iter(loader)
    first = [copied(next(batches)) for _ in range(2)]
    page = Page(browser, feed.url, kind)
    page.wait("document.querySelectorAll('details.session').length === 1")
    page.wait("document.querySelector('details.session .verdict').textContent.includes('training is the limit')")
    assert page.text("details.session .epoch") == "epoch 0"
    assert page.page.locator("#store-section").is_hidden()
    page.page.keyboard.press("Tab")  # by keyboard alone: to the session, and open it
    for _ in range(5):
        if page.page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
        page.page.keyboard.press("Tab")
    page.page.keyboard.press("Enter")
    page.wait("document.querySelector('details.session img')?.naturalWidth > 0")
    shown = page.page.locator("details.session figure.sample").all_inner_texts()
    assert len(shown) == 4 and all("stored " in text and "32\u00a0×\u00a032" in text for text in shown), shown
    sent = shown_batch(page)  # those that are on their way to the client are ahead of what it has taken
    first += [copied(next(batches)) for _ in range(sent + 1 - len(first))]
    for text, label, index in zip(shown, first[sent][1], first[sent][2], strict=True):
        assert f"label {label} · index {index} · " in text
    del first
    for _ in batches:
        pass
    page.wait("Number(document.querySelectorAll('#now dd')[1].textContent) >= 100")
    page.wait("document.querySelectorAll('canvas').length === 2")
    assert [text for text in page.page.locator(".u-value").all_inner_texts() if text in ("", "–", "--")] == []
    assert page.text("details.session .rate").endswith(" images/s")
    wait_for(lambda: drawn(page, "throughput") and drawn(page, "stages"))
    page.close("page-drawn")
    loader.close()


def opened(page: Page) -> list[str]:
    """Open the first session, and return what is written with each sample."""
    page.page.locator("details.session summary").first.click()
    page.wait("document.querySelector('details.session figure.sample img')?.naturalWidth > 0")
    broken = page.page.evaluate("[...document.querySelectorAll('figure img')].filter((i) => !i.naturalWidth || !i.alt).length")
    assert broken == 0
    return list(page.page.locator("details.session figure.sample").all_inner_texts())


def shown_batch(page: Page) -> int:
    """Return the number of the batch whose pictures are shown."""
    return int(page.text("details.session .inside > div:not(.advice) > p").split(", batch ")[1].split(",")[0])


def test_page_shows_views_and_fields(browser: Any, images: Path, tmp_path: Path) -> None:
    """All views of a sample, large and small, beside a grayscale image of a pixels set, with its fields."""
    source = tmp_path / "train"
    shutil.copytree(images, source)
    captions = {}
    for i, file in enumerate(sorted(source.rglob("*.JPEG"))):
        PIL.open(file).convert("L").save(file)
        captions[file.relative_to(source).as_posix()] = {"caption": f"caption <b>{i}</b>"}
    shards = tmp_path / "train-shards"
    imgshard(
        "build",
        listed(source, captions),
        "-o",
        shards,
        "--encoding",
        "pixels",
        "--resize",
        "64",
        "--field=caption=caption:text",
    )
    with fed(shards, tmp_path) as feed:
        loader = feed.loader(batch_size=9, transform="dino", fields=["caption"], slots=2)
        batches = iter(loader)
        taken = [next(batches)]
        page = Page(browser, feed.url, "phone")
        shown = opened(page)
        taken += [next(batches) for _ in range(shown_batch(page))]
        assert len(shown) == 4, "48 pictures, eleven for a sample"
        for text, caption in zip(shown, taken[-1][-1], strict=False):
            assert all(f"view {v}, {224 if v < 2 else 96}" in text.replace("\n", " ") for v in range(10)) and "stored " in text
            assert f"caption: {caption}" in text
        page.close("page-views")
        loader.close()


def tiles(page: Page) -> dict[str, str]:
    """Return what the page shows of the store."""
    return dict(
        page.page.evaluate(
            "[...document.querySelectorAll('#store div')].map((tile) => [...tile.children].map((e) => e.innerText))"
        )
    )


@pytest.mark.parametrize("kind", SIZES)
def test_page_shows_the_store(browser: Any, shards: Path, tmp_path: Path, kind: str) -> None:
    """Where bytes come from: a web server that fails now and then, and later the cache."""
    store = Store(shards.parent, fails=60)
    cache = ["--cache", str(tmp_path / "cache"), "--cache-size", "100MB"]
    with fed(f"{store.url}/{shards.name}", tmp_path, *cache) as feed, feed.loader(batch_size=8) as loader:
        for _ in loader:
            pass
        page = Page(browser, feed.url, kind)
        wanted = {
            "bytes from memory": r"0 %, .*",
            "bytes from the store": r"0 %, 0 bytes/s",
            "requests": r"0/s, 0 of \d+ under way",
            "repeated requests": r"0/s",
            "bytes from the cache": r"100 %, [0-9.]+ [KM]iB/s",
            "hit rate of the cache": r"100 %",
            "cache filled": r"\d+ % of 95.4 MiB",
        }

        def settled() -> bool:
            """Whether the first epoch's requests are so long ago that rates have forgotten them."""
            shown = list(loader) and tiles(page)
            return shown.keys() == wanted.keys() and all(re.fullmatch(wanted[name], shown[name]) for name in wanted)

        wait_for(settled)
        page.close("page-store")
    store.end()


@pytest.mark.parametrize("on_error", ["blank", "substitute"])
def test_page_marks_bad_samples(browser: Any, damaged: Path, tmp_path: Path, on_error: str) -> None:
    with DataLoader(damaged, 35, framework="numpy", transform=RANDOM, on_error="blank") as loader:
        list(loader)
        bad = list(loader.bad)
    with fed(damaged, tmp_path) as feed:
        good = [i for i in range(SAMPLES) if i not in bad]
        order = [i for k in range(0, 80, 8) for i in bad + good[k : k + 8]]  # every batch begins with them
        loader = feed.loader(batch_size=10, on_error=on_error, order=order, slots=2)
        batches = iter(loader)
        next(batches)
        page = Page(browser, feed.url, "dark")
        shown = opened(page)
        for text in shown[:2]:
            assert "CRC-32C" in text and ("Zeros were sent" if on_error == "blank" else "in the place of sample") in text, text
            assert ("blank" in text and "→" not in text) if on_error == "blank" else "→" in text
        assert not any("CRC-32C" in text for text in shown[2:])
        page.close(f"page-{on_error}")
        loader.close()


def test_page_survives_the_server(browser: Any, feed: Feed) -> None:
    page = Page(browser, feed.url, "light")
    page.wait("document.querySelector('#server').textContent.includes('process')")
    before = page.text("#server")
    feed.stop()
    page.wait("!document.querySelector('#lost').hidden")
    assert "No answer from the server since" in page.text("#lost")
    assert page.page.title() == "imgfeed · no answer"
    feed.start()
    page.wait("document.querySelector('#lost').hidden")
    assert page.text("#server").rsplit(",", 1)[0] != before.rsplit(",", 1)[0]  # another process
    page.context.close()
    assert all("ERR_CONNECTION_REFUSED" in text for text in page.said), page.said


def test_page_with_sixty_four_sessions(browser: Any, feed: Feed) -> None:
    loaders = [feed.loader(batch_size=1, rank=rank, world=64, slots=2) for rank in range(64)]
    epochs = [iter(loader) for loader in loaders]
    for epoch in epochs:
        next(epoch)
    page = Page(browser, feed.url, "light")
    page.wait("document.querySelectorAll('details.session').length === 64")
    names = [name.split(" ")[3] for name in page.page.locator("details.session .name").all_inner_texts()]
    assert names == [str(rank) for rank in range(64)]
    page.picture("page-sixty-four")
    for loader in loaders:
        loader.close()
    page.wait("document.querySelectorAll('details.session').length === 0")
    page.close("page-none")
