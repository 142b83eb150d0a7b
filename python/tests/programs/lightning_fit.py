"""A training with Lightning that notes which samples each rank has had."""

from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from notes import OPTIONS, arguments, sums, write
from torch import nn

from imgfeed import DataLoader


class Model(lightning.LightningModule):
    """A linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3 * 32 * 32, 5)
        self.trained: list[tuple[int, int, list[int]]] = []
        self.validated: list[tuple[int, list[int]]] = []
        self.optimized: list[int] = []  # how many batches the model had seen at each optimizer step

    def loss(self, batch: Any) -> Any:
        images, labels, _ = batch
        return nn.functional.cross_entropy(self.layer(images.flatten(1)), labels)

    def training_step(self, batch: Any, number: int) -> Any:
        self.trained.append((self.current_epoch, number, batch[2].tolist()))
        return self.loss(batch)

    def validation_step(self, batch: Any, number: int) -> None:
        self.validated.append((self.current_epoch, batch[2].tolist()))
        self.log("val_loss", self.loss(batch), sync_dist=True)

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        self.optimized.append(len(self.trained))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def main() -> None:
    """Train for three epochs, with a checkpoint after each step."""
    args = arguments("--resume", devices=1, accumulate=1)
    lightning.seed_everything(1, workers=True)
    train = DataLoader(args.data, 8, shuffle=True, seed=3, **OPTIONS)
    val = DataLoader(args.data, 26, even_batches=False, **OPTIONS)
    trainer = lightning.Trainer(
        max_epochs=3,
        accumulate_grad_batches=args.accumulate,
        accelerator="cpu",
        devices=args.devices,
        strategy="ddp" if args.devices > 1 else "auto",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[ModelCheckpoint(args.out, "{step}", every_n_train_steps=1, save_top_k=-1)],
    )
    model = Model()
    trainer.fit(model, train, val, ckpt_path=args.resume)
    noted = {"trained": model.trained, "optimized": model.optimized, "validated": model.validated}
    noted |= {"world": [train.rank, train.world], "weights": sums(model)}
    write(args.out, trainer.global_rank, noted)


if __name__ == "__main__":
    main()
