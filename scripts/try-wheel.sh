#!/bin/sh
# Installs a release as pip does from PyPI: from an index on this machine that has the packages of a folder. The wheel packs, serves and
# iterates; then, where Go is, the sdist is installed:
#
#   scripts/try-wheel.sh dist/release [python3]
set -eu
folder=$(cd "$1" && pwd)
python=${2:-python3}
work=$(mktemp -d)
index=
trap '[ -z "$index" ] || kill "$index"; rm -rf "$work"' EXIT
cd "$work" # where no source is that could be imported instead
unset IMGFEED_BIN PYTHONPATH || true

"$python" -m venv tools
tools/bin/python -m pip install --quiet --disable-pip-version-check twine pypiserver
mkdir packages
cp "$folder"/*.whl "$folder"/*.tar.gz packages
rm -f packages/*-linux-*.tar.gz # the archives
tools/bin/python -m twine check --strict packages/*
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
tools/bin/pypi-server run -i 127.0.0.1 -p "$port" --disable-fallback packages 2>index.log &
index=$!
until "$python" -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$port/health')" 2>/dev/null; do
	kill -0 "$index" || { cat index.log; exit 1; }
done

# from_index ENVIRONMENT [FLAG...] makes an environment and installs imgfeed there. numpy comes from pip's own index.
version=$(basename packages/*.tar.gz .tar.gz)
from_index() {
	"$python" -m venv "$1"
	environment=$1
	shift
	"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --extra-index-url "http://127.0.0.1:$port/simple" \
		"$@" "imgfeed==${version#imgfeed-}"
	"$environment/bin/imgfeed" version
}

from_index env --only-binary imgfeed
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

if command -v go >/dev/null; then
	from_index built --no-binary imgfeed
	built/bin/imgshard verify shards
	test -s built/share/man/man1/imgshard-build.1
	echo "the sdist installs"
fi
