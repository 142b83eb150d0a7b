package testenv

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A failing test keeps its failure.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, values ...any) {
	f.text = fmt.Sprintf(format, values...)
	runtime.Goexit()
}

// TestUntil waits for a condition that comes, and for one that doesn't.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		Until(t, func() bool { return time.Since(begun) >= time.Second })
		f, ended := &failing{TB: t}, make(chan bool)
		go func() {
			defer close(ended)
			Until(f, func() bool { return false })
		}()
		<-ended
		if took := time.Since(begun); !strings.HasPrefix(f.text, "the condition did not come in 1m0s:\ngoroutine ") || took > 62*time.Second {
			t.Errorf("%v, %q", took, f.text)
		}
	})
}
