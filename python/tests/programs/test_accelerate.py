"""Accelerate: one process and two, save_state and load_state in the middle of an epoch."""

import inspect
from pathlib import Path

import pytest

from imgfeed import DataLoader
from programs.conftest import optimizer_steps, plain, run

pytest.importorskip("accelerate")
EPOCHS = 3
SAVED_AT = (1, 4)  # epoch, and batches of it: as in the program


@pytest.mark.parametrize("processes", [1, 2])
def test_a_loop_gives_the_samples_of_a_plain_one(shards: Path, tmp_path: Path, processes: int) -> None:
    ranks = run("accelerate_loop.py", shards, tmp_path / "whole", processes)
    samples = sorted(i for epoch in plain(shards, 0, 1, 1) for batch in epoch for i in batch)
    done = 0
    for rank, noted in enumerate(ranks):
        want = plain(shards, rank, processes, EPOCHS, shuffle=True, seed=3)
        assert noted["trained"] == [[e, batch] for e, epoch in enumerate(want) for batch in epoch]
        once = plain(shards, rank, processes, EPOCHS, even_batches=False)
        assert noted["validated"] == [[e, batch] for e, epoch in enumerate(once) for batch in epoch]
        assert noted["counted"] == [len(samples)] * EPOCHS
        assert noted["optimized"] == optimizer_steps(len(want[0]), EPOCHS, 4)
        done = SAVED_AT[0] * len(want[0]) + SAVED_AT[1]
    assert sorted(i for noted in ranks for e, batch in noted["validated"] if e == 0 for i in batch) == samples

    resumed = run("accelerate_loop.py", shards, tmp_path / "resumed", processes, "--resume", str(tmp_path / "whole" / "state"))
    for noted, rest in zip(ranks, resumed, strict=True):
        assert rest["trained"] == noted["trained"][done:]
        assert rest["optimized"] == [batches - done for batches in noted["optimized"] if batches > done]
        assert rest["weights"] == noted["weights"]  # and so the training is the same


@pytest.mark.parametrize("processes", [1, 2])
def test_accumulation_is_that_of_torchs_loader_step_by_step(shards: Path, tmp_path: Path, processes: int) -> None:
    theirs, ours = (run("accelerate_steps.py", shards, tmp_path / of, processes, of) for of in ("torch", "imgfeed"))
    for their, our in zip(theirs, ours, strict=True):
        assert our["steps"] == their["steps"] and [True, True, 105 % (8 * processes)] in our["steps"]
        assert our["gathered"] == their["gathered"] == [list(range(105))] * 2
        assert our["left"] == their["left"] == []
        if processes == 1:  # else the ranks have other samples
            assert our["weights"] == their["weights"]


def test_repeated_samples_that_accelerate_cannot_find_stay(shards: Path) -> None:
    """It takes the first of those that it has gathered rank by rank: so a repeated one must be the very last."""
    for world, rest in {1: 1, 2: 9, 3: 9, 4: -1, 5: 25}.items():
        with DataLoader(shards, 8, rank=0, world=world, num_workers=1) as loader:
            assert iter(loader).remainder == rest
    with DataLoader(shards, 8, drop_last=True, num_workers=1) as loader:
        assert iter(loader).remainder == -1


def test_save_state_without_the_loader_says_so(
    shards: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import accelerate
    from accelerate.state import AcceleratorState, GradientState, PartialState

    from imgfeed._epoch import accelerated

    accelerated._watch_saves.cache_clear()
    before = inspect.unwrap(accelerate.Accelerator.save_state)
    monkeypatch.setattr(accelerate.Accelerator, "save_state", before)
    try:
        accelerator = accelerate.Accelerator(cpu=True)
        with DataLoader(shards, 8, num_workers=1) as loader:
            for registered in (False, True):
                caplog.clear()
                next(iter(loader))
                if registered:
                    accelerator.register_for_checkpointing(loader)
                for number in range(2):
                    accelerator.save_state(str(tmp_path / f"{registered}{number}"))
                said = [record.getMessage() for record in caplog.records if "save_state" in record.getMessage()]
                assert len(said) == (not registered)
                accelerated._watch_saves.cache_clear()
        assert accelerate.Accelerator.save_state is before
    finally:
        for state in (AcceleratorState, GradientState, PartialState):
            state._reset_state()


def test_a_loader_is_not_sharded_again(shards: Path) -> None:
    """Whatever is set for torch's: one process that reads for all, batches that are split, a stateful loader around it."""
    pytest.importorskip("torchdata")
    import accelerate
    from accelerate.state import AcceleratorState, GradientState, PartialState

    settings = accelerate.DataLoaderConfiguration(split_batches=True, dispatch_batches=True, use_stateful_dataloader=True)
    try:
        accelerator = accelerate.Accelerator(cpu=True, dataloader_config=settings)
        with DataLoader(shards, 8, num_workers=1) as loader:
            assert accelerator.prepare(loader) is loader
    finally:
        for state in (AcceleratorState, GradientState, PartialState):
            state._reset_state()


def test_skipping_batches_is_refused(shards: Path) -> None:
    """It would give images without their transform, and of the first epoch. Hugging Face's Trainer does the same."""
    accelerate = pytest.importorskip("accelerate")
    with DataLoader(shards, 8, num_workers=1, collate_fn=list) as loader:
        left = accelerate.skip_first_batches(loader, 2)
        with pytest.raises(TypeError, match=r"load_state_dict.*ignore_data_skip=True.*leave out skip_first_batches"):
            next(iter(left))
