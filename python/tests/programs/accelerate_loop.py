"""A loop with Accelerate that notes each rank's samples and optimizer steps, and saves its state in an epoch, or loads it."""

from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from notes import OPTIONS, arguments, sums, write
from torch import nn

from imgfeed import DataLoader

SAVED_AT = (1, 4)  # epoch, and batches of it


def main() -> None:
    """Train for three epochs, each with an evaluation."""
    args = arguments("--resume")
    train = DataLoader(args.data, 8, shuffle=True, seed=3, **OPTIONS)  # before Accelerator(), as in its examples
    val = DataLoader(args.data, 8, even_batches=False, **OPTIONS)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    model: Any = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    model, optimizer, train, val = accelerator.prepare(model, optimizer, train, val)
    accelerator.register_for_checkpointing(train)
    noted: dict[str, Any] = {"trained": [], "optimized": [], "validated": [], "counted": []}
    begun = 0
    if args.resume:
        accelerator.load_state(args.resume)
        begun = train.state_dict()["epoch"]
    for epoch in range(begun, 3):
        model.train()
        for images, labels, index in train:
            noted["trained"].append([epoch, index.tolist()])
            with accelerator.accumulate(model):
                accelerator.backward(nn.functional.cross_entropy(model(images), labels))
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                noted["optimized"].append(len(noted["trained"]))
            if (epoch, sum(e == epoch for e, _ in noted["trained"])) == SAVED_AT and not args.resume:
                accelerator.save_state(str(Path(args.out, "state")))
        model.eval()
        counts = torch.zeros(2)
        for images, labels, index in val:
            noted["validated"].append([epoch, index.tolist()])
            with torch.no_grad():
                right = accelerator.unwrap_model(model)(images).argmax(1) == labels
            counts += torch.tensor([float(right.sum()), len(labels)])
        noted["counted"].append(int(accelerator.reduce(counts)[1]))
    noted["weights"] = sums(model)
    write(args.out, accelerator.process_index, noted)
    accelerator.end_training()


if __name__ == "__main__":
    main()
