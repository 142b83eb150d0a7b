package testenv

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

// Until waits for a condition. Where it does not come in a minute, however busy the machine is, the test ends and shows what all
// goroutines do.
func Until(t testing.TB, is func() bool) {
	t.Helper()
	const limit = time.Minute
	for deadline := time.Now().Add(limit); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("the condition did not come in %v:\n%s", limit, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// UnderRace reports whether the tests are built with the race detector, which allocates memory of its own.
func UnderRace() bool {
	build, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
