#!/bin/sh
# Runs every fuzz target of every package for a time, one after the other, and says how many inputs each was given, and all:
#
#   scripts/fuzz.sh 30s [go]
#
# What fails is written to the package's testdata/fuzz: it belongs into the commit that repairs it.
set -eu
time=$1
go=${2:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cd "$(dirname "$0")/.."

# go test -list prints a package's targets, and then the package: "FuzzRead", "ok  <tab>package<tab>0.01s".
"$go" test -list '^Fuzz' ./... >"$log"
targets=$(awk '/^Fuzz/ { names[n++] = $1 } /^ok/ { for (i = 0; i < n; i++) print $2 " " names[i]; n = 0 }' "$log")
[ -n "$targets" ] || { echo "fuzz: no targets found"; exit 1; }

failed=
sum=0
printf '%12s  %s\n' executions target
while read -r package name; do
	target="${package#github.com/imgfeed/imgfeed/} $name"
	# Without a limit the time goes into making the first new input smaller, by up to a minute. And when the time is up in the middle of an
	# input, go test may end with just "context deadline exceeded", though nothing has failed.
	if "$go" test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 50x "$package" >"$log" 2>&1 </dev/null ||
		{ grep -qx '    context deadline exceeded' "$log" && ! grep -qE 'Failing input|seed corpus entry|panic|hung or terminated' "$log"; }; then
		# fuzz: elapsed: 3s, execs: 325017 (108336/sec), new interesting: 11 (total: 202)
		count=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$log" | tail -n 1)
		printf '%12s  %s\n' "$count" "$target"
		sum=$((sum + ${count:-0}))
	else
		cat "$log"
		failed="$failed
  $target"
	fi
done <<END
$targets
END
printf '%12s  %s\n' "$sum" 'in all'
[ -z "$failed" ] || { echo "fuzz: failed:$failed"; exit 1; }
