#!/bin/sh
# Runs tests of Python: the quick ones, JOBS at a time where pytest-xdist is; then, with LONG=1, those that are marked long, one at a time:
# they start processes of their own, and some of them measure.
#
#   [LONG=1] [JOBS=2] scripts/pytests.sh PYTHON REPORT.xml [argument of pytest]...
#
# REPORT.xml is of the quick ones, REPORT-long.xml of the others.
set -u
python=$1
report=$2
shift 2
parallel=
if [ "${JOBS:-1}" -gt 1 ] && "$python" -c 'import xdist' 2>/dev/null; then
	parallel="-n $JOBS --dist worksteal"
fi
rm -f "$report" "${report%.xml}-long.xml"

# run MARKS REPORT ARGUMENTS: without tests of that kind, which pytest calls 5, nothing fails.
run() {
	marks=$1 to=$2
	shift 2
	"$python" -m pytest -m "$marks" --junitxml "$to" "$@" || [ $? = 5 ]
}

failed=0
# shellcheck disable=SC2086 # two options
run 'not long' "$report" $parallel "$@" || failed=1
if [ -n "${LONG-}" ]; then
	run long "${report%.xml}-long.xml" "$@" || failed=1
fi
exit $failed
