"""What mypy finds in a program that uses the loader; make check fails on an ignore that is not needed."""

import imgfeed

loader = imgfeed.DataLoader("/data/train-shards", 256, shuffle=True)
imgfeed.DataLoader("/data/train-shards", bach_size=256)  # type: ignore[arg-type]
imgfeed.DataLoader("/data/train-shards", batch_size="256")  # type: ignore[arg-type]
imgfeed.DataLoader("/data/train-shards", on_error="skip")  # type: ignore[arg-type]
imgfeed.DataLoader("/data/train-shards", layout="NHCW", framework="jax")  # type: ignore[arg-type]
next(iter(loader)).cuda()  # type: ignore[attr-defined]
for images, labels in loader:
    print(images.shape, labels.sum())
for batch in loader:
    batch.cuda()  # type: ignore[attr-defined]
