"""``imgfeed-train``: its commands, the ranks that it starts by torchrun, and its exit status."""

import atexit
import contextlib
import ctypes
import importlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from . import __version__, flags
from .errors import TrainError
from .flags import Settings

PR_SET_PDEATHSIG = 1  # of prctl(2)
MEET = 300  # seconds between the starts of the first and the last machine
#: Words in the errors of torch's backends where another rank ended or is late.
LOST = ("connection closed", "connection reset", "broken pipe", "timed out", "timeout", "gloo", "nccl")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, score, or write a report. Exits with 1 where something outside the program is wrong, and names it."""
    status: int | str = 0
    try:
        status = run(list(sys.argv[1:] if arguments is None else arguments))
    except TrainError as e:
        status = f"imgfeed-train: {e}"
    except KeyboardInterrupt:
        status = 130
    if arguments is None:
        leave(status)
    if status:
        sys.exit(status)


def run(argv: list[str]) -> int:
    """Run a command line; return the exit status. Raises TrainError."""
    if argv == ["--version"]:
        print(f"imgfeed-train {__version__}")
        return 0
    if argv[:1] in (["report"], ["prepare"]):
        importlib.import_module(f".{argv[0]}", __package__).main(argv[1:])
        return 0
    s = flags.parse(argv)
    with held_server(s.data):
        if "RANK" in os.environ:
            if "TORCHELASTIC_RUN_ID" in os.environ:  # a killed torchrun stops its ranks by SIGTERM, with a checkpoint
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            return work(s, argv)
        if "NODE_RANK" in os.environ and s.nodes == 1:  # many a cluster counts machines by these
            s.nodes, s.node_rank = int(os.environ.pop("WORLD_SIZE", "1")), int(os.environ["NODE_RANK"])
        return launch(s, argv)


def launch(s: Settings, argv: Sequence[str]) -> int:
    """Start this machine's ranks by torchrun, and watch them; return the exit status. A rank alone needs no other process."""
    import torch  # noqa: PLC0415 - slow to import
    from torch.distributed import run as torchrun  # noqa: PLC0415
    from torch.distributed.elastic.multiprocessing.api import SignalException  # noqa: PLC0415
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: PLC0415

    here = s.gpus or (0 if s.strategy == "dp" else torch.cuda.device_count()) or 1
    if s.nodes * here == 1:
        return work(s, argv)
    host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "29500")
    if s.nodes > 1 and not host:
        raise TrainError(f"-n {s.nodes} needs the variable MASTER_ADDR: the host name of machine 0")
    meet = ["--master-addr", host, "--master-port", port, "--rdzv-conf", f"timeout={MEET}"] if s.nodes > 1 else ["--standalone"]
    ranks = ["--nnodes", str(s.nodes), "--node-rank", str(s.node_rank), "--nproc-per-node", str(here)]
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun sets it; imgfeed decodes on the other CPUs
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "600")  # seconds to save after SIGTERM
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # its warnings are C++ frames of what the ranks say themselves
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    print(f"ranks: {s.nodes * here} ({s.nodes} x {here}){f'; master {host}:{port}' if s.nodes > 1 else ''}", flush=True)
    try:
        args = torchrun.parse_args([*meet, *ranks, "-m", "imgfeed_train"])
        args.training_script_args = list(argv)  # torchrun would take some for its own
        torchrun.run(args)
        return 0
    except SignalException as e:
        return s.stopped_status if e.sigval in (signal.SIGTERM, signal.SIGINT) else 128 + e.sigval
    except ChildFailedError as e:
        # A killed rank often ends the others within torchrun's second, with errors of their own.
        rank, failure = min(e.failures.items(), key=lambda f: (f[1].exitcode != -signal.SIGKILL, f[1].timestamp))
        if failure.exitcode == s.stopped_status:
            return s.stopped_status
        how = "ended with the error above" if failure.exitcode > 0 else f"was killed by {failure.signal_name()}"
        memory = ", perhaps because the machine is out of memory" if failure.exitcode == -signal.SIGKILL else ""
        raise TrainError(f"rank {rank} {how}{memory}; the others were stopped. --resume auto continues") from e
    except RuntimeError as e:  # of the rendezvous
        what = f"machine {s.node_rank} of {s.nodes} does not reach {host}:{port}"
        raise TrainError(f"{what}: is machine 0 running, and its port open? ({str(e)[:200]})") from e


def work(s: Settings, argv: Sequence[str]) -> int:
    """Do this rank's work: train, score, or try. Errors of imgfeed and torch become ones that name the rank."""
    import torch  # noqa: PLC0415 - slow to import
    from imgfeed import ImgfeedError  # noqa: PLC0415

    from . import ranks, train  # noqa: PLC0415

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # nothing reads it
    torch.backends.cuda.enable_cudnn_sdp(False)  # its backward is not deterministic
    rank, finished = ranks.join(), True
    torch.set_float32_matmul_precision("high")
    try:
        if s.evaluate:
            train.score(s, rank, argv)
        elif s.dry_run:
            train.dry_run(s, rank)
        else:
            finished = train.train(s, rank)
    except (ImgfeedError, LookupError, TrainError) as e:
        raise TrainError(f"rank {rank.rank}: {e}" if rank.world > 1 else str(e)) from e
    except RuntimeError as e:
        said = " ".join(str(e).split())
        if rank.world == 1 or not any(sign in said.lower() for sign in LOST):
            raise
        raise TrainError(f"rank {rank.rank}: another rank ended or is late, and its error is the cause ({said[:200]})") from e
    if rank.world > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    return 0 if finished else s.stopped_status


def held_server(data: str) -> contextlib.AbstractContextManager[Any]:
    """Keep a connection to a server (``unix:SOCKET``), so that one with ``--exit-idle`` stays while torch and models load."""
    if data.startswith("unix:"):
        from imgfeed import ImgfeedError  # noqa: PLC0415
        from imgfeed.programs import connect  # noqa: PLC0415

        with contextlib.suppress(ImgfeedError, OSError):  # whatever opens the data says so
            return contextlib.closing(connect(data))
    return contextlib.nullcontext()


def leave(status: Any) -> NoReturn:
    """End the process after its exit functions. The interpreter is not taken down: gloo's threads could abort it then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
