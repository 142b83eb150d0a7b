"""Flags: their ranges, what does not go together, and errors that name the remedy."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PLAIN, TINY, TRAIN, VAL, Train
from imgfeed.programs import find_binary

from imgfeed_train import __version__, prepare
from imgfeed_train import data as sets_of
from imgfeed_train.command import main
from imgfeed_train.errors import TrainError
from imgfeed_train.flags import parse


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--lr", "-1"], "--lr is -1.0, want 0 to 1000000000"),
        (["--lr", "nan"], "--lr is nan, want 0 to 1000000000"),
        (["--ema", "2"], "--ema is 2.0, want 0 to 0.9999999"),
        (["-g", "-1"], "--gpus is -1, want 0 to 2147483647"),
        (["--epochs", "0"], "--epochs is 0, want 1 to 2147483647"),
        (["--batch-size", "0"], "--batch-size is 0, want 1 to 2147483647"),
        (["--resume", ""], "--resume is empty, as an unset variable is: leave it out, or give a value"),
        (["--data", "ftp://b/x"], "an address of an unknown kind: want a folder, or a URL that begins with s3://"),
        (["--data", ""], "--data is '': the path is empty"),
        (["--output", ""], "--output is missing"),
        (["--output", "s3://b/run"], "--output s3://b/run must be a folder on this machine; --checkpoints takes a URL"),
        (["-n", "2", "-nr", "2"], "-nr 2 of 2 machines: want 0 to 1"),
        (["-n", "2", "-g", "1"], "-n 2 needs the variable MASTER_ADDR: the host name of machine 0"),
        (["--size", "1", "2", "3"], "--size takes one number, or two"),
        (["--batch-size", "8", "auto"], "--batch-size takes one number, or two"),
        (["--strategy", "fsdp", "--ema", "0.9"], "--ema keeps a second whole model, which --strategy fsdp avoids"),
        (["--data", "unix:s", "--workers", "3"], "--workers: the running server has its own threads"),
        (["--data", "unix:s", "--cache", "c"], "--cache: the running server has its own"),
        (["--evaluate"], "--evaluate needs --weights"),
        (["--strategy", "dp", "--sync-bn"], "--compile and --sync-bn are not for --strategy dp: use ddp"),
        (["--strategy", "dp", "--compile"], "--compile and --sync-bn are not for --strategy dp: use ddp"),
        (["--bce-threshold", "0.2"], "--bce-threshold is for the targets of --loss bce"),
        (["--momentum", "1"], "--momentum is 1.0, want 0 to 0.9999999"),
        (["--decay-epochs", "0"], "--decay-epochs is 0.0, want 1 to 2147483647"),
    ],
)
def test_what_flags_refuse(flags: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(SystemExit) as e:
        main(["--data", "d", "--output", "o", *flags])
    assert said in str(e.value.code)


def test_slips_get_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    for flag, near in (
        ("--batchsize", "--batch-size"),
        ("--optimiser", "--optimizer"),
        ("--checkpoint-evry", "--checkpoint-every"),
    ):
        with pytest.raises(SystemExit) as e:
            parse([flag, "3"])
        assert e.value.code == 2 and near in capsys.readouterr().err
    with pytest.raises(SystemExit) as e:
        parse(["--epochs", "none"])
    assert e.value.code == 2 and "--epochs" in capsys.readouterr().err
    assert parse(["--data", "d", "--output", "o", "--model", "resnet50", "-nr", "0", "-n", "2"]).arch == "resnet50"


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert capsys.readouterr().out == f"imgfeed-train {__version__}\n"
    for argument in ("report", ""):
        with pytest.raises(SystemExit):
            main([*([argument] if argument else []), "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "--grad-checkpointing" in said and "cosine and linear continue" in said


@pytest.mark.long
def test_the_help_needs_no_torch() -> None:
    script = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules))"
    script += "; from imgfeed_train.command import main; main(['--help'])"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout
    assert said.endswith("False\n"), "which takes seconds to load"


def test_folders_without_sets(sets: Path, tmp_path: Path) -> None:
    assert {name: one["samples"] for name, one in sets_of.sets_in(str(sets), "").items()} == {"train": TRAIN, "val": VAL}
    for folder, said in ((tmp_path / "none", "none: no such file"), (tmp_path, "it holds nothing; and no dataset")):
        with pytest.raises(SystemExit, match=rf"--data .*{said}.*; this process is user"):
            main(["--data", str(folder), "--output", str(tmp_path / "run"), *TINY])
    raw = sets.parent / "raw"
    with pytest.raises(SystemExit, match=rf"it holds {raw}/train .*, not packed yet\. Pack it, once: imgshard build {raw}"):
        main(["--data", str(raw), "--output", str(tmp_path / "run"), *TINY])
    with pytest.raises(SystemExit, match=r"no shard set there; it looks like .*Put each split into a folder of its name"):
        main(["--data", str(raw / "train"), "--output", str(tmp_path / "run"), *TINY])
    with pytest.raises(SystemExit, match="has no split train; it has val"):
        main(["--data", str(sets / "val"), "--output", str(tmp_path / "run"), *TINY])
    with pytest.raises(SystemExit, match=r"has no split to evaluate on \(val, .*\); it has train"):
        main(["--data", str(sets / "train"), *TINY, "--evaluate", "--weights", "w.pt"])
    assert not (tmp_path / "run").exists()


def test_the_feed_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets_of, "PATIENCE", 0.0)
    base = [word for word in TINY if word not in {"--workers", "1"}]
    with pytest.raises(SystemExit, match=r"can't connect to .*/s: No such file"):
        main(["--data", f"unix:{tmp_path}/s", "--output", str(tmp_path / "run"), *base])


def test_training_without_evaluation(train: Train, sets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train("run", "--data", str(sets / "train"), "--epochs", "1")
    said = capsys.readouterr().out
    assert "train: train (96); no split to evaluate on; ranks: 1" in said and " * Val" not in said
    assert not (run / "checkpoints" / "best.pt").exists() and (run / "report.md").exists()


def test_classes_of_train_and_val_are_compared(sets: Path, tmp_path: Path) -> None:
    raw = sets.parent / "raw" / "val"
    names = sorted(path.name for path in raw.iterdir())
    for name in names[1:]:
        shutil.copytree(raw / name, tmp_path / "raw" / "val" / name)
    shutil.copytree(sets / "train", tmp_path / "data" / "train")
    build = [find_binary("imgshard"), "build", str(tmp_path / "raw" / "val"), "-o", str(tmp_path / "data" / "val")]
    subprocess.run(build, check=True, capture_output=True)
    with pytest.raises(
        SystemExit, match=rf"train has 3 classes and val 2, and they are not the same: not in both: {names[0]}\."
    ):
        main(["--data", str(tmp_path / "data"), "--output", str(tmp_path / "run"), *TINY, *PLAIN])


def test_ranks_with_other_data(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a rank whose images were not all readable: its loader would go through an order of its own."""
    monkeypatch.setattr(sets_of, "gather", lambda mine: [mine, mine, ("0123", 95, "node2")])
    said = r"rank 2 on node2 has 95 samples of train with the fingerprint 0123; rank 0 on \S+ has 96 with [0-9a-f]+\. Give all"
    with pytest.raises(SystemExit, match=said):
        train("run")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A folder with train/ and val/ of images."""
    counts = ["--classes", "2", "--train", "4", "--val", "2", "--size", "32"]
    subprocess.run([find_binary("imgshard"), "synth", str(tmp_path / "raw"), *counts], check=True, capture_output=True)
    return tmp_path / "raw"


def test_prepare_packs_when_asked(
    raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    user = f"{os.geteuid()}:{os.getegid()}"
    arguments = ["prepare", "--data", str(raw), "--output", str(tmp_path / "out" / "run"), "--user", user]
    for name, value in {"DATA": "/my data", "OUTPUT": "", "PUID": "7", "PGID": "", "PACK": ""}.items():  # as compose.yaml does
        monkeypatch.setenv(name, value)
    once = r"once: DATA='/my data' PUID=7 PACK=1 docker compose run --rm prepare$"
    with pytest.raises(SystemExit, match=rf"holds {raw}/train .*, not packed yet\. Pack it, {once}"):
        main(arguments)
    assert not (raw / "train-shards").exists()
    monkeypatch.setenv("PACK", "1")
    main(arguments)
    assert f"set: train: 8 samples in {raw / 'train-shards'}" in capsys.readouterr().out
    main(arguments)
    assert "packing" not in capsys.readouterr().out, "a packed set is not packed again"
    for split in ("train", "val"):
        shutil.rmtree(raw / f"{split}-shards")
    (raw / "train-shards").write_text("in the way")
    with pytest.raises(SystemExit, match=r"packing failed with exit status 1"):
        main(arguments)
    with pytest.raises(SystemExit):
        main([*arguments[:-1], "me"])
    assert "argument --user: invalid numbers value: 'me'" in capsys.readouterr().err


def test_prepare_looks_with_the_users_rights(sets: Path, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root: only root can ask for another user's rights")
    folder = tmp_path / "data"
    shutil.copytree(sets, folder)
    for parent in (folder, *folder.parents):
        if parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o755) if parent != Path("/") else None
    arguments = ["--data", str(folder), "--output", str(tmp_path / "out"), "--user", "54321:54321"]
    prepare.main(arguments)
    assert (tmp_path / "out").stat().st_uid == 54321, "an empty folder of root's is given to the user"
    shard = next((folder / "train").rglob("*.imgshard"))
    shard.chmod(0o600)
    with pytest.raises(TrainError, match=rf"user 54321, group 54321 can't read {shard} \(user 0's.*PUID=0 PGID=0"):
        prepare.main(arguments)
    shard.chmod(0o644)
    (tmp_path / "out" / "log.jsonl").touch(mode=0o600)
    with pytest.raises(TrainError, match=r"can't write .*log\.jsonl \(user 0's.*PUID=0 PGID=0"):
        prepare.main(arguments)
