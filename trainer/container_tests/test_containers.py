"""The images and compose.yaml on a real engine. ``make test-containers`` builds the images and runs this; it needs no torch.

Set FEED_IMAGE and TRAINER_IMAGE to the images, and COMPOSE to the command (``docker compose``, or ``docker-compose`` 1.29).
"""

import io
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKER = os.environ.get("DOCKER", "docker")
COMPOSE = os.environ.get("COMPOSE", "docker compose").split()
PUID, PGID = 12345, 12346  # nobody's on this machine, so that rights count
SHM_BYTES = 64 << 20  # Docker's default
RING_BYTES_MIN = 300 << 20
CLASSES = 5
# Four of ImageNet's classes, and the numbers of some of their validation images.
WNIDS = {
    "n01440764": (293, 2138, 3014, 6697, 7197),
    "n01443537": (236, 262, 307, 994, 2241),
    "n01484850": (2338, 2752, 4311, 4329, 6491),
    "n01491361": (2922, 2969, 3183, 3204, 7743),
}
EXIT_IDLE = "20s"  # from the server's start to the trainer's connection, above all
STEP_LIMIT = 240.0  # seconds that any step may take; torch alone takes half a minute to load on a busy core
TINY = "--arch timm/test_resnet --size 64 --batch-size 20 --log-every 1 --lr 0.05 --amp off"
LONG = f"{TINY} --epochs 1000"  # more than any test waits for

for name in ("FEED_IMAGE", "TRAINER_IMAGE"):
    if name not in os.environ:
        pytest.skip(f"{name} names no image: run make test-containers", allow_module_level=True)


def docker(*arguments: str) -> str:
    """Run docker; return what it prints."""
    done = subprocess.run([DOCKER, *arguments], capture_output=True, text=True, check=False, timeout=STEP_LIMIT)
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


class Project:
    """compose.yaml under a name of its own, with folders of its own."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.name = f"imgfeed-test-{os.getpid()}"
        self.files = [ROOT / "compose.yaml"]
        self.output = folder / "output"  # Docker makes it, as root's
        self.env = {
            **os.environ,
            **{
                "DATA": str(data),
                "OUTPUT": str(self.output),
                "PUID": str(PUID),
                "PGID": str(PGID),
                "RECIPE": "imagenet-resnet50",
            },
            **{"EXIT_IDLE": EXIT_IDLE, "TRAIN_ARGS": f"{TINY} --epochs 1", "GRACE": "100s"},
        }

    def command(self, *arguments: str) -> list[str]:
        return [*COMPOSE, "-p", self.name, *(f"--file={path}" for path in self.files), *arguments]

    def run(self, *arguments: str, **env: str) -> tuple[int, str]:
        """Run compose to its end; return its status and everything that it and the containers printed."""
        done = subprocess.run(
            self.command(*arguments),
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=STEP_LIMIT,
        )
        return done.returncode, done.stdout

    def up(self, **env: str) -> tuple[int, str]:
        """Run ``up``; return its status and what the containers printed, which ``up`` itself can miss the end of."""
        status, said = self.run("up", "--no-build", **env)
        logs, before = self.run("logs", "--no-color")[1], ""
        while logs != before:  # the engine writes the last lines down a moment after a container's end
            time.sleep(1)
            before, logs = logs, self.run("logs", "--no-color")[1]
        return status, said + logs

    def start(self, **env: str) -> subprocess.Popen[bytes]:
        """Begin ``up`` in a session of its own."""
        return subprocess.Popen(
            self.command("up", "--no-build"),
            env={**self.env, **env},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def container(self, service: str) -> dict[str, Any]:
        """Return ``docker inspect`` of a service's container, {} if there is none."""
        label = [f"label=com.docker.compose.project={self.name}", f"label=com.docker.compose.service={service}"]
        ids = docker("ps", "-aq", *(part for text in label for part in ("--filter", text))).split()
        return dict(json.loads(docker("inspect", ids[0]))[0]) if ids else {}

    def events(self, kind: str) -> list[dict[str, Any]]:
        log = self.output / "log.jsonl"
        rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [row for row in rows if row["event"] == kind]

    def wait_for_step(self, step: int) -> None:
        await_(lambda: any(event["step"] >= step for event in self.events("step")), f"step {step}")


def await_(what: Callable[[], object], name: str) -> None:
    """Wait until what() is true. Fails after STEP_LIMIT seconds, with the name."""
    deadline = time.monotonic() + STEP_LIMIT
    while not what():
        assert time.monotonic() < deadline, f"waited in vain for {name}"
        time.sleep(0.2)


@pytest.fixture(scope="session")
def imgshard() -> str:
    return str(ROOT / "bin" / "imgshard")


@pytest.fixture(scope="session")
def raw(imgshard: str) -> Iterator[Path]:
    """A folder with train/ and val/: photographs, if IMGFEED_TEST_IMAGES names some, else synthetic images."""
    with tempfile.TemporaryDirectory(prefix="imgfeed-containers-") as name:
        folder = Path(name) / "raw"
        photographs = sorted(Path(os.environ.get("IMGFEED_TEST_IMAGES", "/nonexistent")).glob("*.JPEG"))
        for i, photograph in enumerate(photographs):
            to = folder / ("val" if i % 5 == 0 else "train") / f"class{i // 5 % CLASSES}"
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy(photograph, to)
        if not photographs:
            sizes = ["--classes", str(CLASSES), "--train", "80", "--val", "20", "--size", "200"]
            subprocess.run([imgshard, "synth", str(folder), *sizes], check=True, capture_output=True)
        Path(name).chmod(0o755)
        yield folder


@pytest.fixture(scope="session")
def sets(raw: Path, imgshard: str) -> Path:
    """A folder with the packed sets."""
    folder = raw.parent / "sets"
    subprocess.run([imgshard, "build", str(raw), "-o", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture
def imagenet(raw: Path) -> Iterator[Path]:
    """A folder with the two tars of ImageNet, in miniature: one of class tars, one of flat images."""
    with tempfile.TemporaryDirectory(prefix="imgfeed-containers-") as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "ILSVRC 2012"  # a space, for the command that is copied
        folder.mkdir()
        images = {split: sorted(path for path in (raw / split).rglob("*.*") if path.is_file()) for split in ("train", "val")}
        classes = {f"{c}.tar": {f"{c}_{p.name}": p.read_bytes() for p in images["train"][i::4]} for i, c in enumerate(WNIDS)}
        numbers = itertools.chain.from_iterable(WNIDS.values())
        flat = {f"ILSVRC2012_val_{i:08}.JPEG": p.read_bytes() for i, p in zip(numbers, images["val"], strict=False)}
        tars = {name: tar_of(files) for name, files in classes.items()}
        (folder / "ILSVRC2012_img_train.tar").write_bytes(tar_of(tars))
        (folder / "ILSVRC2012_img_val.tar").write_bytes(tar_of(flat))
        yield folder


def tar_of(files: dict[str, bytes]) -> bytes:
    """Return a tar of files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, file in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(file)
            tar.addfile(info, io.BytesIO(file))
    return made.getvalue()


@pytest.fixture
def project(sets: Path) -> Iterator[Project]:
    """The project on packed sets; removed at the end."""
    with tempfile.TemporaryDirectory(prefix="imgfeed-containers-") as name:
        Path(name).chmod(0o755)
        made = Project(Path(name), sets)
        try:
            yield made
        finally:
            made.run("down", "--volumes", "--timeout", "1")


def test_feed_image_holds_two_programs_and_no_more() -> None:
    image = os.environ["FEED_IMAGE"]
    config = json.loads(docker("inspect", image))[0]
    assert config["Config"]["User"] == "65532:65532", "it does not run as root"
    assert config["Config"]["Healthcheck"]["Test"][1:3] == ["/imgfeed", "status"]
    assert config["Size"] < 56e6  # imgfeed has 23 MB, imgshard 29; the client of S3 takes 4 and 11 of them
    container = docker("create", image)
    try:
        with tempfile.TemporaryDirectory() as name:
            tar = Path(name) / "all.tar"
            docker("export", "-o", str(tar), container)
            listed = subprocess.run(["tar", "-tf", str(tar)], check=True, capture_output=True, text=True).stdout.split()
    finally:
        docker("rm", container)
    # What the engine puts into every container is not the image's.
    theirs = re.compile(r"(dev|etc|proc|sys)/.*|\.dockerenv|(dev|etc|proc|sys)")
    assert sorted(n.rstrip("/") for n in listed if not theirs.match(n)) == ["imgfeed", "imgshard", "run", "run/imgfeed", "tmp"]
    assert "etc/ssl/certs/ca-certificates.crt" in listed, "else https:// and buckets are not trusted"
    assert "compiled in" in docker("run", "--rm", "--network", "none", image, "version")


def test_socket_between_users(sets: Path) -> None:
    """A server and its clients as different users: only those whom --socket-mode lets in get an answer."""
    image, name = os.environ["FEED_IMAGE"], f"imgfeed-test-feed-{os.getpid()}"
    volume = f"{name}-run"  # a plain volume, which takes the folder's permissions from the image
    path = "/run/imgfeed/imgfeed.sock"
    run = ["run", "--rm", "--network", "none", "-v", f"{volume}:/run/imgfeed"]
    serve = ["serve", "/data", "--socket", path, "--socket-mode", "0660"]
    docker(*run, "-d", "--name", name, "--user", "1001:2000", "-v", f"{sets}:/data:ro", image, *serve)
    try:
        await_(lambda: docker("inspect", "-f", "{{.State.Health.Status}}", name) == "healthy", "health")
        for user, want in {
            "1002:2000": "process 1, up ",
            "1003:2001": "permission denied",
            "0:0": "process 1, up ",
        }.items():
            ask = [DOCKER, *run, "--user", user, image, "status", "--socket", path]
            done = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=STEP_LIMIT)
            assert want in done.stdout + done.stderr, f"user {user}"
            assert (done.returncode == 0) == ("process" in want)
    finally:
        docker("stop", name)
        await_(lambda: name not in docker("ps", "-a", "--format", "{{.Names}}"), "its removal, which comes after the stop")
        docker("volume", "rm", volume)


def test_sets_in_a_bucket(project: Project, sets: Path, imgshard: str) -> None:
    """compose.bucket.yaml trains from a server of S3, and keeps what was read."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        url = "http://{}:{}".format(*server.get_host_and_port())
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
        cache, network = project.output.parent / "cache", project.output.parent / "host.yaml"
        project.env |= {**keys, "AWS_ENDPOINT_URL": url, "DATA": "s3://bucket/sets", "CACHE": str(cache)}
        urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()
        for split in ("train", "val"):
            copy = [imgshard, "copy", str(sets / split), f"s3://bucket/sets/{split}"]
            subprocess.run(copy, env=project.env, check=True, capture_output=True)
        for folder in (cache, project.output):
            folder.mkdir()
            os.chown(folder, PUID, PGID)
        network.write_text("services: {feed: {network_mode: host}, trainer: {network_mode: host}}")  # where the server is
        project.files = [ROOT / "compose.bucket.yaml", network]
        status, said = project.up()
    finally:
        server.stop()
    assert status == 0, said
    assert [e["epoch"] for e in project.events("epoch")] == [0]
    assert any(path.is_file() for path in cache.rglob("*"))


def test_data_variable_is_asked_for(project: Project) -> None:
    del project.env["DATA"]
    status, said = project.run("config")
    assert status != 0 and "DATA" in said


def test_empty_data(project: Project) -> None:
    with tempfile.TemporaryDirectory() as empty:
        status, said = project.up(DATA=empty)
    assert status != 0
    assert "/data: not a shard set, nor is any folder in it; it holds nothing; and no dataset to pack" in said
    trainer = project.container("trainer")  # Compose 1.29 does not even make it
    assert not trainer or trainer["State"]["Status"] == "created", "the trainer did not start"


def test_data_that_the_user_cannot_read(project: Project, sets: Path) -> None:
    copy = project.output.parent / "sets"
    shutil.copytree(sets, copy)
    next(copy.glob("train/**/*.imgshard")).chmod(0o600)
    status, said = project.up(DATA=str(copy))
    assert status != 0
    assert re.search(r"user 12345, group 12346 can't read /data/train/\S+\.imgshard .*PUID=\d+ PGID=\d+", said)


def test_raw_data_is_packed_when_told(project: Project, raw: Path) -> None:
    owner = raw.stat().st_uid
    if os.geteuid() == 0:
        owner = PUID + 1
        os.chown(raw, owner, PGID + 1)
    status, said = project.up(DATA=str(raw))
    assert status != 0
    assert re.search(r"it holds /data/train \(.*\), /data/val \(.*\), not packed yet\. Pack it, once: DATA=", said)
    status, said = project.up(DATA=str(raw), PACK="1")
    assert status == 0, said
    assert "set: train: " in said and "data: unix:/run/imgfeed/imgfeed.sock: train (" in said
    report = project.output / "report.md"
    assert report.is_file() and report.stat().st_uid == PUID
    assert f"no client has been connected for {EXIT_IDLE}" in said, "the server ends with the trainer, and so does up"
    assert [e["epoch"] for e in project.events("epoch")] == [0]
    assert (raw / "train-shards" / "manifest.json").stat().st_uid == owner, "packed as the owner of the data, not as root"
    shutil.rmtree(raw / "train-shards")
    shutil.rmtree(raw / "val-shards")


def test_imagenet_is_packed_by_the_command_that_is_named(project: Project, imagenet: Path) -> None:
    status, said = project.up(DATA=str(imagenet))
    assert status != 0
    tars = r"/data/ILSVRC2012_img_train\.tar \(.*\), /data/ILSVRC2012_img_val\.tar \(.*\)"
    named = re.search(rf"it holds {tars}, not packed yet\. Pack it, once: (.*)", said)
    assert named, said
    copied = named[1].replace("docker compose", shlex.join(project.command()))
    done = subprocess.run(copied, shell=True, cwd=ROOT, capture_output=True, text=True, check=False, timeout=STEP_LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    for split in ("train", "val"):
        manifest = json.loads((imagenet / f"ILSVRC2012_img_{split}-shards" / "manifest.json").read_text())
        assert (manifest["split"], manifest["classes"]) == (split, list(WNIDS))
    status, said = project.up(DATA=str(imagenet))
    assert status == 0, said
    assert [e["epoch"] for e in project.events("epoch")] == [0]


def test_data_that_is_not_there(project: Project) -> None:
    missing = project.output.parent / "missing"
    status, said = project.up(DATA=str(missing))
    assert status != 0 and f"does not exist: {missing}" in said
    assert not missing.exists(), "it was not made either"


def test_failing_trainer_ends_the_feed(project: Project) -> None:
    """A trainer that fails before it asks for a batch."""
    wrong = f"{TINY} --epochs none"
    status, said = project.up(TRAIN_ARGS=wrong)
    assert "Error parsing --epochs" in said
    assert f"no client has been connected for {EXIT_IDLE}" in said
    ends = {service: project.container(service)["State"]["ExitCode"] for service in ("prepare", "feed", "trainer")}
    assert ends == {"prepare": 0, "feed": 0, "trainer": 2}
    status, said = project.run("run", "--rm", "trainer", TRAIN_ARGS=wrong)
    assert status == 2, said
    status, said = project.run("run", "--rm", "trainer")
    assert status == 0, said
    assert [e["epoch"] for e in project.events("epoch")] == [0]


#: Reads two epochs through every slot of a ring of more than 300 MB; Resize to 448 makes 602,112 bytes an image.
READ = """
import shutil
from imgfeed import DataLoader
square = [{"op": "Resize", "size": [448, 448]}]
feed = "unix:/run/imgfeed/imgfeed.sock"
loader = DataLoader(feed, 180, split="train", transform=square, shuffle=True, seed=0, framework="numpy")
total = 0
for epoch in range(3):
    for images, labels in loader:
        total += int(images[:, ::16, ::16].sum(dtype="int64"))
print("summed", total, "beside", shutil.disk_usage("/dev/shm").total)
"""


def test_large_ring_in_small_shared_memory(project: Project) -> None:
    status, said = project.run("run", "--rm", "-T", "trainer", "python3", "-c", READ, EXIT_IDLE="5m")
    told = re.search(r"summed (\d+) beside (\d+)", said)
    assert status == 0 and told and int(told[1]) > 0, said
    assert int(told[2]) == SHM_BYTES
    host = project.container("feed")["HostConfig"]
    assert (host["ShmSize"], host["IpcMode"]) == (SHM_BYTES, "private")
    rings = re.findall(r'batch_size=180 .*ring="([0-9.]+) MiB"', project.run("logs", "--no-color", "feed")[1])
    assert max(map(float, rings)) * 2**20 >= RING_BYTES_MIN


def stop_by_compose(project: Project, up: subprocess.Popen[bytes]) -> None:
    status, said = project.run("stop")
    assert status == 0, said


def stop_by_ctrl_c(project: Project, up: subprocess.Popen[bytes]) -> None:
    os.killpg(up.pid, signal.SIGINT)


@pytest.mark.parametrize("stop", [stop_by_compose, stop_by_ctrl_c])
def test_stopped_and_started_again(project: Project, stop: Callable[[Project, subprocess.Popen[bytes]], None]) -> None:
    up = project.start(TRAIN_ARGS=LONG)
    try:
        project.wait_for_step(3)
        stop(project, up)
        up.wait(STEP_LIMIT)
    finally:
        end(up)
    state = project.container("trainer")["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 0)
    said = project.run("logs", "--no-color")[1]
    stopped = re.search(r"stopped in epoch (\d+) after (\d+) batches; continue with --resume auto", said)
    assert stopped, said
    assert (project.output / "checkpoints" / "last.pt").is_file()
    done = len(project.events("step"))

    status, said = project.up(TRAIN_ARGS=f"{LONG} --max-steps {done + 3}")
    assert status == 0, said
    assert f"resumed /output/checkpoints/last.pt: epoch {stopped[1]}, batch {stopped[2]}" in said
    assert [event["step"] for event in project.events("step")] == list(range(1, done + 4)), "none repeated, none skipped"


def test_killed_trainer_goes_on_by_itself(project: Project) -> None:
    up = project.start(TRAIN_ARGS=f"{LONG} --checkpoint-every 2", EXIT_IDLE="5m")
    try:
        project.wait_for_step(5)
        os.kill(project.container("trainer")["State"]["Pid"], signal.SIGKILL)
        await_(lambda: "resumed /output/checkpoints/last.pt" in project.run("logs", "--no-color", "trainer")[1], "resumption")
        there = max(event["step"] for event in project.events("step"))
        project.wait_for_step(there + 3)
        assert project.container("trainer")["RestartCount"] == 1
        project.run("stop")
    finally:
        end(up)
    assert project.container("trainer")["State"]["ExitCode"] == 0


def end(process: subprocess.Popen[bytes]) -> None:
    """End a compose that still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
