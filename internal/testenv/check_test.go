package testenv

import (
	"fmt"
	"runtime"
	"testing"
)

// A checked test keeps what is reported, and whether it goes on.
type checked struct {
	testing.TB
	said   string
	goesOn bool
}

func (c *checked) Helper()                             {}
func (c *checked) Errorf(format string, values ...any) { c.said = fmt.Sprintf(format, values...) }
func (c *checked) Fatalf(format string, values ...any) {
	c.Errorf(format, values...)
	runtime.Goexit()
}

// TestChecks has conditions that hold, which say nothing, and others.
func TestChecks(t *testing.T) {
	for _, tt := range []struct {
		check  func(testing.TB)
		want   string
		goesOn bool
	}{
		{func(t testing.TB) { Check(t, true, "x"); Require(t, true, "x"); DeepEqual(t, []int{1}, []int{1}, "x") }, "", true},
		{func(t testing.TB) { Check(t, false, "%d apples", 3) }, "3 apples", true},
		{func(t testing.TB) { Require(t, false, "%d apples", 3) }, "3 apples", false},
		{func(t testing.TB) { DeepEqual(t, []int{1}, []int{2}, "the apples of %s", "Eve") }, "the apples of Eve: [1], want [2]", true},
	} {
		c, ended := &checked{TB: t}, make(chan bool)
		go func() {
			defer close(ended)
			tt.check(c)
			c.goesOn = true
		}()
		<-ended
		Equal(t, c.said, tt.want, "the report")
		Equal(t, c.goesOn, tt.goesOn, "the test goes on after %q", c.said)
	}
}

// closing counts how often it is closed.
type closing struct{ times *int }

func (c closing) Close() error {
	*c.times++
	return nil
}

// TestOpened closes what a test has opened when it ends.
func TestOpened(t *testing.T) {
	times := 0
	t.Run("opens", func(t *testing.T) {
		Opened(closing{&times}, nil)(t)
		Equal(t, times, 0, "while the test runs: times that it is closed")
	})
	Equal(t, times, 1, "after the test: times that it is closed")
}
