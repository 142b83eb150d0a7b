"""What a run's numbers come to: a summary, and sentences that say what it waited for."""

from __future__ import annotations

import math
from statistics import mean

from ..watch import feed
from .book import Book, Event

WAITING = 0.05  # of the time: less is not worth a word of advice
MOSTLY = 0.5
RATE = "images/s of training"  # images over seconds, of all lines


def summary(book: Book) -> dict[str, float]:
    """Return a run's numbers by name; those of validation only where an epoch was finished."""
    steps, epochs = book.steps, book.epochs
    numbers: dict[str, float] = {
        "ranks": book.ranks,
        "nodes": book.nodes,
        "images per step": book.plan.get("batch_size", 0) * book.ranks * int(book.settings["accumulate"]),
        RATE: book.images_per_second,
        "data wait %, worst rank": 100 * max(rank_means(book, "wait")),
        "waiting for ranks %, worst rank": 100 * max(rank_means(book, "collective")),
        "training loss, last line": steps[-1]["loss"],
    }
    for name, key in (("GPU utilisation %", "gpu_utilisation_percent"), ("GPU power W", "gpu_power_w")):
        values = [v for e in steps for v in e["hardware"].get(key, ()) if v is not None]
        if values:
            numbers[f"{name}, mean of ranks"] = mean(values)
    peaks = [v for e in steps for v in e["hardware"].get("gpu_memory_peak_mb", ()) if v is not None]
    if peaks:
        numbers["GPU memory GB, peak"] = max(peaks) * 2**20 / 1e9
    if epochs:
        numbers |= {
            "epochs": len(epochs),
            "training s per epoch": mean(e["train_seconds"] for e in epochs),
            "evaluation s per epoch": mean(e["eval_seconds"] for e in epochs),
        }
    if book.scored:
        best = max(book.scored, key=_rank)
        if best.get("mean_ap") is not None:
            numbers["best mAP %"] = best["mean_ap"]
        numbers |= {
            "best acc1 %": best["acc1"],
            "best acc5 %": best["acc5"],
            "last loss (validation)": book.scored[-1]["loss"],
        }
    return numbers


def _rank(epoch: Event) -> float:
    """Return what epochs are compared by, as Score.rank."""
    ap = epoch.get("mean_ap")
    return float(epoch["acc1"] if ap is None else ap) if math.isfinite(epoch["loss"]) else -math.inf


def rank_means(book: Book, name: str) -> list[float]:
    """Return the mean fraction of each rank of the last line: of wait, compute or collective."""
    return [mean(e[name][r] for e in book.steps if r < len(e[name])) for r in range(book.ranks)]


def words(book: Book) -> list[str]:
    """Return sentences, one an item of a list in Markdown: what the run waited for, and who held it up."""
    waits, collectives = rank_means(book, "wait"), rank_means(book, "collective")
    worst = max(range(len(waits)), key=waits.__getitem__)
    lines = []
    if waits[worst] > WAITING:
        whose = "The run" if book.ranks == 1 else f"Rank {worst}"
        lines.append(f"- {whose} waited for data {waits[worst]:.0%} of the time. {_feed(book, worst, short=True)}")
    else:
        account = _feed(book, 0, short=False)
        lines.append(f"- Data was there in time: no rank waited for it more than {waits[worst]:.1%} of the time. {account}")
    if book.ranks > 1:
        lines.append("- " + _held(book, collectives))
    return lines


def _feed(book: Book, rank: int, short: bool) -> str:
    """Return what a rank's feed waited for, by its threads' time and its own words. short: whether the rank waited for data."""
    rows = [e for e in book.steps if rank < len(e["feeds"])]
    disk, decode, client = (mean(e["feed_share"][name][rank] for e in rows) for name in ("disk", "decode", "client"))
    said = [e["feeds"][rank] for e in rows]
    counted = ", ".join(f"{feed.of(word).what} in {said.count(word)}" for word in dict.fromkeys(said))
    figures = (
        f"of its threads' time {decode:.0%} decoding, {disk:.0%} reading; {client:.0%} of the time all its memory was full"
    )
    figures += f"; it waited for {counted} of {len(said)} lines"
    if client > WAITING and not short:
        return f"The feed waited for the training, not the training for it ({figures})."
    busier = "disk" if disk > decode else "cpu"
    if short and max(disk, decode) > MOSTLY:
        return f"Its feed is short of {feed.WAITS[busier].advice} ({figures})."
    return f"Its feed: {figures}."


def _held(book: Book, collectives: list[float]) -> str:
    late = [e for e in book.steps if e["straggler"] is not None]
    if len(late) > MOSTLY * len(book.steps):
        ranks = [e["straggler"] for e in late]
        rank = max(set(ranks), key=ranks.count)
        whys = [e["why"] for e in late if e["straggler"] == rank]
        why = max(set(whys), key=whys.count)
        does = "waits for data" if why == "data" else "computes more slowly"
        others = max(c for r, c in enumerate(collectives) if r != rank)
        return (
            f"**Rank {rank} held the others up** in {ranks.count(rank)} of {len(book.steps)} lines: it {does}. "
            f"The others spent up to {others:.0%} of their time waiting for it."
        )
    if min(collectives) > WAITING:
        return (
            f"No rank held the others up, and yet all of them wait in collectives, {min(collectives):.0%} of the time or more: "
            "that is the network between them, or ranks that are late by turns."
        )
    return f"No rank held the others up; they waited for one another {max(collectives):.1%} of the time at most."
