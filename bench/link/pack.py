"""Packs the photographs of a folder ten times over for LitData, MosaicML Streaming and WebDataset: pack.py PHOTOGRAPHS OUT."""

import io
import sys
import tarfile
from pathlib import Path

import litdata
from streaming import MDSWriter

COPIES = 10


def sample(item: tuple[int, Path]) -> dict[str, object]:
    number, path = item
    return {"image": path.read_bytes(), "label": number}


def main() -> None:
    out = Path(sys.argv[2])
    files = sorted(path for path in Path(sys.argv[1]).iterdir() if path.suffix.lower() in {".jpg", ".jpeg"})
    items = [(copy * len(files) + i, path) for copy in range(COPIES) for i, path in enumerate(files)]
    (out / "wds/train").mkdir(parents=True)
    for copy in range(COPIES):
        with tarfile.open(out / f"wds/train/train-{copy:04}.tar", "w") as tar:
            for number, path in items[copy * len(files) : (copy + 1) * len(files)]:
                for extension, data in (("jpg", path.read_bytes()), ("cls", str(number).encode())):
                    member = tarfile.TarInfo(f"{number:06}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    with MDSWriter(out=str(out / "mds/train"), columns={"image": "bytes", "label": "int"}, size_limit="64mb") as writer:
        for item in items:
            writer.write(sample(item))
    (out / "lit").mkdir()
    litdata.optimize(fn=sample, inputs=items, output_dir=str(out / "lit/train"), chunk_bytes="64MB", num_workers=2)


if __name__ == "__main__":
    main()
