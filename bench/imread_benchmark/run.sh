#!/bin/sh
# Runs imread_benchmark with imgfeed beside its own decoders, on one core and with two workers, and prints a table.
# Usage: bench/imread_benchmark/run.sh CHECKOUT PYTHON IMAGES OUT
#   CHECKOUT  imread_benchmark with imgfeed.patch applied      PYTHON  one that has it installed, and imgfeed
#   IMAGES    a folder of JPEG files                           OUT     a folder to make, for the harness's packages and results
# TURBOJPEG=/path/to/lib names the folder of libturbojpeg.so.0 3.0 or later, if the system's is older. README.md says the rest.
set -eu
checkout=$(realpath "$1") python=$(realpath -s "$2") images=$(realpath "$3")
here=$(cd "$(dirname "$0")" && pwd)
mkdir "$4"
cd "$4"
export LD_LIBRARY_PATH="${TURBOJPEG:-}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
revision=$(git -C "$checkout" rev-parse HEAD)
harness() { "$python" -m imread_benchmark.cli "$@" >>log.txt; }
harness dataset package --name sample --workload sample="$images" --output-root packages --provenance-source local
package=$(realpath packages/*/package.json)
harness platform capture --output platform.json --machine-type local --location local
# The harness makes environments by uv, of its lock file, from PyTorch's own index. This describes the one that is here instead.
"$python" - "$checkout" "$revision" <<'PYTHON'
import sys
from imread_benchmark.environments import descriptor
checkout, revision = sys.argv[1:]
here = descriptor.capture_current_environment(
    lock_path=f"{checkout}/uv.lock", project_path=f"{checkout}/pyproject.toml",
    dependency_group="mainstream", runner_revision=revision,
)
descriptor.write_environment_descriptor("environment.json", here)
PYTHON
for plan in one-core two-workers; do
    harness plan instantiate "$here/$plan.yaml" --package-descriptor "$package" --output-dir "$plan"
    cores=0-1
    [ "$plan" = one-core ] && cores=1
    taskset -c "$cores" "$python" -m imread_benchmark.cli campaign run "$plan/sample.yaml" --package-descriptor "$package" \
        --environment-descriptor environment.json --platform-descriptor platform.json --artifact-root "$plan/artifacts" \
        --attempts-root "$plan/attempts" --runner-revision "$revision" --worker-python "$python" >>log.txt
done
"$python" - <<'PYTHON'
import json
import statistics
from pathlib import Path

rates: dict[str, dict[str, list[float]]] = {}
columns = ("decode-memory", "loader-supply, no worker", "loader-supply, two workers")
for summary in Path().glob("*/artifacts/runs/*/summary.json"):
    config = json.loads(summary.with_name("config.json").read_text())
    column = columns[0 if config["num_workers"] is None else 1 if config["num_workers"] == 0 else 2]
    rate = json.loads(summary.read_text())["statistics"]["images_per_second"]["median"]
    rates.setdefault(config["decoder_id"], {}).setdefault(column, []).append(rate)
print("| images/s | " + " | ".join(columns) + " |", "|---|--:|--:|--:|", sep="\n")
for decoder, by_column in sorted(rates.items()):
    cells = [f"{statistics.median(r):,.0f} ({min(r):,.0f} to {max(r):,.0f})" if (r := by_column.get(c)) else "–" for c in columns]
    print(f"| {decoder} | " + " | ".join(cells) + " |")
here = {d["name"]: d["version"] for d in json.loads(Path("environment.json").read_text())["distributions"]}
names = ("imgfeed", "opencv-python-headless", "pillow", "simplejpeg", "torch", "torchvision", "pyturbojpeg")
print("\n- " + ", ".join(f"{name} {here[name]}" for name in names))
cpu = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()]
keys = [line.partition(":")[0].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()]
name, family, model = (cpu[keys.index(key)] for key in ("model name", "cpu family", "model"))
print(f"- processor: {name} (family {family}, model {model}); core 1, for the last column cores 0 and 1")
print("- medians of 2 runs in random order, each the median of 3 passes; lowest and highest run")
PYTHON
