"""A script that ends says nothing on stderr, however it ends, and leaves no server."""

import json
from pathlib import Path

import pytest
from conftest import PATIENCE, alive, script, wait_for

LOADER = """
import json, sys
from imgfeed import DataLoader
def made(**others): return DataLoader(sys.argv[1], 4, num_workers=1, slots=3, **json.loads(sys.argv[2]), **others)
loader = made()
def work(loader):
    import threading
    begun = threading.Event()
    def iterate():
        while True:
            for batch in loader: begun.set()
    threading.Thread(target=iterate, daemon=True).start()
    begun.wait()
"""
NUMPY = '{"framework": "numpy"}'  # an import of torch takes seconds
PID = "print(loader._service.server.process.pid, flush=True)\n"

ENDS = {
    "the first batch": "next(iter(loader))",
    "an iteration that is kept": "it = iter(loader); next(it)",
    "a batch that is kept": "held = [next(iter(loader))]",
    "early break": "for batch in loader: break",
    "sys.exit": "for batch in loader: sys.exit(0)",
    "sys.exit in a function": "def train():\n    for batch in made(): sys.exit(0)\ntrain()",
    "an exception that is caught": "try:\n    for batch in loader: raise RuntimeError\nexcept RuntimeError: pass",
    "a cycle": "loader.me = loader; loader.it = iter(loader); next(loader.it)",
    # A module older than imgfeed's is taken down after these, whose names are None by then.
    "an older module holds it": "json.loader = loader; json.it = iter(loader); next(json.it)",
    "an older module holds a cycle": "loader.me = json.loader = loader; json.it = iter(loader); next(json.it)",
    "an older module holds a batch": "json.batch = next(iter(loader))",
    "a whole epoch": "list(loader)",
    "a daemon thread": "work(loader)",
    "a daemon thread with a function": "work(made(map=lambda image: image))",
    "a thread that outlives the main one": "import threading; threading.Thread(target=lambda: list(made())).start()",
    "closed": "it = iter(loader); next(it); loader.close()",
    "no iteration": "",
}


OTHERS = ("a daemon thread", "the first batch", "an iteration that is kept", "an older module holds it", "sys.exit")


@pytest.mark.parametrize(
    ("end", "framework", "transport"),
    [(end, "numpy", "shm") for end in ENDS]
    + [(end, "numpy", "socket") for end in OTHERS]
    + [pytest.param(end, "torch", "shm", marks=pytest.mark.long) for end in OTHERS],
)
def test_the_end_is_silent(shards: Path, end: str, framework: str, transport: str) -> None:
    if framework == "torch":
        pytest.importorskip("torch")
    options = json.dumps({"transport": transport, "framework": framework})
    with script(LOADER + PID + ENDS[end], str(shards), options) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    wait_for(lambda: not alive(int(out)))


@pytest.mark.parametrize("end", ["raise KeyError('mine')", "x = 1 / 0"])
def test_an_exception_is_all_that_is_told(shards: Path, end: str) -> None:
    with script(LOADER + PID + f"for batch in loader:\n    {end}", str(shards), NUMPY) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert err.count("Traceback") == 1 and "Exception ignored" not in err
    assert err.splitlines()[-1].split(":")[0] in ("KeyError", "ZeroDivisionError")
    wait_for(lambda: not alive(int(out)))


def test_a_loader_goes_with_its_last_name(shards: Path) -> None:
    """No cycle keeps it, or an iteration: the server ends at once, and not when garbage is collected."""
    code = LOADER + PID + "import gc, time\ngc.disable()\nit = iter(loader); next(it)\ndel it, loader\ntime.sleep(60)"
    with script(code, str(shards), NUMPY) as process:
        pid = int(process.stdout.readline())
        wait_for(lambda: not alive(pid))
        process.kill()


def test_an_iteration_outlives_its_loader(shards: Path) -> None:
    code = LOADER + "print(sum(len(batch[0]) for batch in made()))"
    with script(code, str(shards), NUMPY) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (out, err) == ("105\n", "")
