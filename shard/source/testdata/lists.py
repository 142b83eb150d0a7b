"""Write lists of images as Python's csv and json do, in several dialects, beside the images; print what Python reads out of them, as JSON."""

import csv
import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
ROWS = [("train/a.jpg", "tabby, cat"), ("train/b c.jpg", 'the "dog"'), ("train/d,e.JPEG", "äpfel"), ("./x/f.png", "tabby, cat"), ("g", "line\nbreak")]

said = {}
for row in ROWS:
    file = folder / row[0]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"\xff\xd8\xff\xe0" + row[0].encode())
for name, options, encoding in [
    ("excel.csv", {"dialect": "excel"}, "utf-8"),
    ("bom.csv", {"dialect": "excel"}, "utf-8-sig"),
    ("all.csv", {"quoting": csv.QUOTE_ALL}, "utf-8"),
    ("unix.csv", {"dialect": "unix"}, "utf-8-sig"),
    ("tab.tsv", {"dialect": "excel-tab"}, "utf-8"),
    ("semicolon.csv", {"delimiter": ";"}, "utf-8"),
]:
    with open(folder / name, "w", newline="", encoding=encoding) as f:
        writer = csv.writer(f, **options)
        writer.writerow(["id", "path", "label"])
        writer.writerows((str(i), *row) for i, row in enumerate(ROWS))
    with open(folder / name, newline="", encoding=encoding) as f:
        said[name] = [row[-2:] for row in csv.reader(f, **options)][1:]
with open(folder / "lines.jsonl", "w") as f:
    for path, label in ROWS:
        f.write(json.dumps({"file_name": path, "size": {"width": 1}, "label": label}) + "\n")
with open(folder / "lines.jsonl") as f:
    said["lines.jsonl"] = [[row["file_name"], row["label"]] for row in map(json.loads, f)]
json.dump(said, sys.stdout)
