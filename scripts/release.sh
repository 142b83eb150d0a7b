#!/bin/sh
# Makes what a release consists of, in dist/release: for linux on amd64 and arm64 an archive with the program under both names, its manual
# pages and completions, and a wheel; of what the program is made (CycloneDX); the sdist; and SHA256SUMS. The same commit, toolchain and
# hatchling give the same bytes. make release sets the variables:
#
#   GO, PYTHON, VERSION, LDFLAGS, and SOURCE_DATE_EPOCH, the time that everything bears
set -eu
cd "$(dirname "$0")/.."
out=$PWD/dist/release
work=$PWD/build/release
rm -rf "$out" "$work"
mkdir -p "$out" "$work"
export CGO_ENABLED=0 GOOS=linux SOURCE_DATE_EPOCH

# The generator is pinned, with all that it is made of, in a module of its own.
(cd scripts/sbom && GOOS='' GOEXPERIMENT='' "$GO" build -trimpath -buildvcs=false -o "$work/cyclonedx-gomod" \
	github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod)
made=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

# The pages are the same for both machines; only a program of this one can be asked for them.
GOOS='' "$GO" build -trimpath -ldflags "$LDFLAGS" -o "$work/imgfeed" ./cmd/imgfeed
"$work/imgfeed" manual "$work/manual"
"$work/imgfeed" imgshard manual "$work/manual"

for arch in amd64 arm64; do
	case $arch in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; esac
	name=imgfeed-$VERSION-linux-$arch
	mkdir -p "$work/$name"
	GOARCH=$arch "$GO" build -trimpath -ldflags "$LDFLAGS" -o "$work/$name/imgfeed" ./cmd/imgfeed
	ln -s imgfeed "$work/$name/imgshard"
	"$work/cyclonedx-gomod" bin -json -std -noserial -version "v$VERSION" -output "$work/bom.json" "$work/$name/imgfeed"
	sed "s/\"timestamp\": \"[^\"]*\"/\"timestamp\": \"$made\"/" "$work/bom.json" >"$out/$name.cdx.json"
	cp -R LICENSE NOTICE README.md CHANGELOG.md "$work/manual/man" "$work/manual/completions" "$work/$name"
	tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go=rX -cf - "$name" |
		gzip -9n >"$out/$name.tar.gz"
	(cd python && IMGFEED_WHEEL_BIN=$work/$name IMGFEED_WHEEL_MACHINE=$machine IMGFEED_WHEEL_MANUAL=$work/manual \
		"$PYTHON" -m hatchling build -t wheel -d "$out")
done
(cd python && "$PYTHON" -m hatchling build -t sdist -d "$out")
(cd "$out" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
ls -l "$out"
