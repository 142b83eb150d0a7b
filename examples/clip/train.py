"""A tiny CLIP on images with captions: what the feed gives for image and text, as one readable loop.

    imgshard build pairs.tar -o pairs-shards --no-labels --field captions=json.captions
    python train.py pairs-shards --batch-size 64 --steps 1000

Each epoch shows another caption of each image. The text's tokens are its bytes; a real model has a tokenizer's.
"""

import argparse

import torch
import torch.nn.functional as F
from imgfeed import DataLoader
from torch import nn

LENGTH = 64  # bytes of a caption
WIDTH = 128  # of what image and text are compared by


def tokens(captions: list[str | None]) -> torch.Tensor:
    """Return captions as bytes from 1 to 256, and 0 after their end: shape (B, LENGTH). An image may have none."""
    rows = [list((caption or "").encode()[:LENGTH]) for caption in captions]
    return torch.tensor(
        [[1 + b for b in row] + [0] * (LENGTH - len(row)) for row in rows]
    )


class Clip(nn.Module):
    """Compares images with texts."""

    def __init__(self) -> None:
        super().__init__()
        convolutions = [
            nn.Conv2d(3, 32, 7, 4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2),
            nn.ReLU(),
        ]
        self.image = nn.Sequential(
            *convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, WIDTH)
        )
        self.text = nn.EmbeddingBag(257, WIDTH, padding_idx=0)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, images: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        """Return the loss: every image should be nearest to its own text, and every text to its image."""
        a, b = F.normalize(self.image(images)), F.normalize(self.text(texts))
        scores, own = self.scale.exp() * a @ b.T, torch.arange(len(a))
        return (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2


def main() -> None:
    """Train for some steps and print the loss of each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", help="a set with a field captions")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Clip()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    captions = {"fields": ["captions"], "choose": ["captions"]}
    step = 0
    with DataLoader(
        args.set,
        args.batch_size,
        True,
        transform="train",
        normalize="imagenet",
        drop_last=True,
        **captions,
    ) as loader:
        while step < args.steps:
            for images, _, texts in loader:
                loss = model(images, tokens(texts))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                print(f"step {step}: loss {loss.item():.4f}")
                if step == args.steps:
                    break


if __name__ == "__main__":
    main()
