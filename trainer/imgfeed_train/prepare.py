"""``imgfeed-train prepare``: the first service of compose.yaml, which packs the data if asked, and readies the output.

It runs as root. Server and trainer run as another user: it names the files that this user can't read or write.
"""

import argparse
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imgfeed.programs import find_binary

from .errors import TrainError

VARIABLES = ("DATA", "OUTPUT", "PUID", "PGID")  # compose.yaml passes them on as they were given to it


def main(arguments: Sequence[str]) -> None:
    """Pack, and check what server and trainer need. Raises TrainError, which names the remedy."""
    p = argparse.ArgumentParser(prog="imgfeed-train prepare", description="Look at data and output before a training.")
    p.add_argument("--data", required=True, type=Path, help="folder with the sets, or with images to pack")
    p.add_argument("--output", required=True, type=Path, help="folder of the run; made, and given to --user if it is empty")
    p.add_argument("--user", required=True, type=numbers, metavar="UID:GID", help="who server and trainer run as")
    args = p.parse_args(arguments)
    from .data import sets_in  # noqa: PLC0415 - needs torch, which --help does not

    data, output, user = args.data, args.output, args.user
    given = " ".join(f"{name}={shlex.quote(os.environ[name])}" for name in VARIABLES if os.environ.get(name))
    command = f"{given} PACK=1 docker compose run --rm prepare"
    try:
        found = sets_in(str(data), command)
    except TrainError:
        if os.environ.get("PACK", "").lower() in ("", "0", "no", "false"):
            raise
        pack(data)
        found = sets_in(str(data), command)
    for split, one in sorted(found.items()):
        print(f"set: {split}: {one['samples']:,} samples in {one['path']}", flush=True)
        check([data, Path(one["path"])], "-executable", user, 0)
        check([Path(one["path"])], "-readable", user, 99)
    try:
        output.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0 and output.stat().st_uid == 0 and not any(output.iterdir()):  # as Docker makes it
            os.chown(output, *user)
    except OSError as e:
        raise TrainError(f"--output {output} can't be made ready: {e.strerror}") from e
    check([output], "-writable", user, 1)


def numbers(text: str) -> tuple[int, int]:
    """Return the two numbers of UID:GID."""
    uid, gid = text.split(":")
    return int(uid), int(gid)


def pack(data: Path) -> None:
    """Pack the images in data, beside it, as the owner of data. Raises TrainError where imgshard fails; it has said why."""
    command = [find_binary("imgshard"), "build", str(data)]
    print(f"packing, once: {' '.join(command)}", flush=True)
    with subprocess.Popen(command, **as_user(data.stat().st_uid, data.stat().st_gid)) as child:
        before = signal.signal(signal.SIGTERM, lambda *_: child.terminate())  # it removes its unfinished files
        child.wait()
        signal.signal(signal.SIGTERM, before)
    if child.returncode:
        elsewhere = "or to pack elsewhere: imgshard build DATA -o FOLDER, then DATA=FOLDER docker compose up"
        raise TrainError(f"packing failed with exit status {child.returncode}: {data} must be writable, with room, {elsewhere}")


def check(paths: list[Path], test: str, user: tuple[int, int], depth: int) -> None:
    """Raise TrainError for the first path under these for which find(1)'s test fails for a user."""
    command = ["find", *map(str, paths), "-maxdepth", str(depth), "!", test, "-print", "-quit"]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **as_user(*user))
    if denied := done.stdout.removesuffix("\n"):
        uid, gid = Path(denied).stat().st_uid, Path(denied).stat().st_gid
        verb = "write" if test == "-writable" else "read"
        what = f"user {user[0]}, group {user[1]} can't {verb} {denied} (user {uid}'s, group {gid}'s)"
        how = f"chown -R {user[0]}:{user[1]}" if verb == "write" else "chmod -R a+rX"
        raise TrainError(f"{what}: start with PUID={uid} PGID={gid}, or {how} {paths[-1]}")


def as_user(uid: int, gid: int) -> dict[str, Any]:
    """Return the arguments of subprocess that make root another user."""
    return {"user": uid, "group": gid, "extra_groups": []} if os.geteuid() == 0 else {}
