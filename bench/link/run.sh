#!/usr/bin/env bash
# Compares first and second epochs from a store behind a link of 1 Gbit/s with 30 ms of delay: imgfeed, LitData, MosaicML Streaming and WebDataset, each in its own
# format, on the photographs of a folder packed ten times over. The peers hand over files as they are; imgfeed decodes them, crops and resizes.
#
#   PYTHON=python with imgfeed, torch, litdata, mosaicml-streaming, webdataset  sudo bench/link/run.sh PHOTOGRAPHS OUT [ROUNDS]
#
# It needs nginx, iproute2, and toxiproxy-server and toxiproxy-cli (github.com/Shopify/toxiproxy/v2) on PATH. The store is nginx in a network namespace: GetObject
# of S3 is what it does anyway. Then it prints a table of medians.
set -euo pipefail
photographs=$1 out=$2 rounds=${3:-5}
here=$(cd "$(dirname "$0")" && pwd)
imgshard=$here/../../bin/imgshard
mkdir -p "$out" && cd "$out" && out=$PWD

[ -d data/lit ] || "$PYTHON" "$here/pack.py" "$photographs" data
[ -d data/ours ] || "$imgshard" build data/wds/train -o data/ours/train

cleanup() { ip netns pids store | xargs -r kill; ip netns del store; kill %1; }
trap cleanup EXIT
ip netns add store
ip link add store0 type veth peer name store1
ip link set store1 netns store
ip addr add 10.99.0.1/24 dev store0
ip link set store0 up
ip netns exec store ip addr add 10.99.0.2/24 dev store1
ip netns exec store ip link set store1 up
tc qdisc add dev store0 root tbf rate 1gbit burst 256kb latency 50ms
ip netns exec store tc qdisc add dev store1 root tbf rate 1gbit burst 256kb latency 50ms
cat >nginx.conf <<END
worker_processes 1; pid $out/nginx.pid; error_log $out/error.log; user root;
events { worker_connections 4096; }
http {
	access_log $out/access.log; sendfile on; tcp_nopush on; keepalive_requests 100000;
	server { listen 10.99.0.2:80; root $out/data; if (\$args ~ "list-type") { return 403; } }
}
END
toxiproxy-server -host 127.0.0.1 -port 8474 >toxiproxy.log 2>&1 &
ip netns exec store nginx -c "$out/nginx.conf"
sleep 1
toxiproxy-cli -host http://127.0.0.1:8474 create -l 127.0.0.1:7070 -u 10.99.0.2:80 store
toxiproxy-cli -host http://127.0.0.1:8474 toxic add -t latency -a latency=30 store

: >results.jsonl
for _ in $(seq "$rounds"); do
	for system in imgfeed imgfeed-index litdata streaming webdataset; do
		rm -rf cache index /dev/shm/0*
		timeout 120 "$PYTHON" "$here/epoch.py" $system "$out" >>results.jsonl 2>error.txt || echo "$system failed: $(tail -n 1 error.txt)"
	done
done
lscpu | grep 'Model name'
"$PYTHON" "$here/epoch.py" table "$out"
