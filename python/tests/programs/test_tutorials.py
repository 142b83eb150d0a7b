"""The tutorials, run from their text on small data."""

import json
import math
import os
import random
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import needs
import pytest
from conftest import imgshard

from imgfeed.programs import find_binary

pytest.importorskip("torch", minversion="2.0")
pytest.importorskip("torchvision")
ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs" / "tutorials"
#: Classes of ILSVRC2012_val_00000001 to 4.
WNIDS = ["n01751748", "n09193705", "n02105855", "n04263257"]


def blocks(page: str, kind: str) -> list[str]:
    """Return a page's blocks of code of a kind."""
    return re.findall(rf"^```{kind}[^\n]*\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_readme(tmp_path: Path) -> None:
    pytest.importorskip("timm")
    imgshard("synth", tmp_path / "data", "--classes", "2", "--train", "8", "--val", "0", "--size", "100")
    lines = "".join(blocks("../../README.md", "sh")).splitlines()
    pack, serve = (line for line in lines if line.startswith(("imgshard", "imgfeed")))
    (script,) = blocks("../../README.md", "python")
    data = str(tmp_path / "data" / "train")
    shell(pack, tmp_path, **{"/data/train": data})
    (tmp_path / "train.py").write_text(script.replace("/data/train", data).replace("range(10)", "range(1)"))
    assert re.fullmatch(r"epoch 0: loss \d+\.\d+\n", shell("python train.py", tmp_path))
    said = shell(f"cd data && {serve}", tmp_path, **{"serve": f"serve --socket {tmp_path}/sock --exit-idle 0.1s"})
    assert said.splitlines()[0].endswith(f" serves {tmp_path}/data (the working folder), by default to rank 1 of 2")


def shell(commands: str, folder: Path, **replaced: str) -> str:
    """Run commands in a folder, with some words replaced; return what they print."""
    for words, others in replaced.items():
        assert words in commands
        commands = commands.replace(words, others)
    (folder / "bin").mkdir(exist_ok=True)
    for name, command in (
        ("imgshard", find_binary("imgshard")),
        ("imgfeed", find_binary()),
        ("python", sys.executable),
        ("imgfeed-train", f"{sys.executable} -m imgfeed_train"),
    ):
        (folder / "bin" / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (folder / "bin" / name).chmod(0o755)
    path = f"{ROOT / 'python'}:{ROOT / 'trainer'}"
    env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["sh", "-ec", commands], check=False, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{commands}{done.stdout}{done.stderr}"
    return done.stdout


def run(folder: Path, *args: str, resumes: str = "") -> list[tuple[str, str, str]]:
    """Run the script, which says first where it resumes, if so. Return of each epoch its number, the loss, and the samples."""
    printed = shell(" ".join(["python", "train.py", *args]), folder)
    assert printed.partition("resume in ")[2].partition("\n")[0] == resumes
    return re.findall(r"epoch (\d+): loss (\S+), \d+ of (\d+) right", printed)


def test_replace_your_dataloader(tmp_path: Path) -> None:
    imgshard("synth", tmp_path / "data", "--classes", "4", "--train", "12", "--val", "5", "--size", "100")
    (script,), (loaders, resuming) = blocks("replace.md", "python"), blocks("replace.md", "diff")
    (tmp_path / "train.py").write_text(script)
    before = run(tmp_path, "data")
    shell("".join(blocks("replace.md", "sh")), tmp_path)
    for diff in (loaders, resuming):
        subprocess.run([needs.program("patch"), "--fuzz=0", "train.py"], input=diff, text=True, check=True, cwd=tmp_path)
    after = run(tmp_path, "data")
    for printed in (before, after):
        assert [(epoch, seen) for epoch, _, seen in printed] == [("0", "20"), ("1", "20")]
    again = run(tmp_path, "data", "checkpoint.pt", resumes="epoch 2, after 0 samples")  # it was saved after the last step
    assert again == []
    script = (tmp_path / "train.py").read_text()
    saving = next(line for line in script.splitlines() if "torch.save" in line)
    (tmp_path / "train.py").write_text(script.replace(saving, f"{saving}\n        if epoch and len(sys.argv) == 2: sys.exit()"))
    assert [epoch for epoch, _, _ in run(tmp_path, "data")] == ["0"]
    ((epoch, loss, seen),) = run(tmp_path, "data", "checkpoint.pt", resumes="epoch 1, after 16 samples")
    assert (epoch, seen) == ("1", "20") and float(loss) > 0


@pytest.mark.long
def test_from_kaggles_zip(tmp_path: Path) -> None:
    pytest.importorskip("torch", minversion="2.6")
    imgshard("synth", tmp_path / "synth", "--classes", "4", "--train", "12", "--val", "1", "--size", "100")
    with zipfile.ZipFile(tmp_path / "imagenet-object-localization-challenge.zip", "w") as made:
        for split in ("train", "val"):
            for label, folder in enumerate(sorted((tmp_path / "synth" / split).iterdir())):
                for number, image in enumerate(sorted(folder.iterdir())):
                    name = f"ILSVRC2012_val_{label + 1:08}" if split == "val" else f"{WNIDS[label]}/{WNIDS[label]}_{number}"
                    made.write(image, f"ILSVRC/Data/CLS-LOC/{split}/{name}.JPEG")
        made.writestr("LOC_val_solution.csv", "ImageId,PredictionString\n")
    small = "--recipe imagenet-resnet50 --amp off --size 32 --batch-size 8 --lr 0.01"
    train = "--output runs/resnet50 --recipe imagenet-resnet50 --epochs 16"
    printed = shell(
        "".join(blocks("kaggle.md", "sh")),
        tmp_path,
        **{f"{train}\n": f"{train} --max-steps 3\n", "--epochs 16": "--epochs 2", "--recipe imagenet-resnet50": small},
    )
    assert "label 0    n01751748 (sea snake)" in printed and "sets/train: split train, 48 samples of 4 classes" in printed
    assert "nothing was written" in printed and "stopped in epoch 0 after 3 batches; continue with --resume auto" in printed
    assert "resumed runs/resnet50/checkpoints/last.pt: epoch 0, batch 3" in printed
    assert "| epochs | 2 of 2, 12 steps |" in printed
    log = [json.loads(line) for line in (tmp_path / "runs" / "resnet50" / "log.jsonl").read_text().splitlines()]
    best = max(row["acc1"] for row in log if row["event"] == "epoch")
    (again,) = re.findall(r"^ \* Acc@1 (\S+) .* on 4 samples$", printed, re.MULTILINE)
    assert math.isclose(float(again), best, abs_tol=1e-3)


@pytest.mark.long
def test_self_supervised_views(tmp_path: Path) -> None:
    imgshard("synth", tmp_path / "photos", "--classes", "4", "--train", "25", "--val", "0", "--size", "100")
    pack, train = blocks("views.md", "sh")
    shell(pack, tmp_path)
    (script,), (views,) = blocks("views.md", "python"), blocks("views.md", "diff")
    losses = []
    for change in ("", views):
        (tmp_path / "pretrain.py").write_text(script)
        if change:
            patch = [needs.program("patch"), "--fuzz=0", "pretrain.py"]
            subprocess.run(patch, input=change, text=True, check=True, cwd=tmp_path)
        changed = (tmp_path / "pretrain.py").read_text()
        changed = changed.replace("(data, batch, ", "(data, batch, size=32, ").replace("32, 100", "32, 4")
        (tmp_path / "pretrain.py").write_text(changed)
        printed = shell(train, tmp_path)
        assert "look at the views: http://127.0.0.1:" in printed
        losses.append([float(loss) for loss in re.findall(r"loss (\S+)", printed)])
        assert (tmp_path / "pretrained.pt").exists()
    for printed in losses:
        assert len(printed) == 4 and printed[-1] < printed[0] < 2 * math.log(63)


@pytest.mark.long
def test_train_a_detector(tmp_path: Path) -> None:
    """The loss falls on pictures of one bright square each."""
    pil, draw = pytest.importorskip("PIL.Image"), random.Random(1)
    (tmp_path / "photos" / "train2017").mkdir(parents=True)
    (tmp_path / "photos" / "annotations").mkdir()
    listed: dict[str, list[dict[str, object]]] = {"images": [], "annotations": [], "categories": [{"id": 7, "name": "square"}]}
    for number in range(32):
        x, y, side = draw.randrange(60), draw.randrange(60), draw.randrange(30, 60)
        image = pil.new("RGB", (120, 120), (draw.randrange(90),) * 3)
        image.paste((250, 250, draw.randrange(256)), (x, y, x + side, y + side))
        image.save(tmp_path / "photos" / "train2017" / f"{number}.jpg")
        listed["images"].append({"id": number, "file_name": f"{number}.jpg", "width": 120, "height": 120})
        box = {"bbox": [x, y, side, side], "area": side * side, "iscrowd": 0}
        listed["annotations"].append({"id": number, "image_id": number, "category_id": 7, **box})
    (tmp_path / "photos" / "annotations" / "instances_train2017.json").write_text(json.dumps(listed))
    pack, train = blocks("detection.md", "sh")
    assert "objects of 1 class, with iscrowd and area" in shell(pack, tmp_path)
    (script,) = blocks("detection.md", "python")
    for words, others in {'"DEFAULT"': "None", "range(20)": "range(4)", "model = ": "torch.manual_seed(0)\nmodel = "}.items():
        assert words in script
        script = script.replace(words, others)
    (tmp_path / "train.py").write_text(script)
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", shell(train, tmp_path))]
    assert len(losses) == 4 and losses[-1] < losses[0] and (tmp_path / "detector.pt").exists()
