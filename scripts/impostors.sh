#!/bin/sh
# Runs the tests that use programs of internal/testenv/programs.json, with a PATH on which each of these is another program
# that fails: they are to be skipped.
#
#   scripts/impostors.sh PYTHON
set -eu
cd "$(dirname "$0")/.."
python=$(readlink -f "$(dirname "$1")")/$(basename "$1")
folder=$PWD/build/impostors
rm -rf "$folder"
mkdir -p "$folder"
"$python" - "$folder" <<'PROGRAM'
import json, pathlib, sys

for name, program in json.loads(pathlib.Path("internal/testenv/programs.json").read_text()).items():
    for command in program["commands"] if name != "go" else ():
        path = pathlib.Path(sys.argv[1], command)
        path.write_text(f"#!/bin/sh\necho '{program['name']} is not installed here: {program['says']}' >&2\nexit 1\n")
        path.chmod(0o755)
PROGRAM
PATH="$folder:$PATH"
export PATH
# shellcheck disable=SC2046 # lists of packages and files
go test -short $(grep -rl --include='*_test.go' 'internal/testenv"' . | xargs -n 1 dirname | sort -u)
cd python
# shellcheck disable=SC2046
IMGFEED_BIN=$PWD/../bin/imgfeed PYTHONPATH=. "$python" -m pytest -m 'not long' $(grep -l '^import needs$' tests/*.py)
