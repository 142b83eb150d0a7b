"""Lightning: fit, validate, two ranks with gloo, and going on in the middle of an epoch from its own checkpoint."""

import math
from pathlib import Path
from typing import Any

import pytest

from imgfeed import DataLoader
from programs.conftest import SMALL, optimizer_steps, plain, run

pytest.importorskip("lightning")
EPOCHS = 3


@pytest.mark.parametrize("devices", [1, 2])
def test_fit_gives_the_samples_of_a_plain_loop(shards: Path, tmp_path: Path, devices: int) -> None:
    ranks = run("lightning_fit.py", shards, tmp_path / "whole", devices, "--devices", str(devices), launch=False)
    samples = len({i for epoch in plain(shards, 0, 1, 1) for batch in epoch for i in batch})
    steps = math.ceil(samples / (8 * devices))
    for rank, noted in enumerate(ranks):
        want = plain(shards, rank, devices, EPOCHS, shuffle=True, seed=3)
        assert noted["world"] == [rank, devices]
        assert noted["trained"] == [[e, n, batch] for e, epoch in enumerate(want) for n, batch in enumerate(epoch)]
        once = plain(shards, rank, devices, EPOCHS, 26, even_batches=False)  # with two ranks, one has a batch more
        assert noted["validated"] == [[e, batch] for e, epoch in enumerate(once) for batch in epoch]
    for epoch in range(EPOCHS):
        seen = [i for noted in ranks for e, batch in noted["validated"] if e == epoch for i in batch]
        assert sorted(seen) == list(range(samples))  # each once
        seen = [i for noted in ranks for e, _, batch in noted["trained"] if e == epoch for i in batch]
        assert set(seen) == set(range(samples)) and len(seen) == math.ceil(samples / devices) * devices

    for step in (steps, steps + 2):  # an epoch's last batch, and the middle of the next one
        checkpoint = tmp_path / "whole" / f"step={step}.ckpt"
        arguments = ("--devices", str(devices), "--resume", str(checkpoint))
        resumed = run("lightning_fit.py", shards, tmp_path / f"resumed-{step}", devices, *arguments, launch=False)
        for noted, rest in zip(ranks, resumed, strict=True):
            assert rest["trained"] == noted["trained"][step:]
            assert rest["validated"] == [[e, batch] for e, batch in noted["validated"] if e > 0]


def test_a_resumed_trainer_makes_the_same_optimizer_steps(shards: Path, tmp_path: Path) -> None:
    """Of batches that a sum of four does not divide."""
    accumulate = ("--accumulate", "4")
    (noted,) = run("lightning_fit.py", shards, tmp_path / "whole", 1, *accumulate)
    want = optimizer_steps(len(plain(shards, 0, 1, 1)[0]), EPOCHS, 4)
    assert noted["optimized"] == want
    for step in (3, 5):
        checkpoint = str(tmp_path / "whole" / f"step={step}.ckpt")
        (rest,) = run("lightning_fit.py", shards, tmp_path / f"{step}", 1, *accumulate, "--resume", checkpoint)
        assert rest["optimized"] == [batches - want[step - 1] for batches in want[step:]]
        assert rest["trained"] == noted["trained"][want[step - 1] :] and rest["weights"] == noted["weights"]


@pytest.mark.filterwarnings("ignore")
def test_a_shorter_loader_goes_on_from_its_own_epoch(shards: Path, tmp_path: Path) -> None:
    """CombinedLoader begins it several times in an epoch of the Trainer, and calls set_epoch after iter as it resumes."""
    import lightning
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3 * 32 * 32, 5)
            self.seen: list[Any] = []

        def training_step(self, batch: Any, n: int) -> Any:
            self.seen.append([index.tolist() for _, _, index in (batch["long"], batch["short"])])
            return sum(self.layer(images.flatten(1)).mean() for images, _, _ in batch.values())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    def fit(out: str, resume: Path | None = None) -> list[Any]:
        options: dict[str, Any] = {"transform": SMALL, "normalize": "imagenet", "with_index": True, "num_workers": 1}
        options |= {"shuffle": True, "seed": 3}
        every = ModelCheckpoint(tmp_path / out, "{step}", every_n_train_steps=1, save_top_k=-1)
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
        trainer = lightning.Trainer(max_epochs=2, callbacks=[every], default_root_dir=tmp_path, **quiet)
        model = Model()
        with DataLoader(shards, 8, **options) as long, DataLoader(shards, 8, subset=range(32), **options) as short:
            trainer.fit(model, {"long": long, "short": short}, ckpt_path=resume)
        return model.seen

    whole = fit("whole")
    assert len({tuple(batch) for _, batch in whole[:12]}) == 12  # three epochs of the short one
    for step in (4, 6, 8):
        assert fit(f"{step}", tmp_path / "whole" / f"step={step}.ckpt") == whole[step:14] + whole[14:]


@pytest.mark.filterwarnings("ignore")
def test_a_few_batches_again_and_again(shards: Path, tmp_path: Path) -> None:
    """What overfit_batches= is for."""
    import lightning
    import torch

    seen: list[list[int]] = []

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3 * 32 * 32, 5)

        def training_step(self, batch: Any, n: int) -> Any:
            images, labels, index = batch
            seen.append(index.tolist())
            return torch.nn.functional.cross_entropy(self.layer(images.flatten(1)), labels)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    options: dict[str, Any] = {"transform": SMALL, "normalize": "imagenet", "with_index": True, "num_workers": 1}
    with DataLoader(shards, 8, **options) as train:
        trainer = lightning.Trainer(max_epochs=EPOCHS, limit_train_batches=2, default_root_dir=tmp_path, **quiet)
        trainer.fit(Model(), train)
    assert seen == plain(shards, 0, 1, 1)[0][:2] * EPOCHS
