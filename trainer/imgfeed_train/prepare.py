"""``imgfeed-train prepare``: what compose.yaml runs before the feed. Looks at the data, packs it if told, readies the output.

It runs as root where the others run as a user of their own, so that what they can't read or write is found, and named, here.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .data.sets import VAL_SPLITS, FoundSet, NotPackedError, sets_in
from .errors import TrainError
from .launch import surroundings

VARIABLES = ("DATA", "OUTPUT", "PUID", "PGID")  # which compose.yaml passes on as they were given to it


def main(arguments: Sequence[str]) -> None:
    """Run ``prepare --data DIR --output DIR [--user UID:GID] [--pack]``. Raises TrainError, naming what is missing."""
    args = _parser().parse_args(arguments)
    uid, gid = _user(args.user)
    for mount in surroundings.mounts()[: surroundings.SHOWN_MAX]:
        print(f"mount: {mount}", flush=True)
    data, output = Path(args.data), Path(args.output)
    try:
        found = sets_in(args.data, _command(args.data))
    except NotPackedError:
        if not args.pack:
            raise
        _pack(data)
        found = sets_in(args.data, _command(args.data))
    for split, one in sorted(found.items()):
        print(f"set: {split}: {one.samples:,} samples in {one.folder}", flush=True)
    _check_splits(args.data, found)
    for one in found.values():
        _check_readable(data, one.folder, uid, gid)
    _ready_output(output, uid, gid)
    print(f"output: {output}, for user {uid}, group {gid}", flush=True)


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="imgfeed-train prepare", description="Look at data and output before feed and trainer start."
    )
    p.add_argument("--data", required=True, help="folder with the sets, or with images to pack")
    p.add_argument("--output", required=True, help="folder for logs and checkpoints; made, and given to --user if it is empty")
    p.add_argument("--user", default=f"{os.geteuid()}:{os.getegid()}", help="UID:GID that feed and trainer run as")
    pack = os.environ.get("PACK", "").lower() not in ("", "0", "no", "false")
    p.add_argument("--pack", action=argparse.BooleanOptionalAction, default=pack, help="pack images, once; PACK=1")
    return p


def _command(data: str) -> str:
    """Return the command that packs data: with Compose's variables as they were given, or imgshard where there are none."""
    given = [f"{name}={shlex.quote(os.environ[name])}" for name in VARIABLES if os.environ.get(name)]
    if "DATA" not in os.environ:
        return f"imgshard build {shlex.quote(data)}"
    return " ".join([*given, "PACK=1 docker compose run --rm prepare"])


def _user(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match:
        raise TrainError(f"--user {text}: want numbers, as in 1000:1000 (PUID and PGID)")
    return int(match[1]), int(match[2])


def _pack(data: Path) -> None:
    """Pack what is in data, beside it, as the owner of data. Raises TrainError where imgshard fails; it has said why."""
    from imgfeed.launcher import find_binary  # noqa: PLC0415 - only this needs it

    owner = data.stat()
    as_owner = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    command = [find_binary("imgshard"), "build", str(data)]
    print(f"packing, once: {' '.join(command)}", flush=True)
    child: subprocess.Popen[bytes] = subprocess.Popen(command, **as_owner)  # type: ignore[call-overload]
    before = signal.signal(signal.SIGTERM, lambda *_: child.terminate())  # it removes what is unfinished
    try:
        status = child.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
    if status:
        raise TrainError(
            f"packing {data} failed with exit status {status}. Its sets stand beside the images, so {data} must be writable, "
            f"with their size free; to pack to another place: imgshard build DATA -o PLACE, then DATA=PLACE docker compose up"
        )


def _check_splits(data: str, found: dict[str, FoundSet]) -> None:
    has = f"it has {', '.join(sorted(found))}"
    if "train" not in found:
        raise TrainError(f"--data {data}: no split to train on (train); {has}")
    if not any(name in found for name in VAL_SPLITS):
        looked = "/".join(VAL_SPLITS)
        print(f"note: no split to evaluate on ({looked}); {has}; to train without: TRAIN_ARGS='--val-split none'", flush=True)


def _check_readable(data: Path, folder: Path, uid: int, gid: int) -> None:
    """Raise TrainError unless the user can read the files of the set in folder, which is data or lies in it."""
    closed = _denied("-x", [data, folder], uid, gid)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    denied = closed or _denied("-r", files, uid, gid)
    if denied is not None:
        owner = denied.stat()
        raise TrainError(
            f"user {uid}, group {gid} can't read {denied} (user {owner.st_uid}'s, group {owner.st_gid}'s): start with "
            f"PUID={owner.st_uid} PGID={owner.st_gid}, or chmod -R a+rX {closed or folder}"
        )


def _ready_output(output: Path, uid: int, gid: int) -> None:
    """Make the folder, and give it to the user if it is root's and empty, as Docker makes it. TrainError if not writable."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        if os.statvfs(output).f_flag & os.ST_RDONLY:
            raise TrainError(f"--output {output} is on a read-only file system: OUTPUT must name a writable folder")
        owner = output.stat()
        if os.geteuid() == 0 and owner.st_uid == 0 and not any(output.iterdir()):
            os.chown(output, uid, gid)
    except OSError as e:
        raise TrainError(f"--output {output} can't be made ready: {e.strerror or e}; {surroundings.mounts_text()}") from e
    for path in (output, output / "log.jsonl", output / "checkpoints"):
        if path.exists() and _denied("-w", [path], uid, gid) is not None:
            owner = path.stat()
            raise TrainError(
                f"user {uid}, group {gid} can't write {path} (user {owner.st_uid}'s, group {owner.st_gid}'s): start with "
                f"PUID={owner.st_uid} PGID={owner.st_gid}, or chown -R {uid}:{gid} the folder"
            )


def _denied(test: str, paths: list[Path], uid: int, gid: int) -> Path | None:
    """Return the first path for which test(1) with this flag fails for a user, None if there is none."""
    other = {"user": uid, "group": gid, "extra_groups": []} if os.geteuid() == 0 else {}
    script = 'for path; do test "$0" "$path" || { printf %s "$path"; exit 1; }; done'
    done = subprocess.run(["sh", "-c", script, test, *map(str, paths)], check=False, stdout=subprocess.PIPE, text=True, **other)  # type: ignore[call-overload]
    return Path(done.stdout) if done.returncode else None
