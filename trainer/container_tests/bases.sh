#!/usr/bin/env bash
# Makes the base images that `make images` otherwise pulls, where no registry can be reached: a Debian with this machine's Go, and
# one with the torch of a Python on this machine. It needs root, docker, debootstrap, a Debian mirror, and some 10 GB on disk.
#
#   trainer/container_tests/bases.sh /opt/torch/bin/python
#   make test-containers GO_IMAGE=imgfeed-test/golang BASE=imgfeed-test/torch DOCKER_FLAGS=--network=host
#
# SUITE is the Debian release: its Python must have the version of the one that is named. triton is left out: only
# torch.compile on a GPU wants it.
set -euo pipefail
python=${1:?usage: $0 PYTHON, one that has torch}
suite=${SUITE:-bookworm}
docker=${DOCKER:-docker}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
packages=$("$python" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])')
goroot=$(go env GOROOT)

debootstrap --variant=minbase --include=python3,python3-pip,ca-certificates "$suite" "$work/root" >"$work/log" || { tail "$work/log"; exit 1; }
there=$(chroot "$work/root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
[ "$there" = "$version" ] || { echo "$0: $suite has Python $there, $python is $version: set SUITE" >&2; exit 1; }
# The machine's certificates, among which may be those of a proxy.
[ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$work/root/etc/ssl/certs/"

# One stream holds the root's files, whose names begin with a dot, and others, which are moved to their folders.
base=(tar -c -C "$work/root" --exclude=./dev .)
"${base[@]}" -C "$goroot/.." --transform "s,^$(basename "$goroot"),./usr/local/go,S" "$(basename "$goroot")" |
	"$docker" import -c 'ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' - imgfeed-test/golang

find "$packages" -mindepth 1 -maxdepth 1 -printf '%f\n' |
	grep -vxE 'triton|imgfeed.*|pip|pip-.*|setuptools.*|_distutils_hack|distutils-precedence.pth|__pycache__|\..*' >"$work/packages"
"${base[@]}" -C "$packages" --exclude=__pycache__ --transform "s,^\([^.]\),./usr/local/lib/python$version/dist-packages/\1,S" -T "$work/packages" |
	"$docker" import -c 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt' - imgfeed-test/torch
