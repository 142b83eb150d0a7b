"""Several labels for each image: --target trains by binary cross-entropy and is scored by mean average precision."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import PLAIN, TINY, VAL, events, same, weights
from imgfeed.launcher import find_binary

from imgfeed_train.average_precision import AveragePrecision
from imgfeed_train.command import main
from imgfeed_train.evaluate import Score, correct, criterion
from imgfeed_train.settings import parse

PLACES = 5  # the class, 3: every other image, 4: none has it
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def labelled(sets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets whose images have some of five labels each: their class, and every other one 3; every ninth image has none."""
    folder = tmp_path_factory.mktemp("labelled")
    for split in ("train", "val"):
        shutil.copytree(sets.parent / "raw" / split, folder / "raw" / split)
        for label, of in enumerate(sorted((folder / "raw" / split).iterdir())):
            for i, file in enumerate(sorted(of.iterdir())):
                tags = [] if i % 9 == 8 else [label, 3] if i % 2 else [label]
                file.with_suffix(".json").write_text(json.dumps({"tags": tags}))
    fields = ["--field", f"tags=json.tags:multihot[{PLACES}]", "--field", "one=json.tags:json"]
    command = [find_binary("imgshard"), "build", str(folder / "raw"), "-o", str(folder / "sets"), *fields]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "sets"


def naive(scores: list[float], targets: list[bool]) -> float:
    """Average precision by its definition: over the labelled images, the precision among those that score as high or higher."""
    precisions = []
    for score, right in zip(scores, targets, strict=True):
        if right:
            above = [t for s, t in zip(scores, targets, strict=True) if s >= score]
            precisions.append(sum(above) / len(above))
    return sum(precisions) / len(precisions) if precisions else math.nan


def test_average_precision_is_what_it_is_called() -> None:
    torch.manual_seed(0)
    for n in (0, 1, 7, 60):
        scores = (torch.randn(n, 70) * 3).round() / 3  # with many that are equal
        targets = torch.rand(n, 70) < 0.2
        targets[:, 69] = False
        want = [naive(scores[:, c].tolist(), targets[:, c].tolist()) for c in range(70)]
        collected = AveragePrecision(CPU)
        for part in range(0, n, 16):
            collected.add(scores[part : part + 16], targets[part : part + 16].float())
        there = [ap for ap in want if not math.isnan(ap)]
        assert collected.mean() == pytest.approx(100 * sum(there) / len(there) if there else math.nan, nan_ok=True)


def test_an_answer_is_right_where_it_is_any_of_the_labels() -> None:
    output = torch.tensor([[9.0, 1, 2, 3, 4, 5, 6], [9, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]])
    labels = torch.zeros(3, 7)
    labels[0, [0, 3]] = 1
    labels[1, [1]] = 1  # the last of all
    assert [int(n) for n in correct(output, labels)] == [1, 1, 2]
    assert [int(n) for n in correct(output, torch.tensor([0, 3, 6]))] == [2, 3, 3]


def test_the_loss_is_binary_cross_entropy() -> None:
    s = parse(["--data", "d", "--output", "o", "--target", "tags"])
    output, targets = torch.randn(4, 3), torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0.25, 0, 1]])
    p = output.sigmoid()
    want = -(targets * p.log() + (1 - targets) * (1 - p).log()).mean()
    assert criterion(s, 3)(output, targets).item() == pytest.approx(want.item(), rel=1e-5)


def test_scores_are_compared_by_mean_average_precision() -> None:
    assert Score(1.0, 90.0, 99.0, 5, 40.0).rank == 40.0 and Score(math.nan, 90.0, 99.0, 5, 40.0).rank == -math.inf
    assert Score(1.0, 90.0, 99.0, 5, math.nan).rank == -math.inf and Score(1.0, 90.0, 99.0, 5).rank == 90.0


def test_a_training_on_several_labels(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, arguments = (
        tmp_path / "run",
        ["--data", str(labelled), "--target", "tags", *TINY, *PLAIN, "--epochs", "6", "--lr", "0.5"],
    )
    main([*arguments, "--output", str(run)])
    said = capsys.readouterr().out
    epochs = events(run, "epoch")
    assert epochs[-1]["loss"] < epochs[0]["loss"] < 0.8, "it learns"
    assert all(0 < epoch["mean_ap"] <= 100 and epoch["samples"] == VAL for epoch in epochs)
    assert f"mAP {epochs[-1]['mean_ap']:.3f} Acc@1" in said and "best mAP %" in (run / "report.md").read_text()
    assert events(run, "plan")[0]["classes"] == PLACES and weights(run)["classes"] == ["0", "1", "2", "3", "4"]
    best = max(epochs, key=lambda epoch: epoch["mean_ap"])
    again = [*arguments, "--evaluate", "--weights", str(run / "checkpoints" / "best.pt")]
    main(again)
    assert f"mAP {best['mean_ap']:.3f} Acc@1 {best['acc1']:.3f}" in capsys.readouterr().out

    stopped = tmp_path / "stopped"
    main([*arguments, "--output", str(stopped), "--max-steps", "8"])
    main([*arguments, "--output", str(stopped), "--resume", "auto"])
    same(run, stopped)


def test_targets_that_are_none(labelled: Path, sets: Path, tmp_path: Path) -> None:
    for data, arguments, words in (
        (sets, ["--target", "tags"], r"the set train has no fields; wanted is a vector"),
        (labelled, ["--target", "one"], r"the set train has tags \(float32\[5\]\), one \(json\); wanted"),
    ):
        with pytest.raises(SystemExit, match=words):
            main(["--data", str(data), "--output", str(tmp_path / "run"), *TINY, *PLAIN, *arguments])


@pytest.mark.parametrize("flag", ["--mixup", "--cutmix", "--label-smoothing"])
def test_what_does_not_go_with_targets(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--data", "d", "--output", "o", "--target", "tags", flag, "0.1"])
    assert "--target takes targets as they are" in capsys.readouterr().err


RANK = """
import sys, torch, torch.distributed as dist
from imgfeed_train.average_precision import AveragePrecision
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=3)
torch.manual_seed(1)
scores, targets = torch.randn(20, 70), torch.rand(20, 70) < 0.2
mine = AveragePrecision(torch.device("cpu"))
whole = AveragePrecision(torch.device("cpu"))
if rank < 2:  # the third has none
    mine.add(scores[rank * 13 : 13 + rank * 7], targets[rank * 13 : 13 + rank * 7].float())
together = mine.mean()
dist.destroy_process_group()
whole.add(scores, targets.float())
print(together == whole.mean(), together > 0)
"""


@pytest.mark.long
def test_ranks_have_one_mean(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RANK]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "meet")], stdout=subprocess.PIPE, text=True) for rank in range(3)
    ]
    assert [rank.communicate(timeout=300)[0].strip() for rank in ranks] == ["True True"] * 3
