"""A loop with DistributedDataParallel as torch's tutorials have it, that notes which samples each rank has had."""

from pathlib import Path
from typing import Any

import torch
from notes import OPTIONS, arguments, sums, write
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from imgfeed import DataLoader

EPOCHS = 3
SAVED_AT = (1, 2)  # epoch, and batches of it


class Trainer:
    """Trains, evaluates, and keeps a snapshot that it goes on from where there is one."""

    def __init__(self, data: str, snapshot: Path) -> None:
        self.train = DataLoader(data, 8, shuffle=True, seed=3, **OPTIONS)
        self.val = DataLoader(data, 8, even_batches=False, **OPTIONS)
        torch.manual_seed(1)
        self.model = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 5)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.snapshot = snapshot
        self.begun = 0
        self.noted: dict[str, Any] = {"trained": [], "validated": [], "counted": [], "sizes": []}
        if snapshot.exists():
            saved = torch.load(snapshot)
            self.model.module.load_state_dict(saved["model"])
            self.train.load_state_dict(saved["loader"])
            self.begun = saved["loader"]["epoch"]

    def epoch(self, epoch: int, set_epoch: bool) -> None:
        if set_epoch:
            if not self.begun:  # a tutorial asks for the batch size so; it begins an iteration that it lets go of
                self.noted["sizes"].append(len(next(iter(self.train))[0]))
            self.train.sampler.set_epoch(epoch)
        for number, (images, labels, index) in enumerate(self.train):
            self.noted["trained"].append([epoch, index.tolist()])
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(images), labels).backward()
            self.optimizer.step()
            if (epoch, number + 1) == SAVED_AT and not self.begun and distributed.get_rank() == 0:
                torch.save({"model": self.model.module.state_dict(), "loader": self.train.state_dict()}, self.snapshot)
        self.evaluate()

    def evaluate(self) -> None:
        counts = torch.zeros(2)
        with torch.no_grad():
            for images, labels, index in self.val:
                self.noted["validated"] += index.tolist()
                right = self.model.module(images).argmax(1) == labels
                counts += torch.tensor([float(right.sum()), len(labels)])
        distributed.all_reduce(counts)
        self.noted["counted"].append(int(counts[1]))


def main() -> None:
    """Train for three epochs: with set_epoch, then without; or go on from a snapshot."""
    args = arguments("--snapshot")
    distributed.init_process_group("gloo")
    noted = []
    for set_epoch in (True,) if args.snapshot else (True, False):
        trainer = Trainer(args.data, Path(args.snapshot or Path(args.out, f"snapshot-{set_epoch}.pt")))
        for epoch in range(trainer.begun, EPOCHS):
            trainer.epoch(epoch, set_epoch)
        trainer.noted["weights"] = sums(trainer.model)
        noted.append(trainer.noted)
        distributed.barrier()
    write(args.out, distributed.get_rank(), {"runs": noted})
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
