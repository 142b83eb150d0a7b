#!/usr/bin/env python3
"""What compose.yaml runs before the feed: it looks at the data, packs it if asked, and readies the output.

It runs as root, and the feed and the trainer as another user. It finds, and names, what that user can't read or write.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imgfeed.launcher import find_binary

from imgfeed_train.data import VAL_SPLITS, NotPackedError, sets_in
from imgfeed_train.errors import TrainError

VARIABLES = ("DATA", "OUTPUT", "PUID", "PGID")  # which compose.yaml passes on as they were given to it


def main(arguments: Sequence[str]) -> None:
    """Run ``prepare.py --data DIR --output DIR [--user UID:GID] [--pack]``. Raises TrainError, naming what is missing."""
    p = argparse.ArgumentParser(prog="prepare", description="Look at data and output before a training.")
    p.add_argument("--data", required=True, type=Path, help="folder with the sets, or with images to pack")
    p.add_argument("--output", required=True, type=Path, help="folder of the run; made, and given to --user if it is empty")
    p.add_argument("--user", default=f"{os.geteuid()}:{os.getegid()}", help="UID:GID that feed and trainer run as")
    pack = os.environ.get("PACK", "").lower() not in ("", "0", "no", "false")
    p.add_argument("--pack", action=argparse.BooleanOptionalAction, default=pack, help="pack images, once; PACK=1")
    args = p.parse_args(arguments)
    uid, _, gid = args.user.partition(":")
    if not (uid.isdecimal() and gid.isdecimal()):
        raise TrainError(f"--user {args.user}: want numbers, as in 1000:1000 (PUID and PGID)")
    data: Path = args.data
    print(f"mount: {_mount(data)}", flush=True)
    given = " ".join(f"{name}={shlex.quote(os.environ[name])}" for name in VARIABLES if os.environ.get(name))
    command = (
        f"{given} PACK=1 docker compose run --rm prepare"
        if "DATA" in os.environ
        else f"imgshard build {shlex.quote(str(data))}"
    )
    try:
        found = sets_in(str(data), command)
    except NotPackedError:
        if not args.pack:
            raise
        _pack(data)
        found = sets_in(str(data), command)
    for split, one in sorted(found.items()):
        print(f"set: {split}: {one['samples']:,} samples in {one['path']}", flush=True)
        _check_readable(data, Path(one["path"]), int(uid), int(gid))
    has = f"it has {', '.join(sorted(found))}"
    if "train" not in found:
        raise TrainError(f"--data {data}: no split to train on (train); {has}")
    if not {*VAL_SPLITS} & {*found}:
        print(f"note: no split to evaluate on ({'/'.join(VAL_SPLITS)}); {has}; the run is not evaluated", flush=True)
    _ready_output(args.output, int(uid), int(gid))
    print(f"output: {_mount(args.output)}, for user {uid}, group {gid}", flush=True)


def _mount(path: Path) -> str:
    """Return a folder with the kind of its file system, and the space that is left there."""
    try:
        space = os.statvfs(path)
        fields = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
        mounts = [(f[1].encode().decode("unicode_escape"), f[2]) for f in fields]
    except OSError as e:
        return f"{path} ({e.strerror})"
    here = path.resolve()
    kind = max((len(where), i, kind) for i, (where, kind) in enumerate(mounts) if here.is_relative_to(where))[2]
    state = "read-only" if space.f_flag & os.ST_RDONLY else "writable"
    return f"{path} ({kind}, {state}, {space.f_bavail * space.f_frsize / 2**30:,.1f} GiB free)"


def _pack(data: Path) -> None:
    """Pack the images in data, beside it, as the owner of data. Raises TrainError where imgshard fails; it has said why."""
    owner = data.stat()
    command = [find_binary("imgshard"), "build", str(data)]
    print(f"packing, once: {' '.join(command)}", flush=True)
    child: subprocess.Popen[bytes] = subprocess.Popen(command, **_as(owner.st_uid, owner.st_gid))
    before = signal.signal(signal.SIGTERM, lambda *_: child.terminate())  # it removes what is unfinished
    try:
        status = child.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
    if status:
        raise TrainError(
            f"packing {data} failed with exit status {status}. Its sets stand beside the images, so {data} must be writable, "
            "with their size free; to pack elsewhere: imgshard build DATA -o FOLDER, then DATA=FOLDER docker compose up"
        )


def _check_readable(data: Path, folder: Path, uid: int, gid: int) -> None:
    """Raise TrainError unless the user can read the files of the set in folder, which is data or lies in it."""
    closed = _denied([data, folder], "-executable", uid, gid, 0)
    if denied := closed or _denied([folder], "-readable", uid, gid, 99):
        raise TrainError(f"{_whose('read', denied, uid, gid)}, or chmod -R a+rX {closed or folder}")


def _ready_output(output: Path, uid: int, gid: int) -> None:
    """Make the folder, and give it to the user if it is root's and empty, as Docker makes it. TrainError if not writable."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        if os.statvfs(output).f_flag & os.ST_RDONLY:
            raise TrainError(f"--output {output} is on a read-only file system: OUTPUT must name a writable folder")
        if os.geteuid() == 0 and output.stat().st_uid == 0 and not any(output.iterdir()):
            os.chown(output, uid, gid)
    except OSError as e:
        raise TrainError(f"--output {output} can't be made ready: {e.strerror}") from e
    if denied := _denied([output], "-writable", uid, gid, 1):
        raise TrainError(f"{_whose('write', denied, uid, gid)}, or chown -R {uid}:{gid} the folder")


def _whose(verb: str, path: Path, uid: int, gid: int) -> str:
    owner = path.stat()
    whose = f"(user {owner.st_uid}'s, group {owner.st_gid}'s)"
    return f"user {uid}, group {gid} can't {verb} {path} {whose}: start with PUID={owner.st_uid} PGID={owner.st_gid}"


def _as(uid: int, gid: int) -> dict[str, Any]:
    return {"user": uid, "group": gid, "extra_groups": []} if os.geteuid() == 0 else {}


def _denied(paths: list[Path], test: str, uid: int, gid: int, depth: int) -> Path | None:
    """Return the first path for which find(1)'s test fails for a user; None if there is none."""
    command = ["find", *map(str, paths), "-maxdepth", str(depth), "!", test, "-print", "-quit"]
    how: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True, **_as(uid, gid)}
    found = subprocess.run(command, check=False, **how).stdout.removesuffix("\n")
    return Path(found) if found else None


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except TrainError as e:
        sys.exit(f"prepare: {e}")
