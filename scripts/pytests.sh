#!/bin/sh
# Runs tests of Python: the quick ones, JOBS at a time where pytest-xdist is; with LONG=1 then those that are marked long, one at a time:
# they start processes of their own, and some of them measure. With LONG=only those alone.
#
#   [LONG=1] [JOBS=2] scripts/pytests.sh PYTHON REPORT.xml [argument of pytest]...
#
# REPORT.xml is of the quick ones, REPORT-long.xml of the others, which may run beside them in a call of their own.
set -u
python=$1
report=$2
shift 2
long_report=${report%.xml}-long.xml
parallel=
if [ "${JOBS:-1}" -gt 1 ] && "$python" -c 'import xdist' 2>/dev/null; then
	parallel="-n $JOBS --dist worksteal"
fi
# torch would start a thread for each core in every process: where cores are busy, these wait for each other at all of their cost.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

# run MARKS REPORT ARGUMENTS: without tests of that kind, which pytest calls 5, nothing fails.
run() {
	marks=$1 to=$2
	shift 2
	"$python" -m pytest -m "$marks" --junitxml "$to" "$@" || [ $? = 5 ]
}

failed=0
if [ "${LONG-}" != only ]; then
	# shellcheck disable=SC2086 # two options
	run 'not long' "$report" $parallel "$@" || failed=1
fi
if [ -n "${LONG-}" ]; then
	run long "$long_report" "$@" || failed=1
fi
exit $failed
