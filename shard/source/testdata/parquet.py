"""Write parquet files as Hugging Face's hub has them, by pyarrow, into a folder; print what pyarrow reads out of them, as JSON."""

import base64
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

folder = Path(sys.argv[1])
CLASSES = ["zebra", "ant", "bee"]


def write(file: Path, rows: list[tuple[bytes | None, str | None, int | None]], plain: bool, **options: object) -> None:
    """Write rows of image, path and label; the schema's metadata are those that the package datasets writes."""
    features = {"image": {"_type": "Image"}, "label": {"names": CLASSES, "_type": "ClassLabel"}}
    kind = pa.binary() if plain else pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = [data if plain else {"bytes": data, "path": path} for data, path, _ in rows]
    schema = pa.schema(
        [("id", pa.string()), ("image", kind), ("label", pa.int64())],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    arrays = [[str(i) for i in range(len(rows))], images, [label for _, _, label in rows]]
    table = pa.table([pa.array(a, type=f.type) for a, f in zip(arrays, schema)], schema=schema)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file, **options)


def image(i: int) -> bytes:
    return b"\xff\xd8\xff\xe0" + bytes([i % 256]) * (i * 97 % 5000)


for name, options in {
    "snappy": {"compression": "snappy", "row_group_size": 10},
    "plain": {"compression": "none", "row_group_size": 100, "use_dictionary": False},
    "zstd2": {"compression": "zstd", "data_page_version": "2.0", "row_group_size": 33, "data_page_size": 4096, "write_page_index": True},
    "dictionary": {"compression": "gzip", "use_dictionary": True, "version": "1.0"},
    "binary": {"compression": "snappy"},
}.items():
    for k in range(2):
        rows = [(image(i), f"n0_{i}.JPEG" if i % 7 else None, i % 3) for i in range(k * 200, k * 200 + 100 + k)]
        write(folder / name / f"data/train-{k:05d}-of-00002.parquet", rows, name == "binary", **options)
    write(folder / name / "data/validation-00000-of-00001.parquet", [(image(i), f"{i}.png", i % 3) for i in range(5)], name == "binary", **options)
    write(folder / name / "data/test-00000-of-00001.parquet", [(image(i), f"{i}.png", -1) for i in range(3)], name == "binary", **options)
write(folder / "odd/train.parquet", [(image(1), "a/b.JPEG", 0), (None, "none.JPEG", 1), (image(2), "c.JPEG", None)], False)

# Labels of other types than whole numbers, and none at all.
names = ["dog", "cat", None, "dog", "ant"]
for kind, labels in {
    "string": pa.array(names),
    "dictionary": pa.array(names).dictionary_encode(),
    "digits": pa.array(["2", "0", None, "2", "1"]),
    "bool": pa.array([True, False, None, True, False]),
    "float": pa.array([2.0, 0.0, None, 2.0, 1.0]),
    "fraction": pa.array([2.0, 0.5, None, 2.0, 1.0]),
    "mixed": pa.array(["dog", "7", None, "dog", "ant"]),
}.items():
    (folder / "labels").mkdir(exist_ok=True)
    images = [{"bytes": image(i), "path": f"{i}.jpg"} for i in range(len(labels))]
    pq.write_table(pa.table({"image": images, "label": labels, "mask": images}), folder / f"labels/{kind}.parquet")
pq.write_table(pa.table({"image": images, "text": names}), folder / "labels/none.parquet")

said = {}
for file in sorted(folder.rglob("*.parquet")):
    if file.parent.name == "labels":
        continue
    rows = []
    for row in pq.read_table(file).to_pylist():
        one = row["image"] if isinstance(row["image"], dict) else {"bytes": row["image"], "path": None}
        data = None if one["bytes"] is None else base64.b64encode(one["bytes"]).decode()
        rows.append({"data": data, "path": one["path"], "label": row["label"]})
    said[file.relative_to(folder).as_posix()] = rows
json.dump({"rows": said, "version": pa.__version__}, sys.stdout)
