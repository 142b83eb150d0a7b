package loader

import (
	"math"
	"testing"
	"time"
)

func TestIdleMeter(t *testing.T) {
	var r idleMeter
	at := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	check := func(now, want float64) {
		t.Helper()
		if share := r.share(at(now)); math.Abs(share-want) > 1e-6 {
			t.Errorf("after %v s the share is %v, want %v", now, share, want)
		}
	}
	check(10, 0)
	r.begin(at(10.2))
	check(10.4, 1) // as it is now
	r.end(at(10.6))
	r.end(at(10.7)) // nothing to end
	check(12, 0.2)
	r.begin(at(14))
	check(14, 0.1)
	check(16, 0.4) // the last question of this window
	check(18, 4.4/8)
	check(21, 1)  // since the question at 16
	check(25, 1)  // no question for too long
	r.end(at(25)) // so that all is forgotten
	check(25.5, 0)
	check(27, 0)
}

// TestIdleShareOfShortEpochs has epochs of two seconds, each of which begins with half a second of work or ends with half a second of
// waiting.
func TestIdleShareOfShortEpochs(t *testing.T) {
	for _, clientBound := range []bool{true, false} {
		var r idleMeter
		for ms := 1; ms < 60_000; ms++ {
			now := time.Duration(ms) * time.Millisecond
			if phase := ms % 2000; clientBound && phase == 500 || !clientBound && phase == 1500 {
				r.begin(now)
			} else if phase == 0 {
				r.end(now)
			}
			if ms%100 == 50 {
				if share := r.share(now); ms > 4000 && (share > idleShare) != clientBound {
					t.Errorf("after %v the share is %.2f", now, share)
				}
			}
		}
	}
}
