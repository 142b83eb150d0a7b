"""Gradient accumulation with Accelerate, by torch's loader or by imgfeed's, that notes what Accelerate knows at each step."""

from typing import Any

import torch
from accelerate import Accelerator
from notes import OPTIONS, arguments, sums, write
from torch import nn
from torch.utils import data

from imgfeed import DataLoader


def main() -> None:
    """Train for three epochs, evaluate in the middle of each, and leave the second one early."""
    args = arguments("loader")
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    train: Any = DataLoader(args.data, 8, **OPTIONS)
    val: Any = DataLoader(args.data, 20, **OPTIONS)
    if args.loader == "torch":
        with DataLoader(args.data, 8, rank=0, world=1, **OPTIONS) as whole:
            samples = data.TensorDataset(*map(torch.cat, zip(*whole, strict=True)))
        train, val = data.DataLoader(samples, 8), data.DataLoader(samples, 20)
    torch.manual_seed(0)
    model: Any = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 5))
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=1e-3)
    model, optimizer, train, val = accelerator.prepare(model, optimizer, train, val)
    state, noted = accelerator.gradient_state, {"steps": [], "gathered": []}
    for epoch in range(3):
        for number, (images, labels, _) in enumerate(train):
            with accelerator.accumulate(model):
                accelerator.backward(nn.functional.cross_entropy(model(images), labels))
                optimizer.step()
                optimizer.zero_grad()
            noted["steps"].append([accelerator.sync_gradients, state.end_of_dataloader, state.remainder])
            if epoch == 1 and number == 2:
                break
            if number == 3:
                gathered = []
                for *_, seen in val:
                    gathered += accelerator.gather_for_metrics(seen).tolist()
                noted["gathered"].append(sorted(gathered))
                noted["steps"].append([state.end_of_dataloader, state.remainder])
    noted["weights"] = sums(model)
    noted["left"] = [float(p.grad.abs().sum()) for p in model.parameters() if p.grad is not None]
    write(args.out, accelerator.process_index, noted)
    accelerator.end_training()


if __name__ == "__main__":
    main()
