#!/bin/sh
# Installs the wheel for this machine out of a folder into a fresh environment, and packs, serves and iterates with it:
#
#   scripts/try-wheel.sh dist/release [python3]
set -eu
folder=$(cd "$1" && pwd)
python=${2:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" # where no source is that could be imported instead
unset IMGFEED_BIN PYTHONPATH || true

"$python" -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check "$folder"/imgfeed-*_"$(uname -m)".whl
env/bin/imgfeed version
env/bin/imgshard synth data --classes 2 --train 20 --val 0 --size 64
env/bin/imgshard build data/train -o shards
env/bin/imgshard verify shards --images
env/bin/python - <<'END'
from imgfeed import DataLoader

with DataLoader("shards", batch_size=16, transform="train", shuffle=True, seed=0, framework="numpy") as loader:
    samples = sum(len(labels) for _, labels in loader)
assert samples == 40, f"{samples} of 40 samples came"
END
env/bin/python -m imgfeed
test -s env/lib/python*/site-packages/imgfeed-*.dist-info/licenses/LICENSE
test -s env/lib/python*/site-packages/imgfeed-*.dist-info/licenses/NOTICE
test -s env/share/man/man1/imgfeed-serve.1
test -s env/share/bash-completion/completions/imgshard
echo "the wheel for $(uname -m) installs, packs and serves"
