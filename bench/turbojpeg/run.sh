#!/bin/sh
# Compares the decoder of internal/image/jpeg with TurboJPEG, one thread each, in one run: images a second of full decodes to RGB.
# Usage: bench/turbojpeg/run.sh FOLDER [CORE]      FOLDER holds *.JPEG files; CORE is the processor to pin to (default 0)
set -e
photos=$(realpath "${1:?folder of .JPEG files}")
core=${2:-0}
cd "$(dirname "$0")"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cc -O2 -o "$out/decode" decode.c -lturbojpeg
(cd ../../internal/image/jpeg && GOEXPERIMENT=simd go test -c -o "$out/jpeg.test" .)
taskset -c "$core" "$out/decode" 5 "$photos"/*.JPEG
(cd ../../internal/image/jpeg &&
    IMGFEED_TEST_IMAGES=$photos GOMAXPROCS=1 taskset -c "$core" "$out/jpeg.test" -test.run '^$' -test.bench Decode -test.benchtime 2s)
taskset -c "$core" "$out/decode" 5 "$photos"/*.JPEG
