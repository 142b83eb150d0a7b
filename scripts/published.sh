#!/usr/bin/env bash
# Brings the training programs of timm, torchvision and pytorch/examples, as published, to a folder: from GitHub, and torchvision's also
# from Debian's or Ubuntu's source package. python/tests/programs runs them with the patches in examples/. They are no part of this repository.
#
#   scripts/published.sh FOLDER
set -euo pipefail
out=${1:?"scripts/published.sh FOLDER"}
mkdir -p "$out"
part=$(mktemp -d)
trap 'rm -rf "$part"' EXIT

# clone REPOSITORY TAG FOLDER...: one release, and of it the files at its top and in some folders.
clone() {
	local to="$part/${1#*/}"
	timeout 120 git -c advice.detachedHead=false clone --quiet --depth 1 --filter=blob:none --sparse \
		--branch "$2" "https://github.com/$1" "$to" 2>"$part/error" || return 1
	git -C "$to" sparse-checkout set "${@:3}"
	mv "$to" "$out/"
}

# The release that this system packages, whose own sources apt knows.
vision_of_apt() {
	local lists="$part/lists"
	mkdir -p "$lists/partial" "$part/vision"
	cat /etc/apt/sources.list.d/{debian,ubuntu}.sources 2>/dev/null | sed 's/^Types:.*/Types: deb-src/' >"$part/src.sources"
	[ -s "$part/src.sources" ] || return 1
	local options=(-qq -o Dir::Etc::SourceList="$part/src.sources" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$lists"
		-o Dir::Cache="$part" -o APT::Sandbox::User=root)
	timeout 120 apt-get "${options[@]}" update &&
		(cd "$part" && timeout 120 apt-get "${options[@]}" source --download-only --tar-only pytorch-vision) &&
		tar xf "$part"/pytorch-vision_*.orig.tar.* -C "$part/vision" --strip-components=1 --wildcards "*/references/classification" "*/references/detection" "*/references/segmentation" &&
		mv "$part/vision" "$out/"
}

[ -d "$out/pytorch-image-models" ] || clone huggingface/pytorch-image-models v1.0.28 convert ||
	echo "timm's train.py could not be fetched: $(tail -n 1 "$part/error")"
[ -d "$out/vision" ] || clone pytorch/vision v0.21.0 references/{classification,detection,segmentation} || vision_of_apt ||
	echo "torchvision's references could not be fetched"
[ -d "$out/examples" ] || clone pytorch/examples main imagenet ||
	echo "imagenet/main.py of pytorch/examples could not be fetched: $(tail -n 1 "$part/error")"
ls -d "$out"/*/ 2>/dev/null || true
