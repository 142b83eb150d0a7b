#!/bin/sh
# Makes an environment with torch 2 and the programs that the trainer's and the programs' tests run:
#
#   scripts/torch.sh .venv-torch
#
# torch for x86-64 comes with CUDA's libraries: 3 GB to fetch and 5.5 GB on disk. Without the room this fails, and
# `make test` skips those tests and says so.
set -eu
folder=$1
cd "$(dirname "$0")/.."
packages="torch torchvision tensorboard tyro fsspec safetensors wandb nvidia-ml-py s3fs moto[server] pytest pytest-xdist"
# The environment is made again when the lists of packages change.
[ "$folder/.ready" -nt python/requirements-programs.txt ] && [ "$folder/.ready" -nt scripts/torch.sh ] && exit
free=$(($(df --output=avail -B1G . | tail -n 1)))
if [ "$free" -lt 9 ]; then
	echo "torch 2 is not installed: it takes 6 GB of the disk, and $free GB are free"
	exit 1
fi
echo "making $folder with torch 2: a minute or more, 6 GB of the disk (TORCH=no leaves it out)"
rm -rf "$folder"
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check uv
# shellcheck disable=SC2086 # a list of packages
"$folder/bin/uv" pip install --quiet --python "$folder/bin/python" $packages -r python/requirements-programs.txt
touch "$folder/.ready"
