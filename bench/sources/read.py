"""How long imgshard build takes for WebDataset's tars and Hugging Face's parquet, beside these formats' own readers that merely read the bytes.

    python bench/sources/read.py IMAGES [--imgshard bin/imgshard] [--copies 4] [--rounds 3]

IMAGES is a folder of image files. It needs the packages webdataset, datasets and pyarrow, and writes both formats with them into a temporary folder.
Each round reads both and packs both, one after the other, so that other load on the machine affects all alike. It prints medians of the
rounds, in samples per second, and imgshard's divided by the reader's. A build checks and decodes every image once and writes the set; the readers only hand out bytes.
"""

import argparse
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path


def write(images: list[bytes], copies: int, folder: Path) -> int:
    """Write the images several times over, as tars and as parquet, and return the number of samples."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import webdataset as wds

    n = len(images) * copies
    (folder / "wds").mkdir()
    with wds.ShardWriter(str(folder / "wds/x-train-%06d.tar"), maxcount=500, verbose=0) as tars:
        for i in range(n):
            tars.write({"__key__": f"{i:07d}", "jpg": images[i % len(images)], "cls": i % 10})
    (folder / "parquet").mkdir()
    files = -(-n // 500)
    for f in range(files):
        rows = range(f * 500, min((f + 1) * 500, n))
        table = pa.table({
            "image": [{"bytes": images[i % len(images)], "path": f"{i}.jpg"} for i in rows],
            "label": pa.array([i % 10 for i in rows], pa.int64()),
        })
        pq.write_table(table, folder / f"parquet/train-{f:05d}-of-{files:05d}.parquet", row_group_size=100)
    return n


def read_webdataset(folder: Path) -> int:
    """Read every sample's bytes with webdataset."""
    import webdataset as wds

    tars = sorted(str(p) for p in (folder / "wds").iterdir())
    return sum(len(sample["jpg"]) for sample in wds.WebDataset(tars, shardshuffle=False))


def read_datasets(folder: Path) -> int:
    """Read every row's bytes with datasets, as a stream: nothing is copied into its cache."""
    from datasets import Image, load_dataset

    files = sorted(str(p) for p in (folder / "parquet").iterdir())
    rows = load_dataset("parquet", data_files=files, split="train", streaming=True).cast_column("image", Image(decode=False))
    return sum(len(row["image"]["bytes"]) for row in rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--imgshard", default="bin/imgshard")
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    images = [p.read_bytes() for p in sorted(args.images.rglob("*")) if p.is_file()]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        n = write(images, args.copies, folder)

        def build(source: str) -> None:
            subprocess.run([args.imgshard, "build", folder / source, "-o", folder / "set"], check=True, capture_output=True)
            shutil.rmtree(folder / "set")

        work = {
            "webdataset, reading": lambda: read_webdataset(folder),
            "imgshard build, tars": lambda: build("wds"),
            "datasets, reading": lambda: read_datasets(folder),
            "imgshard build, parquet": lambda: build("parquet"),
        }
        seconds: dict[str, list[float]] = {name: [] for name in work}
        for _ in range(args.rounds):
            for name, run in work.items():
                start = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - start)
    rates = {name: n / statistics.median(taken) for name, taken in seconds.items()}
    for name, rate in rates.items():
        print(f"{name:24} {rate:9.0f} samples/s")
    for reader, packer in [("webdataset, reading", "imgshard build, tars"), ("datasets, reading", "imgshard build, parquet")]:
        ratio = statistics.median(r / p for r, p in zip(seconds[reader], seconds[packer]))
        print(f"{packer} / {reader}: {ratio:.2f}")


if __name__ == "__main__":
    main()
