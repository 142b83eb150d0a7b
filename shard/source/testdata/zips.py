"""Write zips as Python's zipfile does: stored and packed, with a comment, with numbers of 64 bits, behind another file, with links and methods that are not read."""

import io
import sys
import zipfile
from pathlib import Path

folder = Path(sys.argv[1])
FILES = {f"{c}/{i}é.jpg": b"\xff\xd8\xff\xe0" + f"{c}{i}".encode() * (i * 300) for c in ("cat", "dog") for i in range(3)}


def write(name: str, method: int, comment: bytes = b"", zip64: bool = False, before: bytes = b"", link: bool = False) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as z:
        z.comment = comment
        z.mkdir("cow") if hasattr(z, "mkdir") else z.writestr("cow/", b"")
        for key, content in FILES.items():
            with z.open(key, "w", force_zip64=zip64) as f:
                f.write(content)
        z.writestr("cow/x.jpg", b"\xff\xd8\xff\xe0")
        if link:
            info = zipfile.ZipInfo("cow/link.jpg")
            info.create_system, info.external_attr = 3, 0o120777 << 16
            z.writestr(info, b"x.jpg")
    (folder / name).write_bytes(before + data.getvalue())


write("stored.zip", zipfile.ZIP_STORED)
write("packed.zip", zipfile.ZIP_DEFLATED, comment=b"PK a comment" * 9)
write("large.zip", zipfile.ZIP_DEFLATED, zip64=True)
write("link.zip", zipfile.ZIP_STORED, link=True)
write("bzip2.zip", zipfile.ZIP_BZIP2)
