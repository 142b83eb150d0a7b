"""D-FINE or RT-DETR v2 of transformers, on boxes that imgfeed moves with their images.

    imgshard build coco -o coco-shards
    python train.py coco-shards --model ustc-community/dfine-small-coco

Their own loaders give normalized cxcywh boxes too. As in D-FINE's recipe, the last epochs go without the strong augmentations.
"""

import argparse

import torch
from imgfeed import DataLoader
from transformers import (
    AutoConfig,
    DFineConfig,
    DFineForObjectDetection,
    HGNetV2Config,
    RTDetrV2ForObjectDetection,
)

SIZE = 640
PLAIN = [
    {"op": "RandomHorizontalFlip"},
    {"op": "Resize", "size": [SIZE, SIZE]},
    {"op": "SanitizeBoundingBoxes"},
]


def detector(name: str, classes: int) -> torch.nn.Module:
    """Return a model for so many classes: a pretrained one by its name, or "tiny" for one that is not trained."""
    if name == "tiny":
        widths = [16, 32, 48, 64]
        backbone = HGNetV2Config(
            stem_channels=[3, 8, 16],
            stage_in_channels=[16, *widths[:3]],
            stage_mid_channels=[8] * 4,
            stage_out_channels=widths,
            hidden_sizes=widths,
            stage_num_blocks=[1] * 4,
            stage_numb_of_layers=[1] * 4,
            out_indices=[2, 3, 4],
        )
        config = DFineConfig(
            num_labels=classes,
            backbone_config=backbone,
            encoder_in_channels=widths[1:],
            encoder_hidden_dim=32,
            encoder_ffn_dim=64,
            decoder_in_channels=[32] * 3,
            d_model=32,
            decoder_ffn_dim=64,
            decoder_layers=2,
            num_queries=50,
        )
        return DFineForObjectDetection(config)
    kind = AutoConfig.from_pretrained(name).model_type
    model = {
        "d_fine": DFineForObjectDetection,
        "rt_detr_v2": RTDetrV2ForObjectDetection,
    }
    return model[kind].from_pretrained(
        name, num_labels=classes, ignore_mismatched_sizes=True
    )


def main() -> None:
    """Train for some epochs and print the loss of each step."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", help="a set with boxes")
    parser.add_argument("--model", default="ustc-community/dfine-small-coco")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--plain-epochs", type=int, default=2, help="the last ones")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with DataLoader(
        args.set,
        args.batch_size,
        split="train",
        shuffle=True,
        drop_last=True,
        boxes="cxcywh",
        boxes_unit="fraction",
        transform={0: "detection", args.epochs - args.plain_epochs: PLAIN},
    ) as loader:
        model = detector(args.model, len(loader.dataset.classes)).to(device).train()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
        for epoch in range(args.epochs):
            for images, targets in loader:  # uint8 (B, 3, 640, 640), B dictionaries
                labels = [
                    {
                        "class_labels": t["labels"].to(device),
                        "boxes": t["boxes"].as_subclass(torch.Tensor).to(device),
                    }
                    for t in targets
                ]
                pixels = images.to(device) / 255
                loss = model(pixel_values=pixels, labels=labels).loss
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
                print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
