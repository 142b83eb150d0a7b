#!/usr/bin/env bash
# Trains a few steps from a bucket: starts a server of S3 on this machine (Versity's gateway, which it installs), puts a made-up set there,
# reads two epochs of it, the second from the cache, and trains where torch 2 is. `make demo-bucket` runs it.
#
#   PYTHON=python with imgfeed  TORCH_PYTHON=python with torch 2  scripts/demo_bucket.sh FOLDER
set -euo pipefail
out=$(mkdir -p "${1:?"scripts/demo_bucket.sh FOLDER"}" && cd "$1" && pwd)
bin=$(cd "$(dirname "$0")/../bin" && pwd)
port=${PORT:-7070}
rm -rf "$out"/{raw,gateway,cache,run}
[ -x "$out/versitygw" ] || GOEXPERIMENT= GOBIN="$out" go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

"$bin/imgshard" synth "$out/raw" --classes 10 --train 50 --val 10
"$bin/imgshard" build "$out/raw" -o "$out/gateway/demo"  # the gateway keeps buckets as folders: one named demo
export AWS_ACCESS_KEY_ID=demo AWS_SECRET_ACCESS_KEY=demosecret AWS_REGION=us-east-1 AWS_ENDPOINT_URL=http://127.0.0.1:$port
ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY "$out/versitygw" --port "127.0.0.1:$port" posix "$out/gateway" >"$out/gateway.log" 2>&1 &
trap 'kill $!' EXIT
until "$bin/imgshard" ls s3://demo/train >/dev/null 2>&1; do kill -0 $! || { cat "$out/gateway.log"; exit 1; }; sleep 0.2; done

"$bin/imgshard" verify s3://demo/train
"$PYTHON" - "$out/cache" <<'END'
import sys, time
from imgfeed import DataLoader

with DataLoader("s3://demo", split="train", batch_size=50, transform="train", shuffle=True, cache=sys.argv[1]) as loader:
    for epoch in range(2):
        begin, images = time.perf_counter(), sum(len(labels) for _, labels in loader)
        print(f"epoch {epoch}: {images} images in {time.perf_counter() - begin:.2f} s")
END
"$bin/imgfeed" cache ls "$out/cache"
if "$TORCH_PYTHON" -c 'import torch, timm; assert int(torch.__version__.split(".")[0]) >= 2' 2>/dev/null; then
	"$TORCH_PYTHON" -m imgfeed_train --data s3://demo --arch timm/test_vit --size 64 --batch-size 50 --epochs 1 --output "$out/run"
fi
