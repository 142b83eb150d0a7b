"""A disk that fails as it is told: a folder, mounted read-only once more through FUSE, whose opens and reads end in errors.

Run as root with /dev/fuse, ``python faultfs.py SOURCE MOUNTPOINT``. It says ``ready``, and then ``ok`` after each line of JSON
that it reads from its standard input: ``{"name": "00000.imgshard", "errno": 5}`` has every read of files of that name fail
with EIO from then on. The fields of :class:`Fault` say the rest. ``{"heal": true}`` takes all faults back. At the end of its
input it unmounts and ends. A disk that stops is this process, stopped; one that is torn out is this process, killed.

The kernel's side is described in include/uapi/linux/fuse.h. One request is served at a time, which is all that tests need.
"""

import ctypes
import dataclasses
import errno
import json
import os
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, INIT, OPENDIR, READDIR = 1, 2, 3, 14, 15, 18, 26, 27, 28
RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = 29, 36, 38, 42
IN_HEADER = struct.Struct("<IIQQIIIHH")
OUT_HEADER = struct.Struct("<IiQ")
READ_IN = struct.Struct("<QQIIQII")
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
DIRECT_IO = 1  # FOPEN_DIRECT_IO: no page cache, so that every read of a program's comes here, as it is
DT_DIR, DT_REG = 4, 8
MNT_DETACH = 2


@dataclasses.dataclass
class Fault:
    """What fails: reads, or opens, of files of a name, where they touch the bytes from first to end."""

    name: str
    errno: int = 0  # 0: none
    on: str = "read"  # or "open"
    first: int = 0
    end: int = 1 << 62
    short: int = 0  # where there is no errno: at most so many bytes a read; 0: all
    seconds: float = 0  # a read takes this long

    def meets(self, name: str, offset: int, size: int) -> bool:
        """Whether it is met by a read."""
        return self.on == "read" and self.name == name and offset < self.end and self.first < offset + size


class FaultFS:
    """Answers the kernel's requests about a folder."""

    def __init__(self, source: Path, *, direct: bool) -> None:
        self.faults: list[Fault] = []
        self._direct = direct
        self._paths = {1: source}  # by node
        self._nodes = {source: 1}
        self._open: dict[int, int] = {}  # descriptors, by handle

    def answer(self, opcode: int, node: int, body: bytes) -> bytes:
        """Return the answer to a request, or raise OSError."""
        if opcode == INIT:
            # Version 7.31, the kernel's read-ahead, no flags, 12 requests at a time, writes that there are none of.
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, *struct.unpack_from("<8xI", body), 0, 12, 9, 4096, 1, 0, 0, 0)
        if opcode == LOOKUP:
            path = self._paths[node] / os.fsdecode(body.rstrip(b"\0"))
            attributes = self._attributes(path)
            number = self._nodes.setdefault(path, len(self._nodes) + 1)
            self._paths[number] = path
            return struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + attributes
        if opcode == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self._attributes(self._paths[node])
        if opcode in (OPEN, OPENDIR):
            return self._opened(self._paths[node], folder=opcode == OPENDIR)
        if opcode in (READ, READDIR):
            handle, offset, size, *_ = READ_IN.unpack_from(body)
            return self._names(self._paths[node], offset, size) if opcode == READDIR else self._read(node, handle, offset, size)
        if opcode in (RELEASE, RELEASEDIR):
            os.close(self._open.pop(struct.unpack_from("<Q", body)[0]))
            return b""
        if opcode == DESTROY:
            return b""
        raise OSError(errno.ENOSYS, "not needed")

    def _attributes(self, path: Path) -> bytes:
        s = path.stat()
        sizes = (s.st_ino, s.st_size, s.st_blocks, int(s.st_atime), int(s.st_mtime), int(s.st_ctime), 0, 0, 0)
        return ATTRIBUTES.pack(*sizes, s.st_mode, s.st_nlink, s.st_uid, s.st_gid, 0, 4096, 0)

    def _opened(self, path: Path, *, folder: bool) -> bytes:
        for fault in self.faults:
            if fault.on == "open" and fault.name == path.name:
                raise OSError(fault.errno, "as told")
        fd = os.open(path, os.O_RDONLY)
        self._open[fd] = fd
        return struct.pack("<QIi", fd, DIRECT_IO if self._direct and not folder else 0, 0)

    def _read(self, node: int, handle: int, offset: int, size: int) -> bytes:
        for fault in self.faults:
            if fault.meets(self._paths[node].name, offset, size):
                time.sleep(fault.seconds)
                if fault.errno:
                    raise OSError(fault.errno, "as told")
                size = min(size, fault.short or size)
        return os.pread(handle, size, offset)

    def _names(self, path: Path, offset: int, size: int) -> bytes:
        listed = b""
        for number, entry in enumerate(sorted(os.scandir(path), key=lambda e: e.name)):
            name = os.fsencode(entry.name)
            one = struct.pack("<QQII", entry.inode(), number + 1, len(name), DT_DIR if entry.is_dir() else DT_REG) + name
            one += b"\0" * (-len(one) % 8)
            if number >= offset:
                if len(listed) + len(one) > size:
                    break
                listed += one
        return listed

    def serve(self, device: int) -> None:
        """Answer until the mount ends."""
        while True:
            try:
                request = os.read(device, 1 << 20)
            except OSError as e:
                if e.errno == errno.EINTR:
                    continue
                return
            _, opcode, unique, node, *_ = IN_HEADER.unpack_from(request)
            if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            try:
                text, failed = self.answer(opcode, node, request[IN_HEADER.size :]), 0
            except OSError as e:
                text, failed = b"", -(e.errno or errno.EIO)
            os.write(device, OUT_HEADER.pack(OUT_HEADER.size + len(text), failed, unique) + text)


def run(source: str, mountpoint: str, *options: str) -> None:
    """Mount, and do as standard input says."""
    system = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    data = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if system.mount(b"faultfs", os.fsencode(mountpoint), b"fuse", 1, data):  # MS_RDONLY
        raise OSError(ctypes.get_errno(), "mounting")
    files = FaultFS(Path(source), direct="direct" in options)
    threading.Thread(target=files.serve, args=(device,), daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        if order.pop("heal", False):
            files.faults = []
        else:
            files.faults = [*files.faults, Fault(**order)]
        print("ok", flush=True)
    system.umount2(os.fsencode(mountpoint), MNT_DETACH)


class Disk:
    """A mounted folder that a test has fail."""

    def __init__(self, source: Path, mountpoint: Path, *, direct: bool = True) -> None:
        """Mount source at mountpoint. With direct=False programs can also map its files into memory."""
        self.path = mountpoint
        mountpoint.mkdir(exist_ok=True)
        command = [sys.executable, __file__, str(source), str(mountpoint), *(["direct"] if direct else [])]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._said("ready")

    def _said(self, word: str) -> None:
        assert self.process.stdout.readline().strip() == word

    def _order(self, **order: Any) -> None:
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        self._said("ok")

    def fail(self, fault: Fault) -> None:
        """Have something fail from now on."""
        self._order(**dataclasses.asdict(fault))

    def heal(self) -> None:
        """Take all faults back."""
        self._order(heal=True)

    def end(self) -> None:
        """Tear the disk out: whatever is asked of it fails, and what waits for it does."""
        self.process.kill()
        self.process.wait()
        ctypes.CDLL(None).umount2(os.fsencode(self.path), MNT_DETACH)
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()


if __name__ == "__main__":
    run(*sys.argv[1:])
