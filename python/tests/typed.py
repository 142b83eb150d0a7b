"""What mypy and pyright find in a program that uses the loader; make check fails on an ignore that is not needed."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

import imgfeed

loader = imgfeed.DataLoader("/data/train-shards", 256, shuffle=True)
imgfeed.DataLoader("/data/train-shards", bach_size=256)  # type: ignore[arg-type]
imgfeed.DataLoader("/data/train-shards", batch_size="256")  # type: ignore[arg-type]
imgfeed.DataLoader("/data/train-shards", on_error="skip")  # type: ignore[arg-type]
imgfeed.DataLoader("/data/train-shards", layout="NHCW", framework="jax")  # type: ignore[arg-type]
imgfeed.DataLoader("/data/train-shards", boxes="ltrb")  # type: ignore[arg-type]
imgfeed.DataLoader("/data/train-shards", boxes_unit="percent")  # type: ignore[arg-type]
imgfeed.DataLoader("/data/train-shards", with_params="record")  # type: ignore[arg-type]
imgfeed.DataLoader("/data/train-shards", num_samples="all")  # type: ignore[arg-type]
imgfeed.DataLoader("/data/train-shards", buckets="sd15")  # type: ignore[arg-type]
batch = next(iter(loader))
number: int = batch  # type: ignore[assignment]
batch.cuda()  # type: ignore[attr-defined]
for images, labels in loader:
    print(images.shape, labels.sum())
for batch in loader:
    batch.cuda()  # type: ignore[attr-defined]
dataset = imgfeed.Dataset("/data/train-shards")
image, label = dataset[0]
number = len(dataset) + len(loader)
number = dataset.classes  # type: ignore[assignment]
number = imgfeed.from_torch(object()).state_dict()  # type: ignore[assignment]
