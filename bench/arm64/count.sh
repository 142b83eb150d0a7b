#!/bin/sh
# Counts instructions an image on arm64, on a machine of any kind, under QEMU's user-mode emulation: of imgfeed bench at the levels
# neon and generic, for eval and train, and of TurboJPEG's bare decode of the same files (Debian's library, decode.c).
# Then it says in which functions those of eval and train at level neon are.
#
# Usage: bench/arm64/count.sh FOLDER [SECONDS]     FOLDER holds *.JPEG files; SECONDS of emulation for each count (default 30)
#
# Needs Go, and of Debian 12: qemu-user binutils gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross, and that apt-get knows
# packages for arm64 (dpkg --add-architecture arm64 && apt-get update). Nothing is installed.
#
# A count is the difference of two runs, a short and a long one, by the difference of the images they made, so that the start
# counts for nothing. How busy the machine is does not matter.
set -e
photos=$(realpath "${1:?folder of .JPEG files}")
seconds=${2:-30}
cd "$(dirname "$0")/../.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export CGO_ENABLED=0 GOEXPERIMENT=simd GOTOOLCHAIN="$(sed -n 's/^toolchain //p' go.mod)"
go build -o "$out/" ./cmd/imgshard
GOARCH=arm64 go build -o "$out/" ./cmd/imgfeed
cc -O2 -Wall -shared -fPIC -o "$out/count.so" bench/arm64/count.c
(cd "$out" && apt-get -qq -o APT::Sandbox::User=root download libturbojpeg0:arm64 libturbojpeg0-dev:arm64 libc6:arm64 libgcc-s1:arm64)
for package in "$out"/*.deb; do dpkg-deb -x "$package" "$out/arm64"; done
aarch64-linux-gnu-gcc -O2 -I "$out/arm64/usr/include" -o "$out/decode" bench/arm64/decode.c \
    -L "$out/arm64/usr/lib/aarch64-linux-gnu" -l:libturbojpeg.so.0
mkdir -p "$out/photos/all" "$out/photos/one"
cp "$photos"/*.JPEG "$out/photos/all"
mv "$(find "$out/photos/all" -type f | head -1)" "$out/photos/one" # a dataset has two classes
"$out/imgshard" build "$out/photos" -o "$out/set" >/dev/null

# count FILE COMMAND...: the instructions of a command, whose output is left in FILE.
count() {
    file=$1
    shift
    qemu-aarch64 -L "$out/arm64" -plugin "$out/count.so,profile=$out/blocks" "$@" >"$file" 2>"$out/errors" || { cat "$out/errors" >&2; exit 1; }
    sed -n 's/^instructions //p' "$out/errors"
}

# report NAME INSTRUCTIONS IMAGES MORE-INSTRUCTIONS MORE-IMAGES
report() { awk -v n="$1" -v i="$2" -v k="$3" -v j="$4" -v m="$5" 'BEGIN {printf "%-28s %6.2f million instructions an image, of %d\n", n, (j-i)/(m-k)/1e6, m-k}'; }

# feed LEVEL TRANSFORM SECONDS: instructions and images of imgfeed bench.
feed() {
    instructions=$(IMGFEED_KERNELS=$1 GOMAXPROCS=1 count "$out/result" "$out/imgfeed" bench "$out/set" --transform "$2" --threads 1 --batch-size 1 \
        --warm-up 1ms --seconds "$3s" --json)
    echo "$instructions $(sed 's/.*"images":\([0-9]*\).*/\1/' "$out/result")"
}

images=$(find "$out/photos" -type f | wc -l)
once=$(count "$out/result" "$out/decode" 1 "$out"/photos/*/*)
twice=$(count "$out/result" "$out/decode" 2 "$out"/photos/*/*)
report "TurboJPEG, bare decode" "$once" 0 "$twice" "$images"
go tool nm -n "$out/imgfeed" | awk '$2 == "T" || $2 == "t" {print $1, $3}' >"$out/functions"
for level in generic neon; do
    for transform in eval train; do
        short=$(feed $level $transform $((seconds / 4 + 1)))
        long=$(feed $level $transform "$seconds")
        # shellcheck disable=SC2086
        report "imgfeed, $transform, $level" $short $long
        mv "$out/blocks" "$out/blocks-$transform" # the last level's stays
        echo "${long#* }" >"$out/images-$transform"
    done
done
for transform in eval train; do
    echo "$transform at level neon, million instructions an image by function:"
    # Blocks and functions in one sorted list: a block belongs to the function before it.
    { awk '{printf "%16s 0 %s\n", $1, $2}' "$out/functions"; awk '{printf "%16s 1 %d\n", $1, $2 * $3}' "$out/blocks-$transform"; } | LC_ALL=C sort |
        awk -v images="$(cat "$out/images-$transform")" '$2 == 0 {name = $3} $2 == 1 {sum[name] += $3}
            END {for (n in sum) if (sum[n] > images * 1e4) printf "%9.2f  %s\n", sum[n] / images / 1e6, n}' | sort -rn | head -20
done
