"""For programs around a loader, such as a trainer: the commands, the data as a user names them, and a running server.

from imgfeed.programs import connect, find_binary
subprocess.run([find_binary("imgshard"), "build", "/data/train"], check=True)
with contextlib.closing(connect("unix:/run/imgfeed.sock", patience=60)) as server:
    print([(one.split, one.samples) for one in server.sets])
"""

from ._arguments.paths import source_path
from ._server import client
from ._server.launcher import find_binary
from ._server.service import retry

__all__ = ["connect", "find_binary", "source_path"]


def connect(address: str, patience: float = 0) -> client.Session:
    """Return a connection to a server, ``unix:PATH``; ``sets`` lists its splits. Close it in the end.

    patience is how many seconds to wait for a server that is not there yet. Raises LostError if none comes.
    """
    path = address.removeprefix("unix:")
    return retry(lambda: client.connect(path, client.HELLO_TIMEOUT if patience else client.REPLY_TIMEOUT), patience)
