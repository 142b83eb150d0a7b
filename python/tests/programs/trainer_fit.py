"""A training with the Trainer of Hugging Face that notes which samples each rank has had."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from notes import OPTIONS, arguments, sums, write
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

from imgfeed import DataLoader


def batch_of(samples: list[Any]) -> dict[str, Any]:
    """Make the dictionary that a model of transformers takes."""
    images, labels, index = zip(*samples, strict=True)
    return {"pixel_values": torch.stack(images), "labels": torch.tensor(labels), "index": torch.tensor(index)}


class Model(nn.Module):
    """A linear classifier with the signature of transformers' own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3 * 32 * 32, 5)
        self.trained: list[list[int]] = []
        self.optimized: list[int] = []  # how many batches the model had seen at each optimizer step
        self.evaluated: list[list[int]] = []

    def forward(self, pixel_values: Any, labels: Any, index: Any) -> dict[str, Any]:
        (self.trained if self.training else self.evaluated).append(index.tolist())
        logits = self.layer(pixel_values.flatten(1))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Position(TrainerCallback):
    """Keeps the loader's position in the Trainer's checkpoints."""

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        Path(args.output_dir, f"checkpoint-{state.global_step}", "loader.json").write_text(json.dumps(self.loader.state_dict()))

    def on_optimizer_step(self, args: Any, state: Any, control: Any, *, model: Model, **others: Any) -> None:
        of: Any = getattr(model, "module", model)
        of.optimized.append(len(of.trained))


class ImageTrainer(Trainer):
    """The Trainer, with loaders that are made already."""

    def __init__(self, train: DataLoader, val: DataLoader, **kwargs: Any) -> None:
        super().__init__(train_dataset=train.dataset, eval_dataset=val.dataset, callbacks=[Position(train)], **kwargs)
        self.train_loader, self.val_loader = train, val

    def get_train_dataloader(self) -> Any:
        return self.train_loader

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        return self.val_loader


def counted(prediction: Any) -> dict[str, float]:
    """Count each sample once: with several processes a few come twice, so that all need as many steps."""
    labels, index = prediction.label_ids
    _, once = np.unique(index, return_index=True)
    return {"samples": len(once), "right": int((prediction.predictions.argmax(1) == labels)[once].sum())}


def main() -> None:
    """Train for three epochs, each with an evaluation and checkpoints."""
    args = arguments("--resume", accumulate=1)
    settings = TrainingArguments(
        args.out,
        num_train_epochs=3,
        per_device_train_batch_size=8,
        eval_strategy="epoch",
        save_strategy="steps",
        save_steps=3 if args.accumulate == 1 else 1,
        gradient_accumulation_steps=args.accumulate,
        label_names=["labels", "index"],
        ignore_data_skip=True,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    options = {**OPTIONS, "collate_fn": batch_of}
    torch.manual_seed(1)
    train = DataLoader(args.data, 8, shuffle=True, seed=3, **options)
    if args.resume:
        train.load_state_dict(json.loads(Path(args.resume, "loader.json").read_text()))
    val = DataLoader(args.data, 8, **options)
    model = Model()
    trainer = ImageTrainer(train, val, model=model, args=settings, compute_metrics=counted)
    trainer.train(resume_from_checkpoint=args.resume)
    noted = {
        "trained": model.trained,
        "optimized": model.optimized,
        "evaluated": model.evaluated,
        "steps": trainer.state.global_step,
        "counted": [entry["eval_samples"] for entry in trainer.state.log_history if "eval_samples" in entry],
        "weights": sums(model),
    }
    write(args.out, trainer.args.process_index, noted)


if __name__ == "__main__":
    main()
