"""The manifests against the published schemas: Kubernetes' own, and the custom resources of Kubeflow Trainer.

Kubernetes' come with the package kubernetes-validate, Kubeflow's with its Go module; neither is kept here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import needs
import pytest
import yaml

KUBEFLOW = "github.com/kubeflow/trainer/v2@v2.3.0"
KUBERNETES = "1.37"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OVERLAYS = ["", "bucket/kustomization.yaml", "feeders/kustomization.yaml"]
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((HERE / name).read_text()))


def pods() -> Iterator[dict[str, Any]]:
    """Yield the specification of each kind of pod."""
    for document in (*documents("pack.yaml"), *documents("parts.yaml"), documents("feeders/feeders.yaml")[0]):
        yield document["spec"]["template"]["spec"]
    for overlay in OVERLAYS:
        yield training_pod(overlay)


def training_pod(overlay: str = "") -> dict[str, Any]:
    """Return the specification of the pod that trains, with the changes that an overlay makes."""
    runtime = documents("runtime.yaml")[0]
    for change in yaml.safe_load(documents(overlay)[0]["patches"][0]["patch"]) if overlay else []:
        *path, last = change["path"].strip("/").split("/")
        there: Any = runtime
        for name in path:
            there = there[int(name)] if isinstance(there, list) else there[name]
        if last == "-":
            there.append(change["value"])
        elif isinstance(there, list):
            there[int(last)] = change["value"]
        else:
            assert (last in there) == (change["op"] == "replace")
            there[last] = change["value"]
    return pod_of(runtime)


def pod_of(runtime: Any) -> dict[str, Any]:
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    pod: dict[str, Any] = job["template"]["spec"]["template"]["spec"]
    return pod


@pytest.fixture(scope="module")
def kubeflow() -> Path:
    """The folder of Kubeflow Trainer's Go module, as the module proxy has it."""
    command = [needs.program("go"), "mod", "download", "-json", KUBEFLOW]
    with tempfile.TemporaryDirectory() as empty:  # outside of this project's own module
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=empty)
    module = json.loads(done.stdout or "{}")
    if "Dir" not in module:
        pytest.skip(f"{KUBEFLOW} can't be fetched: {module.get('Error') or done.stderr}")
    return Path(module["Dir"])


def strict(schema: Any) -> Any:
    """Return a custom resource's schema that knows no other fields than those it names, as the API server treats them."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not open_ended:
        made["additionalProperties"] = False
    return made


def resource_schema(kubeflow: Path, kind: str) -> Any:
    """Return the JSON schema of a custom resource of Kubeflow Trainer."""
    path = kubeflow / "manifests" / "base" / "crds" / f"trainer.kubeflow.org_{kind.lower()}s.yaml"
    definition = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    assert definition["spec"]["names"]["kind"] == kind
    (version,) = [v for v in definition["spec"]["versions"] if v["name"] == "v1alpha1"]
    assert version["served"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}  # the API server's own
    return schema


@pytest.mark.parametrize("name", ["runtime.yaml", "trainjob.yaml"])
def test_kubeflow_knows_every_field(kubeflow: Path, name: str) -> None:
    for document in documents(name):
        assert document["apiVersion"] == "trainer.kubeflow.org/v1alpha1"
        schema = resource_schema(kubeflow, document["kind"])
        jsonschema.validate(document, schema)
        # The check finds what it is for: a field with a slip of the pen, also in the depth of a pod.
        with pytest.raises(jsonschema.ValidationError, match="numNode'"):
            slip = json.loads(json.dumps(document).replace('"numNodes"', '"numNode"'))
            jsonschema.validate(slip, schema)
    if name == "runtime.yaml":
        with pytest.raises(jsonschema.ValidationError, match="readonly"):
            jsonschema.validate(json.loads(json.dumps(document).replace('"readOnly"', '"readonly"')), schema)


@pytest.mark.parametrize("name", ["volumes.yaml", "pack.yaml", "parts.yaml", "feeders/feeders.yaml"])
def test_kubernetes_knows_every_field(name: str) -> None:
    for document in documents(name):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_pods() -> None:
    """Each is a pod to Kubernetes, mounts volumes that are there, and fits the pod security standard "restricted"."""
    claims = {claim["metadata"]["name"] for claim in documents("volumes.yaml")}
    for pod in pods():
        as_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": pod}
        kubernetes_validate.validate(as_pod, KUBERNETES, strict=True)
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert {v["persistentVolumeClaim"]["claimName"] for v in volumes.values() if "persistentVolumeClaim" in v} <= claims
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert container["securityContext"].items() >= RESTRICTED.items()
            assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}


def test_feed_is_a_sidecar_that_shares_its_socket() -> None:
    pod = training_pod()
    (feed,), (node,) = pod["initContainers"], pod["containers"]
    assert feed["restartPolicy"] == "Always"
    assert node["name"] == "node"  # the name that Kubeflow Trainer fills in
    (socket,) = [a.removeprefix("--socket=") for a in feed["args"] if a.startswith("--socket=")]
    assert f"--data=unix:{socket}" in node["command"]
    for container in (feed, node):
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts["socket"] == str(Path(socket).parent)
    assert "emptyDir" in next(volume for volume in pod["volumes"] if volume["name"] == "socket")


def test_trainer_understands_its_arguments() -> None:
    settings = pytest.importorskip("imgfeed_train.flags")
    (job,) = documents("trainjob.yaml")
    assert job["spec"]["runtimeRef"] == {"kind": "TrainingRuntime", "name": documents("runtime.yaml")[0]["metadata"]["name"]}
    (node,) = training_pod()["containers"]
    assert node["command"][:3] == ["torchrun", "-m", "imgfeed_train"]
    parsed = settings.parse([*node["command"][3:], *job["spec"]["trainer"]["args"]])
    mounts = {mount["name"]: mount["mountPath"] for mount in node["volumeMounts"]}
    assert Path(parsed.output).is_relative_to(mounts["runs"])
    assert parsed.resume == "auto"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_feed_serves_with_its_arguments(tmp_path: Path, overlay: str) -> None:
    """The sidecar's command line, with its folders and its port elsewhere, becomes healthy as the probe asks."""
    binary = Path(os.environ.get("IMGFEED_BIN", ROOT / "bin" / "imgfeed"))
    if not binary.exists():
        pytest.skip(f"no {binary}: make build")
    subprocess.run([binary.parent / "imgshard", "synth", tmp_path / "raw"], check=True, capture_output=True)
    subprocess.run(
        [binary.parent / "imgshard", "build", tmp_path / "raw", "-o", tmp_path / "data"], check=True, capture_output=True
    )
    (feed,) = training_pod(overlay)["initContainers"]
    probe = feed["startupProbe"]["httpGet"]
    words = " ".join(feed["args"])
    bucket = overlay.startswith("bucket")
    words = words.replace("--cache=/data", f"--cache={tmp_path / 'cache'}").replace(
        "--tls=/tls", f"--tls={certificates(tmp_path)}"
    )
    for there, here in (
        ("s3://BUCKET/imagenet" if bucket else "/data", tmp_path / "data"),
        ("/run/imgfeed", tmp_path),
        ("$(THREADS)", 1),
        ("0.0.0.0:9090", "127.0.0.1:0"),
    ):
        assert there in words
        words = words.replace(there, str(here))
    assert {port["name"]: port["containerPort"] for port in feed["ports"]}[probe["port"]] == 9090
    with subprocess.Popen([binary, *words.split()], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            page = next(line.split()[-1] for line in server.stdout if "metrics on" in line)
            assert answer(urllib.parse.urljoin(page, probe["path"])) == 200
            assert (tmp_path / "imgfeed.sock").exists()
        finally:
            server.terminate()
    assert server.returncode == 0


def certificates(folder: Path) -> Path:
    """Make the folder tls as docs/scaling.md says."""
    (commands,) = re.findall(r"```sh\n(mkdir tls\n.*?)```", (ROOT / "docs" / "scaling.md").read_text(), re.DOTALL)
    subprocess.run(["sh", "-ec", commands], cwd=folder, check=True, capture_output=True)
    return folder / "tls"


def test_feeders_have_what_feeds_look_for() -> None:
    deployment, service, scaler = documents("feeders/feeders.yaml")
    (feeder,) = deployment["spec"]["template"]["spec"]["containers"]
    (feed,) = training_pod("feeders/kustomization.yaml")["initContainers"]
    assert f"--feeders=dns:{service['metadata']['name']}:{service['spec']['ports'][0]['port']}" in feed["args"]
    assert f"--listen=:{service['spec']['ports'][0]['port']}" in feeder["args"]
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert {"name": "tls", "mountPath": "/tls", "readOnly": True} in feeder["volumeMounts"]
    assert {"name": "tls", "mountPath": "/tls", "readOnly": True} in feed["volumeMounts"]
    metric = "imgfeed_" + (HERE / "feeders" / "feeders.yaml").read_text().split("seriesQuery: imgfeed_")[1].split("_sum\n")[0]
    assert f"| `{metric}` | histogram |" in (ROOT / "docs" / "monitoring.md").read_text()


def test_parts_are_numbered_as_kubernetes_does(tmp_path: Path) -> None:
    """The commands of both jobs make the set of one build."""
    imgshard = Path(os.environ.get("IMGFEED_BIN", ROOT / "bin" / "imgfeed")).with_name("imgshard")
    if not imgshard.exists():
        pytest.skip(f"no {imgshard}: make build")
    parts, merge = documents("parts.yaml")
    count = parts["spec"]["completions"]
    subprocess.run([imgshard, "synth", tmp_path / "train"], check=True, capture_output=True)
    subprocess.run([imgshard, "build", tmp_path / "train", "-o", tmp_path / "one"], check=True, capture_output=True)
    for index, job in [*((i, parts) for i in reversed(range(count))), (0, merge)]:
        (container,) = job["spec"]["template"]["spec"]["containers"]
        words = " ".join(container["args"]).replace("/data/", f"{tmp_path}/").replace("$(JOB_COMPLETION_INDEX)", str(index))
        subprocess.run([imgshard, *words.split()], check=True, capture_output=True)

    def contents(folder: Path) -> dict[Path, bytes]:
        return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    assert contents(tmp_path / "train-shards") == contents(tmp_path / "one")


def answer(url: str) -> int:
    deadline = time.monotonic() + 10
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:
                return int(reply.status)
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.mark.skipif(bool(missing := needs.reason("kubectl")), reason=missing)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomization_names_the_images(tmp_path: Path, overlay: str) -> None:
    shutil.copytree(HERE, tmp_path / "kubernetes")
    path = tmp_path / "kubernetes" / "kustomization.yaml"
    text = path.read_text().replace("newName: ", "newName: registry.example/")
    component = f"components: [{overlay.partition('/')[0]}]"
    path.write_text(text.replace(f"# {component}", component) if overlay else text)
    done = subprocess.run(["kubectl", "kustomize", path.parent], capture_output=True, text=True, check=True)
    *others, runtime = sorted(yaml.safe_load_all(done.stdout), key=lambda document: str(document["kind"]))
    names = {
        "bucket": ["imgfeed-runs"],
        "feeders": [*["imgfeed-feeders"] * 2, "imgfeed-data", "imgfeed-runs", "imgfeed-feeders"],
    }
    assert [other["metadata"]["name"] for other in others] == names.get(
        overlay.partition("/")[0], ["imgfeed-data", "imgfeed-runs"]
    )
    assert runtime["kind"] == "TrainingRuntime"
    assert "image: registry.example/imgfeed:latest" in done.stdout
    assert "image: registry.example/imgfeed-trainer:latest" in done.stdout
    built = json.loads(json.dumps(pod_of(runtime)).replace("registry.example/", ""))
    assert built == training_pod(overlay), "the other tests change the runtime as kustomize does"


def test_the_tutorial_names_what_is_here(tmp_path: Path) -> None:
    """Its changes of the manifests put every image into the registry, and its commands name files and labels that are here."""
    shutil.copytree(HERE, tmp_path / "deploy" / "kubernetes")
    page = (ROOT / "docs" / "tutorials" / "kubernetes.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (changes,) = [block for block in blocks if block.startswith("sed ")]
    subprocess.run(["sh", "-ec", changes], cwd=tmp_path, check=True)
    for name, images in (("kustomization.yaml", 2), ("pack.yaml", 1)):
        text = (tmp_path / "deploy" / "kubernetes" / name).read_text()
        assert len(re.findall(r"(?:newName|image): registry\.example/imgfeed", text)) == images
        assert not re.search(r"(?:newName|image): imgfeed", text)
    commands = "".join(blocks)
    for path in re.findall(r"-[fk] (\S+)", commands.replace("-f -l", "")):
        assert (ROOT / path).exists(), path
    assert f"jobset-name={documents('trainjob.yaml')[0]['metadata']['name']}" in commands
    pod = training_pod()
    assert f" -c {pod['containers'][0]['name']}\n" in commands
    (port,) = pod["initContainers"][0]["ports"]
    assert commands.endswith(f" {port['containerPort']}\n")
