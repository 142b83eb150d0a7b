package loader

import (
	"testing"
	"time"
)

// TestStopwatch reads a wait that lasts and one that is over. What does not hold cannot end.
func TestStopwatch(t *testing.T) {
	onTestClock(t, func(t *testing.T) {
		var slots SlotPool
		check := func(want Waits) {
			t.Helper()
			if got := slots.Waits(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		check(Waits{})
		slots.idle.set(true)
		time.Sleep(2 * time.Second)
		check(Waits{Client: 2 * time.Second, ClientNow: true})
		slots.idle.set(false)
		time.Sleep(time.Second)
		slots.idle.set(false)
		slots.reads.set(true)
		check(Waits{Client: 2 * time.Second, ReadsNow: true})
		time.Sleep(time.Second)
		slots.reads.set(false)
		slots.idle.set(true)
		time.Sleep(time.Second)
		check(Waits{Client: 3 * time.Second, Reads: time.Second, ClientNow: true})
	})
}
