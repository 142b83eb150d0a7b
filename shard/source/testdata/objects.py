"""Write parquet files with objects in both layouts of Hugging Face, by pyarrow, into a folder; argument two is the image of all rows."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

folder, photo = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()
CATEGORY = {"names": ["cat", "dog"], "_type": "ClassLabel"}
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
BOX = pa.list_(pa.float32())
ROWS = [[([1.5, 2, 10, 20], 1, 150.0), ([0, 0, 5, 5], 0, 20.0)], []]

lists = pa.struct(
    [
        ("id", pa.list_(pa.int64())),
        ("area", pa.list_(pa.float64())),
        ("bbox", pa.list_(BOX)),
        ("category", pa.list_(pa.int64())),
    ]
)
structs = pa.list_(
    pa.struct(
        [
            ("bbox", BOX),
            ("category", pa.int64()),
            ("area", pa.float64()),
            ("id", pa.int64()),
        ]
    )
)
named = pa.struct(
    [
        ("bbox", pa.list_(pa.list_(pa.float64(), 4))),
        ("category", pa.list_(pa.string())),
        ("area", pa.list_(pa.int64())),
    ]
)

for name, kind, feature in (
    (
        "lists",
        lists,
        {
            "feature": {"bbox": {"_type": "Sequence"}, "category": CATEGORY},
            "_type": "Sequence",
        },
    ),
    ("structs", structs, [{"bbox": {"_type": "Sequence"}, "category": CATEGORY}]),
    ("named", named, None),
):
    values: list[object] = []
    for row in ROWS:
        categories = [c if name != "named" else CATEGORY["names"][c] for _, c, _ in row]
        if name == "structs":
            values.append(
                [
                    {"bbox": box, "category": c, "area": area, "id": 1}
                    for box, c, area in row
                ]
            )
        else:
            of = {
                "bbox": [box for box, _, _ in row],
                "category": categories,
                "area": [int(a) if name == "named" else a for _, _, a in row],
            }
            values.append(of if name == "named" else {**of, "id": [1] * len(row)})
    features = (
        {"image": {"_type": "Image"}, "objects": feature}
        if feature
        else {"image": {"_type": "Image"}}
    )
    schema = pa.schema(
        [
            ("image_id", pa.int64()),
            ("image", IMAGE),
            ("width", pa.int32()),
            ("objects", kind),
        ],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    columns = [
        [7, 3],
        [{"bytes": photo, "path": "a.jpg"}, {"bytes": photo, "path": None}],
        [1, 1],
        values,
    ]
    table = pa.table(
        [pa.array(a, type=f.type) for a, f in zip(columns, schema)], schema=schema
    )
    (folder / name / "data").mkdir(parents=True)
    pq.write_table(table, folder / name / "data" / "train-00000-of-00001.parquet")

# Values that one object of several lacks: the area of the first, or what an object needs.
for name, row in (
    (
        "partly",
        [
            {"bbox": [1, 2, 3, 4], "category": 1},
            {"bbox": [0, 0, 5, 5], "category": 0, "area": 20},
        ],
    ),
    ("mixed", [{"bbox": [1, 2, 3, 4]}, {"category": 1}]),
):
    (folder / name).mkdir()
    table = pa.table(
        {
            "image": pa.array([{"bytes": photo, "path": "a.jpg"}], IMAGE),
            "objects": pa.array([row], structs),
        }
    )
    pq.write_table(table, folder / name / "train-00000-of-00001.parquet")
