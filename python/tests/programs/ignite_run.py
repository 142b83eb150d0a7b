"""A training with Ignite that notes which samples each rank has had; it saves its state in an epoch, or goes on from there."""

from typing import Any

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events
from ignite.handlers import Checkpoint, DiskSaver
from notes import OPTIONS, arguments, sums, write
from torch import nn

from imgfeed import DataLoader

EPOCHS = 3
SAVED_AT = 3  # iterations, and each multiple of it


def main() -> None:
    """Train for three epochs, each with an evaluation."""
    args = arguments("--resume")
    train = DataLoader(args.data, 8, shuffle=True, seed=3, **OPTIONS)
    val = DataLoader(args.data, 8, even_batches=False, **OPTIONS)
    torch.manual_seed(1)
    model = idist.auto_model(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 5)))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=1e-3))
    noted: dict[str, Any] = {"trained": [], "validated": [], "counted": []}

    def step(engine: Engine, batch: Any) -> float:
        images, labels, index = batch
        noted["trained"].append([engine.state.epoch - 1, index.tolist()])
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return float(loss)

    def look(engine: Engine, batch: Any) -> int:
        noted["validated"].append([trainer.state.epoch - 1, batch[2].tolist()])
        return len(batch[1])

    trainer, evaluator = Engine(step), Engine(look)
    count = torch.zeros(1)

    @evaluator.on(Events.ITERATION_COMPLETED)
    def add(engine: Engine) -> None:
        count.add_(engine.state.output)

    @trainer.on(Events.EPOCH_COMPLETED)
    def evaluate(engine: Engine) -> None:
        count.zero_()
        evaluator.run(val)
        noted["counted"].append(int(idist.all_reduce(count.clone())))

    saved = {"trainer": trainer, "model": model, "optimizer": optimizer, "loader": train}
    saver = Checkpoint(saved, DiskSaver(args.out, create_dir=False, require_empty=False), n_saved=None)
    trainer.add_event_handler(Events.ITERATION_COMPLETED(every=SAVED_AT), saver)
    if args.resume:
        Checkpoint.load_objects(saved, torch.load(args.resume))
    trainer.run(train, max_epochs=EPOCHS)
    noted["weights"] = sums(model)
    write(args.out, idist.get_rank(), noted)
    idist.finalize()


if __name__ == "__main__":
    idist.initialize("gloo")
    main()
