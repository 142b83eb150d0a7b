"""Named settings: each is a training that people run, ready to be repeated.

A recipe sets defaults; whatever stands on the command line beside it wins. ``lr`` belongs to the recipe's batch size per
GPU and its number of GPUs; it is never scaled behind your back, but a run whose steps have many more or fewer images says so.
"""

from __future__ import annotations

import math
from typing import Any

# ffcv-imagenet's rn50 recipes, for 8 GPUs of batch 512: lr 1.7 belongs to the 4096 images of a step. Theirs reach .738 top-1
# in 16 epochs and .784 in 88, by the table of its README; these have not been measured. What differs: their images were
# stored with at most 500 pixels a side, half of them as JPEG, ours are the originals; they drop the last incomplete batch of
# an epoch; they decay the biases of the last layer; and they cut the evaluation's crop out before resizing it, not after.
_MODERN: dict[str, Any] = {
    "arch": "resnet50",
    "blurpool": True,
    "batch_size": 512,
    "transform": "train",
    "size": 192,
    "size_start": 160,
    "eval_size": 256,
    "eval_flip": True,
    "optimizer": "sgd",
    "lr": 1.7,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "decay_norm": False,
    "schedule": "linear",
    "warmup_epochs": 2.0,
    "label_smoothing": 0.1,
    "amp": "fp16",
    "channels_last": True,
}

# ResNet strikes back (Wightman, Touvron, Jegou 2021), table 2: LAMB, a binary cross-entropy, RandAugment; evaluated at 224
# with a crop of 0.95. Marks: A1 .804 top-1, A2 .798, A3 .781; results/results-imagenet.csv of timm's repository has .80382,
# .79828 and .78052 for the published weights. These have not been measured. The threshold is that of the commands for timm's
# train.py with which others have repeated A2 (--bce-target-thresh 0.2); timm's documents name none.
_STRIKES: dict[str, Any] = {
    "arch": "timm/resnet50",
    "batch_size": 256,
    "transform": "train",
    "interpolation": "bicubic",
    "size": 224,
    "eval_size": 224,
    "eval_resize": 236,
    "augment": "rand-m7-mstd0.5-inc1",
    "optimizer": "lamb",
    "lr": 5e-3,
    "weight_decay": 0.02,
    "decay_norm": False,
    "schedule": "cosine",
    "warmup_epochs": 5.0,
    "loss": "bce",
    "bce_threshold": 0.2,
    "mixup": 0.1,
    "cutmix": 1.0,
    "amp": "fp16",
    "channels_last": True,
}

# What transformers and their like are trained with on ImageNet from scratch.
_TRANSFORMER: dict[str, Any] = {
    "transform": "train",
    "interpolation": "bicubic",
    "size": 224,
    "optimizer": "adamw",
    "weight_decay": 0.05,
    "decay_norm": False,
    "schedule": "cosine",
    "mixup": 0.8,
    "cutmix": 1.0,
}

#: Recipes by name. The keys inside are settings, as ``imgfeed-train --help`` lists them.
RECIPES: dict[str, dict[str, Any]] = {
    # imagenet-distributed.py: one or two T4 with apex O2, whose loss scale was dynamic as GradScaler's is.
    "resnet18-onecycle": {
        "arch": "resnet18",
        "epochs": 2,
        "batch_size": 256,
        "transform": "train",
        "size": 224,
        "optimizer": "sgd",
        "lr": 1.0,
        "momentum": 0.9,
        "weight_decay": 3e-5,
        "schedule": "onecycle",
        "amp": "fp16",
        "channels_last": True,
    },
    # The two notebooks, rank 0 and rank 1: fine-tuning, a deterministic crop and a flip.
    "resnet18-finetune": {
        "arch": "resnet18",
        "pretrained": True,
        "epochs": 10,
        "batch_size": 1024,
        "transform": "center-flip",
        "size": 224,
        "optimizer": "sgd",
        "lr": 0.1,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "schedule": "cosine",
        "amp": "fp16",
        "channels_last": True,
    },
    # The CINIC-10 lab: the largest batch that fits. --strategy dp takes two GPUs of one node, ddp two nodes.
    "resnet152-cinic10": {
        "arch": "resnet152",
        "epochs": 30,
        "batch_size": "auto",
        "transform": "cifar",
        "size": 32,
        "optimizer": "sgd",
        "lr": 0.1,
        "momentum": 0.9,
        "weight_decay": 5e-4,
        "schedule": "cosine",
        "amp": "fp16",
        "channels_last": True,
    },
    # ViT-B/32 on CIFAR-10, resized to 224; also with --strategy fsdp.
    "vit-b32-cifar10": {
        "arch": "timm/vit_base_patch32_224",
        "pretrained": True,
        "epochs": 10,
        "batch_size": 384,
        "transform": "resize-flip",
        "size": 224,
        "eval_resize": 224,
        "optimizer": "adamw",
        "lr": 1e-4,
        "weight_decay": 0.05,
        "schedule": "cosine",
        "warmup_epochs": 1.0,
        "clip_grad": 1.0,
        "amp": "bf16",
    },
    "resnet50-modern": _MODERN | {"epochs": 16, "size_ramp": (11.0, 13.0)},
    "resnet50-modern-88": _MODERN | {"epochs": 88, "size_ramp": (65.0, 76.0)},
    # torchvision's weights IMAGENET1K_V2 of ResNet-50, 8 GPUs of batch 128, by the recipe that their metadata link to
    # (pytorch/vision#3995); mark .80858 top-1 there, not measured here. Its average is updated every 32 steps with a decay of
    # 1 - 2e-5 * 1024 * 32 / 600; here every step, with what makes the same of 32.
    "resnet50-600": {
        "arch": "resnet50",
        "epochs": 600,
        "batch_size": 128,
        "transform": "train",
        "size": 176,
        "eval_size": 224,
        "eval_resize": 232,
        "augment": "ta_wide",
        "random_erasing": 0.1,
        "repeats": 4,
        "optimizer": "sgd",
        "lr": 0.5,
        "momentum": 0.9,
        "weight_decay": 2e-5,
        "decay_norm": False,
        "schedule": "cosine",
        "warmup_epochs": 5.0,
        "label_smoothing": 0.1,
        "mixup": 0.2,
        "cutmix": 1.0,
        "ema": 0.999966,
        "amp": "fp16",
        "channels_last": True,
    },
    "resnet50-a1": _STRIKES
    | {"epochs": 600, "weight_decay": 0.01, "label_smoothing": 0.1, "drop_path": 0.05, "mixup": 0.2, "repeats": 3},
    "resnet50-a2": _STRIKES | {"epochs": 300, "drop_path": 0.05, "repeats": 3},
    "resnet50-a3": _STRIKES | {"epochs": 100, "size": 160, "lr": 8e-3, "augment": "rand-m6-mstd0.5-inc1"},
    # DeiT (Touvron 2021), table 9, and main.py of facebookresearch/deit, 8 GPUs of batch 128; mark .799 top-1 (79.854 in its
    # README_deit.md), not measured here. main.py keeps an average of the weights besides (--model-ema, .99996) and evaluates
    # the trained ones, of which the mark is: here there is none unless --ema .99996 asks for it. Its cool-down would follow
    # after the epochs that it runs. What differs: its cosine goes by epochs, to a rate of 1e-5.
    "deit-s": _TRANSFORMER
    | {
        "arch": "timm/deit_small_patch16_224",
        "epochs": 300,
        "batch_size": 128,
        "augment": "rand-m9-mstd0.5-inc1",
        "random_erasing": 0.25,
        "erase_with": "noise",
        "repeats": 3,
        "lr": 1e-3,
        "warmup_epochs": 5.0,
        "label_smoothing": 0.1,
        "drop_path": 0.1,
        "amp": "fp16",
    },
    # DeiT III (Touvron 2022), by README_revenge.md of facebookresearch/deit, 800 epochs at 224, 8 GPUs of batch 256; mark .814
    # top-1 there, not measured here. Its engine.py counts whatever is mixed in as a whole (targets.gt(0)): the threshold is
    # next to nothing, since 0 takes targets as they are.
    "deit3-s": _TRANSFORMER
    | {
        "arch": "timm/deit3_small_patch16_224",
        "epochs": 800,
        "batch_size": 256,
        "eval_resize": 224,
        "augment": "3a",
        "color_jitter": 0.3,
        "repeats": 3,
        "optimizer": "lamb",
        "lr": 4e-3,
        "warmup_epochs": 5.0,
        "loss": "bce",
        "bce_threshold": 1e-9,
        "drop_path": 0.05,
        "amp": "fp16",
    },
    # ConvNeXt (Liu 2022), table 5, and TRAINING.md of facebookresearch/ConvNeXt, 8 GPUs of batch 128, four batches a step;
    # mark .821 top-1 in its README, not measured here.
    "convnext-t": _TRANSFORMER
    | {
        "arch": "timm/convnext_tiny",
        "epochs": 300,
        "batch_size": 128,
        "accumulate": 4,
        "augment": "rand-m9-mstd0.5-inc1",
        "random_erasing": 0.25,
        "erase_with": "noise",
        "lr": 4e-3,
        "warmup_epochs": 20.0,
        "label_smoothing": 0.1,
        "drop_path": 0.1,
        "ema": 0.9999,
        "channels_last": True,
    },
}

#: Images of a step, of all GPUs together, that a recipe's ``lr`` was used with; resnet152-cinic10's is whatever fits.
IMAGES_A_STEP: dict[str, tuple[int, ...]] = {
    "resnet18-onecycle": (256, 512),  # on one GPU and on two
    "resnet18-finetune": (2048,),
    "vit-b32-cifar10": (3072,),
    "resnet50-modern": (4096,),
    "resnet50-modern-88": (4096,),
    "resnet50-600": (1024,),
    "resnet50-a1": (2048,),
    "resnet50-a2": (2048,),
    "resnet50-a3": (2048,),
    "deit-s": (1024,),
    "deit3-s": (2048,),
    "convnext-t": (4096,),
}


def rate_note(recipe: str | None, lr: float, images: int) -> str:
    """Return what to know about a recipe's own lr at so many images a step; empty where they are about the recipe's.

    For SGD the rate that goes with them is proportional to the images (Goyal 2017), for Adam to their root (Malladi 2022).
    """
    known = IMAGES_A_STEP.get(recipe or "")
    if recipe is None or known is None or lr != RECIPES[recipe]["lr"] or min(known) < 2 * images < 4 * max(known):
        return ""
    nearest = min(known, key=lambda n: abs(math.log(images / n)))
    adam = RECIPES[recipe]["optimizer"] != "sgd"
    rate = lr * (math.sqrt(images / nearest) if adam else images / nearest)
    rule = "by the square-root rule of Adam it is" if adam else "the same rate for each image is"
    return (
        f"--recipe {recipe}: its --lr {lr:g} belongs to {nearest:,} images a step, and here they are {images:,}; "
        f"{rule} --lr {rate:.2g}"
    )
