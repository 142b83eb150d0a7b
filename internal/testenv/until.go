package testenv

import (
	"runtime"
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
