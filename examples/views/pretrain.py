"""Self-supervised pretraining on the feed's views, as one readable loop for SimCLR, BYOL, MoCo v3, DINO and DINOv2's crops.

    python pretrain.py /data/train-shards dino --model resnet50 --batch-size 64 --epochs 100 --output run
    torchrun --nproc-per-node=8 pretrain.py …

Every recipe takes its views from the preset of its name: a batch is a list of images, one for each view. The losses are those
of the papers, at their plainest: no schedules, no layer-wise rates, negatives of this rank only, and of DINOv2 the loss
on whole images. It goes on within an epoch: the loader's place is in the checkpoint.
"""

import argparse
import copy
from pathlib import Path

import torch
import torch.nn.functional as F
from imgfeed import DataLoader
from torch import nn

RECIPES = ("simclr", "byol", "moco-v3", "dino", "dinov2")
WIDTH = 256  # of what the losses compare


def backbone(name: str) -> tuple[nn.Module, int]:
    """Return a network without its classifier, and the number of its features."""
    if name == "tiny":  # for trying things out
        convolutions = [
            nn.Conv2d(3, 16, 7, 4),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ]
        return nn.Sequential(*convolutions), 32
    from torchvision import models

    network = models.get_model(name)
    features = network.fc.in_features
    network.fc = nn.Identity()
    return network, features


def head(features: int) -> nn.Sequential:
    """Return what maps features to where the losses compare them."""
    return nn.Sequential(
        nn.Linear(features, WIDTH),
        nn.BatchNorm1d(WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
    )


class Pretraining(nn.Module):
    """A student, the teacher that follows it, and the loss of a recipe."""

    def __init__(self, recipe: str, model: str) -> None:
        super().__init__()
        self.recipe = recipe
        network, features = backbone(model)
        self.student = nn.Sequential(network, head(features))
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.predictor = head(WIDTH)
        self.register_buffer("center", torch.zeros(WIDTH))

    def forward(self, views: list[torch.Tensor]) -> torch.Tensor:
        """Return the loss of a batch's views, each of the shape (B, 3, H, W)."""
        seen = [self.student(view) for view in views]
        if self.recipe == "simclr":
            return (
                contrast(seen[0], seen[1], 0.5) / 2
                + contrast(seen[1], seen[0], 0.5) / 2
            )
        with torch.no_grad():
            taught = [self.teacher(view) for view in views[:2]]  # the global ones
        if self.recipe in ("dino", "dinov2"):
            return self.distil(seen, taught)
        first, second = (self.predictor(z) for z in seen)
        if self.recipe == "moco-v3":
            return contrast(first, taught[1], 0.2) + contrast(second, taught[0], 0.2)
        return (
            4
            - 2 * F.cosine_similarity(first, taught[1]).mean()
            - 2 * F.cosine_similarity(second, taught[0]).mean()
        )

    def distil(
        self, seen: list[torch.Tensor], taught: list[torch.Tensor]
    ) -> torch.Tensor:
        """Return the cross entropy of the student on each view with the teacher on each other, sharpened and centred."""
        targets = [F.softmax((t - self.center) / 0.04, 1) for t in taught]
        losses = [
            -(t * F.log_softmax(s / 0.1, 1)).sum(1).mean()
            for i, t in enumerate(targets)
            for j, s in enumerate(seen)
            if i != j
        ]
        self.center.mul_(0.9).add_(torch.cat(taught).mean(0), alpha=0.1)
        return torch.stack(losses).mean()

    @torch.no_grad()
    def follow(self, momentum: float) -> None:
        """Move the teacher towards the student."""
        for old, new in zip(
            self.teacher.parameters(), self.student.parameters(), strict=True
        ):
            old.lerp_(new, 1 - momentum)


def contrast(
    queries: torch.Tensor, keys: torch.Tensor, temperature: float
) -> torch.Tensor:
    """Return the cross entropy of telling each query's own key among all of the batch."""
    similar = F.normalize(queries, dim=1) @ F.normalize(keys, dim=1).T / temperature
    return F.cross_entropy(similar, torch.arange(len(queries), device=queries.device))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="a shard set, or unix:PATH of a server")
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("--model", default="resnet18", help="of torchvision, or tiny")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.996, help="of the teacher")
    parser.add_argument(
        "--steps",
        type=int,
        help="stop after so many, which are counted from this start",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--output",
        type=Path,
        help="folder of the checkpoint; one that is there is gone on with",
    )
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    if torch.distributed.is_torchelastic_launched():
        torch.distributed.init_process_group()
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    device = torch.device(
        f"cuda:{rank % torch.cuda.device_count()}"
        if torch.cuda.is_available()
        else "cpu"
    )
    loader = DataLoader(
        args.data,
        args.batch_size,
        shuffle=True,
        seed=args.seed,
        drop_last=True,
        transform=args.recipe,
        normalize="imagenet",
        device=device,
    )
    plain = Pretraining(args.recipe, args.model).to(device)
    model = (
        nn.parallel.DistributedDataParallel(plain, find_unused_parameters=True)
        if torch.distributed.is_initialized()
        else plain
    )
    optimizer = torch.optim.SGD(
        [p for p in plain.parameters() if p.requires_grad], args.rate, momentum=0.9
    )
    saved = args.output / "last.pt" if args.output else None
    if saved and saved.exists():
        state = torch.load(saved, map_location=device, weights_only=True)
        plain.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])

    steps = 0
    for epoch in range(loader.sampler.epoch, args.epochs):
        loader.set_epoch(epoch)
        for views, _ in loader:
            loss = model(views)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            plain.follow(args.momentum)
            steps += 1
            if rank == 0:
                print(
                    f"epoch {epoch}, step {steps}: loss {loss.item():.6f}", flush=True
                )
            if steps == args.steps:
                break
        if saved and rank == 0:
            args.output.mkdir(parents=True, exist_ok=True)
            torch.save(
                {
                    "model": plain.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "loader": loader.state_dict(),
                },
                saved,
            )
        if steps == args.steps:
            break


if __name__ == "__main__":
    main()
