"""deploy/slurm/train.sbatch as it stands, under a real slurmctld with two slurmd, each on a node of its own."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import needs
import pytest
from conftest import PLAIN, TINY, events, same
from imgfeed.programs import find_binary
from namespaces import Node, two_nodes

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).parents[2] / "deploy" / "slurm" / "train.sbatch"
NODE = "NodeName={name} NodeAddr={address} Port=16818 Sockets=2 CoresPerSocket=1 RealMemory=1000 Gres=gpu:1 State=UNKNOWN\n"
LIMIT = 240.0  # seconds in which a job of this size is done, on a machine that does much else too
UNFINISHED = {"PENDING", "RUNNING", "COMPLETING", "REQUEUED", "PREEMPTED", "SIGNALING"}
# All daemons run as this user, without cgroups and accounts; jobs come back at once. Jobs of "urgent" preempt those of "train".
CONFIG = """ClusterName=imgfeed
SlurmctldHost=node0({address})
SlurmUser=root
SlurmdUser=root
SlurmdParameters=config_overrides
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldPort=16817
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=sched_interval=2,bf_interval=2,requeue_delay=1
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}PartitionName=train Nodes=ALL Default=YES State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL State=UP PriorityTier=10
"""


@dataclass(frozen=True)
class Slurm:
    """A running cluster, seen from its first node."""

    node: Node
    env: dict[str, str]
    folder: Path

    def run(self, *command: str) -> str:
        """Return what a command on the first node prints."""
        words = self.node.command(*command)
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False, timeout=LIMIT, cwd=self.folder)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def state(self, job: str) -> str:
        """Return a job's state, as COMPLETED."""
        return self.run("scontrol", "show", "job", job).partition("JobState=")[2].split()[0]

    def submit(self, *arguments: str, **env: str) -> str:
        """Queue the script with a rank on each of two nodes; returns the job's ID."""
        variables = ["env", *(f"{name}={value}" for name, value in env.items())]
        size = ["--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=1", "--cpus-per-task=1", "--time=30"]
        return self.run(*variables, "sbatch", "--parsable", *size, str(SCRIPT), *arguments).strip()

    def wait(self, job: str, seconds: float = LIMIT) -> str:
        """Wait until a job is completed; returns what it printed, in all its turns."""
        deadline = time.monotonic() + seconds
        while (state := self.state(job)) != "COMPLETED":
            if state not in UNFINISHED or time.monotonic() > deadline:
                pytest.fail(f"{state} after {self.printed(job)}")
            time.sleep(0.5)
        return self.printed(job)

    def printed(self, job: str) -> str:
        """Return what a job has printed so far."""
        path = self.folder / f"imgfeed-train-{job}.out"
        return path.read_text() if path.exists() else ""


def wrapper(path: Path, command: str) -> None:
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)


def configure(folder: Path, nodes: list[Node]) -> dict[str, str]:
    """Write the cluster's configuration and what a user has on the nodes; returns their environment."""
    for name in ("state", "munge", "bin", *(f"spool-{node.name}" for node in nodes)):
        (folder / name).mkdir(mode=0o700)
    (folder / "munge" / "key").write_bytes(os.urandom(1024))
    (folder / "munge" / "key").chmod(0o400)
    rows = "".join(NODE.format(name=node.name, address=node.address) for node in nodes)
    (folder / "slurm.conf").write_text(CONFIG.format(folder=folder, address=nodes[0].address, nodes=rows))
    (folder / "gres.conf").write_text("NodeName=node[0-1] Name=gpu File=/dev/null\n")
    wrapper(folder / "bin" / "imgfeed-train", f"{sys.executable} -m imgfeed_train")
    for name in ("imgfeed", "imgshard"):
        wrapper(folder / "bin" / name, find_binary(name))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}
    return {**inherited, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A cluster of two nodes with a GPU each, which is /dev/null."""
    needs.programs("munged", "slurmctld", "slurmd", also="/usr/sbin")
    folder = tmp_path_factory.mktemp("slurm")
    daemons: list[subprocess.Popen[bytes]] = []
    with two_nodes(folder, "10.211.78") as nodes:
        env = {**configure(folder, nodes)}
        env["PATH"] += ":/usr/sbin"

        def start(name: str, command: list[str]) -> None:
            with (folder / f"{name}.log").open("wb") as log:
                daemons.append(subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

        try:
            munge = [f"--{name}-file={folder}/munge/{name}" for name in ("key", "pid", "log", "seed")]
            start("munged", ["munged", "--foreground", "--force", *munge, f"--socket={folder}/munge/socket"])
            start("slurmctld", nodes[0].command("slurmctld", "-D", "-c"))
            for node in nodes:
                start(f"slurmd-{node.name}", node.command("slurmd", "-D", "-N", node.name))
            cluster = Slurm(nodes[0], env, folder)
            ready(cluster, daemons)
            yield cluster
        finally:
            end_jobs(nodes[0], env)
            for daemon in reversed(daemons):
                daemon.terminate()
            for daemon in daemons:
                try:
                    daemon.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()


def end_jobs(node: Node, env: dict[str, str]) -> None:
    """End the jobs that a failed test left: their processes would outlive the daemons."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        subprocess.run(node.command("scancel", "--full", "--signal=KILL", "--user=root"), env=env, check=False, timeout=30)
        subprocess.run(node.command("scancel", "--user=root"), env=env, check=False, timeout=30)
        left = subprocess.run(node.command("squeue", "--noheader"), env=env, capture_output=True, check=False, timeout=30)
        if not left.stdout.strip():
            return
        time.sleep(0.5)


def ready(cluster: Slurm, daemons: list[subprocess.Popen[bytes]]) -> None:
    """Wait until both nodes are idle. Skips where slurmd's cgroup plugin does not work."""
    deadline = time.monotonic() + 40
    said = ""
    while time.monotonic() < deadline:
        said = "\n".join(log.read_text(errors="replace")[-1500:] for log in sorted(cluster.folder.glob("*.log")))
        if "Unable to initialize cgroup plugin" in said:
            pytest.skip("slurmd finds no control groups that it could use here")
        assert all(daemon.poll() is None for daemon in daemons), said
        command = cluster.node.command("sinfo", "--noheader", "--partition=train", "--format=%t %D")
        done = subprocess.run(command, env=cluster.env, capture_output=True, text=True, check=False, timeout=60)
        if done.stdout.split() == ["idle", "2"]:
            return
        time.sleep(0.3)
    pytest.fail(f"the cluster did not start: {said}")


def test_packing_as_an_array(slurm: Slurm, tmp_path: Path) -> None:
    """Arrays of 1, 4 and 7 parts, and the job that joins them, make the bytes of one build."""
    images = tmp_path / "images"
    subprocess.run([find_binary("imgshard"), "synth", str(images)], check=True, capture_output=True)
    subprocess.run([find_binary("imgshard"), "build", str(images), "-o", str(tmp_path / "one"), "-q"], check=True)

    def contents(folder: Path) -> dict[Path, bytes]:
        return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    script = str(SCRIPT.with_name("pack.sbatch"))
    for parts in (1, 4, 7):
        out = tmp_path / f"of-{parts}"
        env = ["env", f"SRC={images}", f"OUT={out}"]
        job = slurm.run(*env, "sbatch", "--parsable", "--cpus-per-task=1", f"--array=1-{parts}", script).strip()
        merge = slurm.run(*env, "sbatch", "--parsable", "--cpus-per-task=1", f"--dependency=afterok:{job}", script).strip()
        slurm.wait(merge)
        assert contents(out) == contents(tmp_path / "one")


def test_the_tutorial(slurm: Slurm, sets: Path, tmp_path: Path) -> None:
    """The commands of the page pack and train here, with nodes as small as these."""
    page = (SCRIPT.parents[2] / "docs" / "tutorials" / "slurm.md").read_text()
    _, pack, train, feed = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for script in SCRIPT.parent.glob("*.sbatch"):
        shutil.copy(script, tmp_path)
    (tmp_path / "imagenet").symlink_to(sets.parent / "raw")
    security = (SCRIPT.parents[2] / "docs" / "scaling.md").read_text().partition("```sh\nmkdir tls\n")[2].partition("```")[0]
    subprocess.run(["sh", "-ec", f"mkdir tls\n{security}"], cwd=tmp_path, check=True, capture_output=True)
    tiny = " ".join([*(word for word in TINY if word not in {"--workers", "1"}), *PLAIN, "--batch-size", "8"])
    one = "--nodes=1 --ntasks-per-node=1 --cpus-per-task=1 --time=30"
    recipe = {"--recipe imagenet-resnet50": tiny}
    gpus = {"--nodes=2 --gpus-per-node=4 --ntasks-per-node=4": f"{one} --gpus-per-node=1", "--nodes=4 --exclusive": one}
    for commands, here in (
        (pack, {"sbatch --": "sbatch --cpus-per-task=1 --"}),
        (train, {**recipe, "sbatch train": f"sbatch {one} --nodes=2 --gpus-per-node=1 train"}),
        (feed, {**recipe, **gpus}),
    ):
        small = commands
        for there, words in {"/shared": str(tmp_path), **here}.items():
            assert there in small
            small = small.replace(there, words)
        slurm.wait(slurm.run("sh", "-ec", small).split()[-1])
    for file in sets.rglob("*.*"):
        assert file.read_bytes() == (tmp_path / "sets" / file.relative_to(sets)).read_bytes()
    assert events(tmp_path / "runs" / "a", "epoch")[-1]["epoch"] == events(tmp_path / "runs" / "b", "epoch")[-1]["epoch"] == 1


def test_feeders_beside_a_training(slurm: Slurm, sets: Path, tmp_path: Path) -> None:
    """A heterogeneous job: the first node trains, the second one makes samples. The run's bits are those of one without it."""
    document = (SCRIPT.parents[2] / "docs" / "scaling.md").read_text()
    commands = document.partition("```sh\nmkdir tls\n")[2].partition("```")[0]
    subprocess.run(["sh", "-ec", f"mkdir tls\n{commands}"], cwd=tmp_path, check=True, capture_output=True)
    tiny = [word for word in TINY if word not in {"--workers", "1"}]
    arguments = [*tiny, *PLAIN, "--batch-size", "8", "--epochs", "20"]
    size = ["--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=1", "--time=30"]
    for name, parts in (("alone", []), ("fed", [":", *size])):
        env = {"DATA": sets, "OUTPUT": tmp_path / name, "TLS": tmp_path / "tls", "FEED": "node"}
        words = ["env", *(f"{key}={value}" for key, value in env.items())]
        job = slurm.run(*words, "sbatch", "--parsable", "--gpus-per-node=1", *size, *parts, str(SCRIPT), *arguments).strip()
        printed = slurm.wait(job)
        assert "data: unix:" in printed
        assert ("connect with imgfeed serve --feeders" in printed) == (name == "fed")
        assert "TLS" not in printed and "refuses" not in printed
    same(tmp_path / "alone", tmp_path / "fed")


def await_epoch(run: Path, epoch: int, cluster: Slurm, job: str) -> None:
    """Wait until a run has begun an epoch."""
    deadline = time.monotonic() + LIMIT
    while not (run / "log.jsonl").exists() or events(run, "step")[-1:] == [] or events(run, "step")[-1]["epoch"] < epoch:
        assert time.monotonic() < deadline, cluster.printed(job)
        assert cluster.state(job) != "COMPLETED", cluster.printed(job)
        time.sleep(0.05)


def test_preempted_job_ends_with_the_same_bits(slurm: Slurm, sets: Path, tmp_path: Path) -> None:
    """Once undisturbed with a feed for each node; once preempted, then told to save, with a feed for each rank."""
    tiny = [word for word in TINY if word not in {"--workers", "1"}]  # which the script or the shared feed decides
    arguments = [*tiny, *PLAIN, "--batch-size", "8", "--epochs", "50"]
    whole = slurm.submit(*arguments, DATA=str(sets), OUTPUT=str(tmp_path / "whole"), FEED="node")
    printed = slurm.wait(whole)
    assert "ranks: 2; rank 0 on cpu" in printed
    assert "data: unix:" in printed
    assert "resumed" not in printed

    part = slurm.submit(*arguments, DATA=str(sets), OUTPUT=str(tmp_path / "part"))
    await_epoch(tmp_path / "part", 1, slurm, part)
    slurm.run("srun", "--partition=urgent", "--nodes=2", "--exclusive", "true")
    epoch = events(tmp_path / "part", "step")[-1]["epoch"]
    await_epoch(tmp_path / "part", epoch + 1, slurm, part)
    slurm.run("scancel", f"--signal={signal.SIGTERM.name.removeprefix('SIG')}", part)
    printed = slurm.wait(part)
    assert printed.count("continue with --resume auto") == 2, printed
    assert printed.count("resumed ") == 2, printed
    same(tmp_path / "whole", tmp_path / "part")


@pytest.fixture
def bucket(slurm: Slurm, sets: Path) -> Iterator[dict[str, str]]:
    """What jobs need to know to read the sets at s3://bucket/sets, which a server on the first node holds."""
    pytest.importorskip("moto.server")
    url = f"http://{slurm.node.address}:5999"
    env = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    command = slurm.node.command(sys.executable, "-m", "moto.server", "-H", slurm.node.address, "-p", "5999")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            slurm.run("curl", "-sS", "--retry", "60", "--retry-delay", "1", "--retry-connrefused", "-X", "PUT", f"{url}/bucket")
            for split in ("train", "val"):
                copy = [find_binary("imgshard"), "copy", str(sets / split), f"s3://bucket/sets/{split}"]
                slurm.run("env", *(f"{name}={value}" for name, value in env.items()), *copy)
            yield env
        finally:
            server.terminate()


def test_sets_in_a_bucket(slurm: Slurm, sets: Path, bucket: dict[str, str], tmp_path: Path) -> None:
    """Feeds of ranks and feeds of nodes read there what lies in a folder, and keep it in CACHE."""
    arguments = [*(word for word in TINY if word not in {"--workers", "1"}), *PLAIN, "--batch-size", "8"]
    slurm.wait(slurm.submit(*arguments, DATA=str(sets), OUTPUT=str(tmp_path / "folder")))
    for feed in ("rank", "node"):
        cache = tmp_path / f"cache-{feed}"
        run = {"DATA": "s3://bucket/sets", "CACHE": str(cache), "OUTPUT": str(tmp_path / feed), "FEED": feed}
        slurm.wait(slurm.submit(*arguments, **run, **bucket))
        same(tmp_path / "folder", tmp_path / feed)
        assert any(path.is_file() for path in cache.rglob("*"))


def test_cancelled_job_stays_so(slurm: Slurm, sets: Path, tmp_path: Path) -> None:
    job = slurm.submit(*TINY, *PLAIN, "--epochs", "2000", DATA=str(sets), OUTPUT=str(tmp_path / "run"))
    await_epoch(tmp_path / "run", 1, slurm, job)
    slurm.run("scancel", job)
    deadline = time.monotonic() + LIMIT
    while slurm.run("squeue", "--noheader", "--jobs", job, "--states=all", "--format=%T").strip() not in {"CANCELLED", ""}:
        assert time.monotonic() < deadline, slurm.printed(job)
        time.sleep(0.5)
    time.sleep(2)
    assert slurm.state(job) == "CANCELLED"
    assert "continue with --resume auto" in slurm.printed(job)
