"""Write values of images as pyarrow, csv and json do, into a folder; print them by file and sample, as JSON."""

import csv
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

folder = Path(sys.argv[1])
JPEG = b"\xff\xd8\xff\xe0"
N = 150


def values(i: int) -> dict[str, object]:
    return {
        "score": i / 4,
        "double": -i / 8,
        "age": i - 70,
        "small": i,
        "ok": i % 3 == 0,
        "caption": f"caption ü {i}" * (i % 4),
        "box": [i, i + 0.5, i * 2, -1],
        "emb": [i / 2, -i, 0.25],
        "tags": [k for k in range(20) if (i + 1) * (k + 3) % 7 == 0],
        "words": [f"w{k}" for k in range(i % 3)],
        "mask": "m" * (i % 5),
        "meta": {"author": f"a{i}", "stars": [i, 1]},
    }


TYPES = {
    "score": pa.float32(), "double": pa.float64(), "age": pa.int64(), "small": pa.int16(), "ok": pa.bool_(), "caption": pa.string(),
    "box": pa.list_(pa.float64()), "emb": pa.list_(pa.float32(), 3), "tags": pa.list_(pa.int64()), "words": pa.list_(pa.string()),
    "mask": pa.binary(), "meta": pa.struct([("author", pa.string()), ("stars", pa.list_(pa.int64()))]),
}  # fmt: skip
rows = [values(i) for i in range(N)]
columns = {"image": pa.array([JPEG + bytes([i]) for i in range(N)], pa.binary()), "label": pa.array([i % 2 for i in range(N)])}
for name, kind in TYPES.items():
    columns[name] = pa.array([row[name].encode() if name == "mask" else row[name] for row in rows], kind)
for name, options in {
    "one.parquet": {},
    "pages.parquet": {"row_group_size": 40, "data_page_size": 64, "write_batch_size": 7, "use_dictionary": False},
    "second.parquet": {"data_page_version": "2.0", "data_page_size": 128, "compression": "zstd"},
}.items():
    pq.write_table(pa.table(columns), folder / name, **options)

said = {f"{i:05d}": row for i, row in enumerate(rows)}
for i, row in enumerate(rows[:6]):
    stem = folder / "tree" / ("cat" if i % 2 else "dog") / str(i)
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".jpg").write_bytes(JPEG)
with (folder / "list.csv").open("w", newline="") as f:
    out = csv.writer(f)
    out.writerow(["path", "label", "score", "caption", "tags", "age"])
    for i, row in enumerate(rows[:6]):
        name = f"tree/{'cat' if i % 2 else 'dog'}/{i}.jpg"
        out.writerow([name, i % 2, row["score"], row["caption"], " ".join(map(str, row["tags"])), row["age"]])
with (folder / "list.jsonl").open("w") as f:
    for i, row in enumerate(rows[:6]):
        print(json.dumps({"path": f"tree/{'cat' if i % 2 else 'dog'}/{i}.jpg", "label": i % 2, **row}), file=f)
json.dump(said, sys.stdout)
