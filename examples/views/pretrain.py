"""Self-supervised pretraining on the feed's views, as one readable loop for SimCLR, BYOL, MoCo v3, DINO and DINOv2's crops.

    python pretrain.py /data/train-shards dino --model resnet50 --batch-size 64 --epochs 100 --output run
    torchrun --nproc-per-node=8 pretrain.py …

Every recipe takes its views from the preset of its name: a batch is a list of images, one for each view. The losses are those
of the papers, at their plainest: no schedules, no layer-wise rates, negatives of this rank only, and of DINOv2 the loss
on whole images. Ctrl-C ends it after the step with a checkpoint, and the same command goes on from there, within the epoch: the
loader's position is in the checkpoint.
"""

import argparse
import copy
import math
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from imgfeed import DataLoader, ImgfeedError
from torch import nn

RECIPES = ("simclr", "byol", "moco-v3", "dino", "dinov2")
WIDTH = 256  # of what the losses compare
PROTOTYPES = 4096  # that DINO's views are told apart by; the paper has 65,536


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
    if not isinstance(getattr(network, "fc", None), nn.Linear):
        raise ValueError(
            f"{name} has no last layer named fc to be replaced, as resnet50 has"
        )
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


class Prototypes(nn.Module):
    """The cosines of an embedding to learnt directions: DINO's last layer, which keeps its softmax within bounds."""

    def __init__(self) -> None:
        super().__init__()
        self.directions = nn.Parameter(torch.randn(PROTOTYPES, WIDTH))

    def forward(self, embedding: torch.Tensor) -> torch.Tensor:
        return F.linear(
            F.normalize(embedding, dim=1), F.normalize(self.directions, dim=1)
        )


class Pretraining(nn.Module):
    """A student, the teacher that follows it, and the loss of a recipe."""

    def __init__(self, recipe: str, model: str) -> None:
        super().__init__()
        self.recipe = recipe
        network, features = backbone(model)
        distils = recipe in ("dino", "dinov2")
        last = Prototypes() if distils else nn.Identity()
        self.student = nn.Sequential(network, head(features), last)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.predictor = head(WIDTH)
        self.register_buffer("center", torch.zeros(PROTOTYPES if distils else WIDTH))

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


class Stop:
    """Ctrl-C or SIGTERM: the step under way is finished and kept. A second one ends the program at once."""

    def __enter__(self) -> "Stop":
        self.asked = False
        self.before = {
            n: signal.signal(n, self.ask) for n in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def ask(self, number: int, _: object) -> None:
        self.asked = True
        signal.signal(number, signal.SIG_DFL)
        os.write(2, b"stopping after this step; once more ends it at once\n")

    def agreed(self, device: torch.device) -> bool:
        """Return whether any rank was asked, the same on all, after a step."""
        if not torch.distributed.is_initialized():
            return self.asked
        asked = torch.tensor(float(self.asked), device=device)
        torch.distributed.all_reduce(asked, torch.distributed.ReduceOp.MAX)
        return bool(asked)


def say(text: str) -> None:
    """Print a line at once, on the first rank alone."""
    if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
        print(text, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="a shard set, or unix:PATH of a server")
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument(
        "--model",
        default="resnet18",
        help="of torchvision, with a last layer fc, or tiny (default resnet18)",
    )
    parser.add_argument(
        "--batch-size", type=int, default=64, help="images of a rank (default 64)"
    )
    parser.add_argument("--epochs", type=int, default=100, help="default 100")
    parser.add_argument("--rate", type=float, default=0.05, help="default 0.05")
    parser.add_argument(
        "--momentum", type=float, default=0.996, help="of the teacher (default 0.996)"
    )
    parser.add_argument(
        "--steps", type=int, help="stop after so many, counted from this start"
    )
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument(
        "--output",
        type=Path,
        help="folder of the checkpoint, last.pt; one that is there is gone on with",
    )
    args = parser.parse_args()
    for name, right, want in (
        ("steps", args.steps is None or args.steps >= 1, "1 or more"),
        ("epochs", args.epochs >= 1, "1 or more"),
        ("rate", 0 < args.rate < math.inf, "a number above 0"),
        ("momentum", 0 <= args.momentum <= 1, "0 to 1"),
        ("seed", -(2**63) <= args.seed < 2**63, "64 bits, signed"),
    ):
        if not right:
            parser.error(f"--{name} is {getattr(args, name)}, want {want}")
    return args


class Run:
    """A pretraining on this rank: model, optimiser and loader, and what is kept of them."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        if torch.distributed.is_torchelastic_launched():
            torch.distributed.init_process_group()
        distributed = torch.distributed.is_initialized()
        self.rank = torch.distributed.get_rank() if distributed else 0
        self.device = torch.device(
            f"cuda:{self.rank % torch.cuda.device_count()}"
            if torch.cuda.is_available()
            else "cpu"
        )
        self.plain = Pretraining(args.recipe, args.model).to(self.device)
        self.model = (
            nn.parallel.DistributedDataParallel(self.plain, find_unused_parameters=True)
            if distributed
            else self.plain
        )
        self.optimizer = torch.optim.SGD(
            [p for p in self.plain.parameters() if p.requires_grad],
            args.rate,
            momentum=0.9,
        )
        self.loader = DataLoader(
            args.data,
            args.batch_size,
            shuffle=True,
            seed=args.seed,
            drop_last=True,
            transform=args.recipe,
            normalize="imagenet",
            device=self.device,
        )
        if not len(self.loader):
            raise ValueError(
                f"--batch-size {args.batch_size}: the {len(self.loader.dataset):,} images do not fill a batch on every rank"
            )
        say(
            f"{args.recipe}: {args.model} on {self.device.type}, {len(self.loader.dataset):,} images, "
            f"{len(self.loader)} steps an epoch; waiting for the first batch"
        )
        self.saved = args.output / "last.pt" if args.output else None
        if self.saved and self.saved.exists():
            self.load(self.saved)
        elif self.saved:  # one that can't be made is not to be met after an epoch
            self.saved.parent.mkdir(parents=True, exist_ok=True)

    def load(self, saved: Path) -> None:
        state = torch.load(saved, map_location=self.device, weights_only=True)
        made = (state["recipe"], state["network"])
        if made != (self.args.recipe, self.args.model):
            raise ValueError(
                f"{saved} is of {made[0]} with --model {made[1]}: take another --output"
            )
        self.plain.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loader.load_state_dict(state["loader"])
        say(f"going on with {saved}, in epoch {self.loader.sampler.epoch}")

    def save(self) -> None:
        """Keep the state after a step; what was kept before stands until the new one is whole."""
        if not self.saved or self.rank:
            return
        state = {
            "recipe": self.args.recipe,
            "network": self.args.model,
            "model": self.plain.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loader": self.loader.state_dict(),
        }
        torch.save(state, self.saved.with_suffix(".new"))
        self.saved.with_suffix(".new").replace(self.saved)

    def train(self, stop: Stop) -> bool:
        """Train to the last epoch; return False if stopped before."""
        steps, begun = 0, time.perf_counter()
        for epoch in range(self.loader.sampler.epoch, self.args.epochs):
            self.loader.set_epoch(epoch)
            batches = iter(self.loader)
            first = len(self.loader) - len(batches)
            for step, (views, _) in enumerate(batches, first + 1):
                if not steps:
                    sizes = ", ".join(str(view.shape[-1]) for view in views)
                    say(
                        f"the first batch came after {time.perf_counter() - begun:.1f} s: {len(views)} views of "
                        f"{len(views[0])} images, of {sizes} pixels"
                    )
                loss = self.step(views)
                steps += 1
                now = time.perf_counter()
                say(
                    f"epoch {epoch}, step {step}/{len(self.loader)}: loss {loss:.6f}, {now - begun:.2f} s"
                )
                begun = now
                if stop.agreed(self.device) or steps == self.args.steps:
                    self.save()
                    return False
            self.save()
        return True

    def step(self, views: list[torch.Tensor]) -> float:
        loss = self.model(views)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.plain.follow(self.args.momentum)
        return loss.item()


def main() -> None:
    args = arguments()
    torch.manual_seed(args.seed)
    try:
        with Stop() as stop:
            run = Run(args)
            finished = run.train(stop)
    except (ImgfeedError, ValueError, OSError) as e:
        sys.exit(f"pretrain.py: {e}")
    kept = f"; {run.saved} has all of it" if run.saved else ""
    if finished:
        say(f"finished after {args.epochs} epochs{kept}")
    elif run.saved:
        say(f"stopped; the same command goes on with {run.saved}")
    else:
        say("stopped; nothing was kept, as there was no --output")


if __name__ == "__main__":
    main()
