"""What Python programs use today, one thread each: decode, transform, and copy into a batch, over and over.

    python3 loaders.py PEER LIST SECONDS eval|train|full
    python3 loaders.py PEER                                 print the versions of what would run

PEER is a key of PEERS below. LIST names a file with one path a line; the files are in memory before the clock starts. A
quarter of SECONDS is warm-up. `eval` is Resize(256), CenterCrop(224); `train` RandomResizedCrop(224) with a flip; `full`
the whole image decoded to RGB. Each peer does these in its own usual way, with its own filters: only torchvision on Pillow
gives the bits of torchvision on Pillow. Prints one JSON object.
"""

import io
import json
import math
import os
import platform
import random
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

for name in ("OMP_NUM_THREADS", "OPENCV_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np

BATCH = 256
SIZE = 224
SHORT = 256
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)

#: Does some images, and returns how many.
Step = Callable[[], int]


def into_batch(files: Iterator[bytes], one: Callable[[bytes], "np.ndarray | None"]) -> Step:
    """A step of one image, copied into a batch unless the peer only decodes."""
    batch = np.empty((BATCH, SIZE, SIZE, 3), np.uint8)
    row = 0

    def step() -> int:
        nonlocal row
        image = one(next(files))
        if image is not None:
            batch[row] = image
            row = (row + 1) % BATCH
        return 1

    return step


def random_box(width: int, height: int) -> tuple[int, int, int, int]:
    """RandomResizedCrop.get_params of torchvision, for peers that have none: left, top, width, height."""
    for _ in range(10):
        area = width * height * random.uniform(*SCALE)
        ratio = math.exp(random.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def pillow(files: Iterator[bytes], name: str) -> Step:
    import torch
    from PIL import Image
    from torchvision import transforms

    torch.set_num_threads(1)
    transform = {
        "eval": transforms.Compose([transforms.Resize(SHORT), transforms.CenterCrop(SIZE)]),
        "train": transforms.Compose([transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip()]),
        "full": None,
    }[name]

    def one(data: bytes) -> np.ndarray | None:
        image = Image.open(io.BytesIO(data)).convert("RGB")
        return np.asarray(transform(image)) if transform else None

    return into_batch(files, one)


def tensors(files: Iterator[bytes], name: str) -> Step:
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    return on_tensors(
        files, name, lambda data: decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=ImageReadMode.RGB)
    )


def torchcodec(files: Iterator[bytes], name: str) -> Step:
    from torchcodec.decoders import decode_jpeg

    return on_tensors(files, name, decode_jpeg)


def on_tensors(files: Iterator[bytes], name: str, decode: Callable[[bytes], "torch.Tensor"]) -> Step:
    import torch
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    transform = {
        "eval": v2.Compose([v2.Resize(SHORT, antialias=True), v2.CenterCrop(SIZE)]),
        "train": v2.Compose([v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()]),
        "full": None,
    }[name]

    def one(data: bytes) -> np.ndarray | None:
        image = decode(data)
        return transform(image).numpy().transpose(1, 2, 0) if transform else None

    return into_batch(files, one)


def simplejpeg(files: Iterator[bytes], name: str) -> Step:
    """A decoder and no more: the pixels of libjpeg-turbo, as a numpy array."""
    from simplejpeg import decode_jpeg

    def one(data: bytes) -> None:
        decode_jpeg(data, "RGB")

    return into_batch(files, one)


def opencv(files: Iterator[bytes], name: str) -> Step:
    """Resized by area, OpenCV's filter that antialiases."""
    import cv2

    cv2.setNumThreads(1)

    def one(data: bytes) -> np.ndarray | None:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        height, width = image.shape[:2]
        if name == "eval":
            factor = SHORT / min(width, height)
            size = max(SHORT, round(width * factor)), max(SHORT, round(height * factor))
            image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
            left, top = (size[0] - SIZE) // 2, (size[1] - SIZE) // 2
            return image[top : top + SIZE, left : left + SIZE]
        if name == "train":
            left, top, w, h = random_box(width, height)
            image = cv2.resize(image[top : top + h, left : left + w], (SIZE, SIZE), interpolation=cv2.INTER_AREA)
            return image[:, ::-1] if random.random() < 0.5 else image
        return None

    return into_batch(files, one)


def tensorflow(files: Iterator[bytes], name: str) -> Step:
    """What Keras' and TPU's examples do: tf.io and tf.image in a traced function, decoding the box only where it is known."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)

    def evaluate(data: "tf.Tensor") -> "tf.Tensor":
        image = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
        shape = tf.cast(tf.shape(image)[:2], tf.float32)
        size = tf.cast(tf.round(shape * (SHORT / tf.reduce_min(shape))), tf.int32)
        image = tf.image.resize(image, size, antialias=True)
        return tf.cast(tf.image.resize_with_crop_or_pad(image, SIZE, SIZE), tf.uint8)

    def train(data: "tf.Tensor") -> "tf.Tensor":
        whole = tf.zeros([1, 1, 4]) + tf.constant([0.0, 0.0, 1.0, 1.0])
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(data), whole, aspect_ratio_range=RATIO, area_range=SCALE, max_attempts=10
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.io.decode_and_crop_jpeg(data, window, channels=3, dct_method="INTEGER_ACCURATE")
        image = tf.image.resize(image, [SIZE, SIZE], antialias=True)
        return tf.cast(tf.image.random_flip_left_right(image), tf.uint8)

    def full(data: "tf.Tensor") -> "tf.Tensor":
        return tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")

    function = tf.function({"eval": evaluate, "train": train, "full": full}[name], input_signature=[tf.TensorSpec([], tf.string)])

    def one(data: bytes) -> np.ndarray | None:
        image = function(tf.constant(data))
        return None if name == "full" else image.numpy()

    return into_batch(files, one)


def spdl(files: Iterator[bytes], name: str) -> Step:
    """FFmpeg's decoder and scaler (bilinear), as spdl.io offers them."""
    import spdl.io

    def one(data: bytes) -> np.ndarray | None:
        packets = spdl.io.demux_image(data)
        if name == "eval":
            scale = f"scale={SHORT}:{SHORT}:force_original_aspect_ratio=increase:flags=bilinear,crop={SIZE}:{SIZE}"
        elif name == "train":
            left, top, w, h = random_box(packets.codec.width, packets.codec.height)
            scale = f"crop={w}:{h}:{left}:{top},scale={SIZE}:{SIZE}:flags=bilinear" + (",hflip" if random.random() < 0.5 else "")
        else:
            scale = None
        description = spdl.io.get_filter_desc(packets, filter_desc=scale, pix_fmt="rgb24")
        image = spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(packets, filter_desc=description)))
        return None if name == "full" else image

    return into_batch(files, one)


def dali(files: Iterator[bytes], name: str) -> Step:
    """DALI's pipeline on the CPU with one thread, batches of BATCH; it crops before it decodes where it can."""
    from nvidia.dali import fn, pipeline_def, types

    def source() -> list[np.ndarray]:
        return [np.frombuffer(next(files), np.uint8) for _ in range(BATCH)]

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, prefetch_queue_depth=1, seed=0)
    def pipeline():  # type: ignore[no-untyped-def]
        data = fn.external_source(source=source, batch=True, dtype=types.UINT8)
        if name == "full":
            return fn.shapes(fn.decoders.image(data, device="cpu", output_type=types.RGB))
        if name == "eval":
            image = fn.decoders.image(data, device="cpu", output_type=types.RGB)
            image = fn.resize(image, resize_shorter=SHORT, interp_type=types.INTERP_LINEAR, antialias=True)
            return fn.crop(image, crop=(SIZE, SIZE), dtype=types.UINT8)
        image = fn.decoders.image_random_crop(
            data, device="cpu", output_type=types.RGB, random_area=SCALE, random_aspect_ratio=RATIO, num_attempts=10
        )
        image = fn.resize(image, resize_x=SIZE, resize_y=SIZE, interp_type=types.INTERP_LINEAR, antialias=True)
        return fn.flip(image, horizontal=fn.random.coin_flip())

    pipe = pipeline()
    pipe.build()

    def step() -> int:
        (out,) = pipe.run()
        if name != "full":
            out.as_array()
        return BATCH

    return step


def turboloader(files: Iterator[bytes], name: str) -> Step:
    """TurboLoader with one worker: float32 batches of BATCH from a tar. Its `eval` is a resize to SIZE × SIZE without a crop."""
    import turboloader as turbo

    def decode(data: bytes) -> None:
        turbo.decode_jpeg(data)

    if name == "full":
        return into_batch(files, decode)
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "images.tar")
    first, images = next(files), []
    while not images or images[-1] != first:
        images.append(next(files))
    with tarfile.open(path, "w") as tar:
        for number, data in enumerate(images):
            info = tarfile.TarInfo(f"{number:06}.jpg")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    loader = turbo.DataLoader(path, BATCH, 1, image_size=SIZE, output_format="numpy", antialias=True, train_aug=name == "train")

    def batches() -> Iterator[int]:
        with folder:
            while True:
                for batch, _ in loader:
                    yield len(batch)

    return batches().__next__


#: The peers, by the name on the command line: what the table calls them, the distributions whose versions count, and the step.
PEERS = {
    "pillow": ("torchvision on Pillow", ("torchvision", "pillow"), pillow),
    "tensors": ("torchvision on tensors (decode_jpeg, v2)", ("torchvision",), tensors),
    "torchcodec": ("torchvision on tensors (torchcodec, v2)", ("torchcodec", "torchvision"), torchcodec),
    "simplejpeg": ("simplejpeg", ("simplejpeg",), simplejpeg),
    "opencv": ("OpenCV (imdecode, area)", ("opencv-python-headless",), opencv),
    "tensorflow": ("TensorFlow (tf.io, tf.image)", ("tensorflow-cpu",), tensorflow),
    "spdl": ("SPDL", ("spdl-io",), spdl),
    "dali": ("DALI on the CPU", ("nvidia-dali-cuda120",), dali),
    "turboloader": ("TurboLoader (float32, eval without a crop)", ("turboloader",), turboloader),
}


def versions(names: tuple[str, ...]) -> str:
    from importlib.metadata import PackageNotFoundError, version

    known = []
    for distribution in names:
        try:
            known.append(f"{distribution} {version(distribution)}")
        except PackageNotFoundError:
            known.append(f"{distribution} of the system")
    return ", ".join(known)


def main() -> None:
    title, distributions, peer = PEERS[sys.argv[1]]
    if len(sys.argv) == 2:
        peer(iter(()), "full")
        print(json.dumps({"title": title, "versions": f"{versions(distributions)}, Python {platform.python_version()}"}))
        return
    listing, seconds, name = sys.argv[2], float(sys.argv[3]), sys.argv[4]
    step = peer(cycle([Path(p).read_bytes() for p in Path(listing).read_text().splitlines()]), name)

    def run(until: float) -> int:
        done = 0
        while time.perf_counter() < until:
            done += step()
        return done

    step()
    run(time.perf_counter() + seconds / 4)
    start, cpu = time.perf_counter(), time.process_time()
    done = run(start + seconds)
    elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps({"images_per_second": done / elapsed, "images": done, "seconds": elapsed, "cpu_seconds": cpu}))


if __name__ == "__main__":
    main()
