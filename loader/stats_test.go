package loader

import (
	"math"
	"testing"
	"time"
)

func TestIdleMeter(t *testing.T) {
	var r idleMeter
	at := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	check := func(now, want float64, known bool) {
		t.Helper()
		if share, ok := r.share(at(now)); ok != known || math.Abs(share-want) > 1e-6 {
			t.Errorf("after %v s the share is %v, %v; want %v, %v", now, share, ok, want, known)
		}
	}
	r.begin(at(0.2))
	check(0.4, 0.5, false)
	r.end(at(0.6))
	r.end(at(0.7)) // nothing to end
	check(2, 0.2, true)
	r.begin(at(3))
	check(3.5, 1.0/3, true) // since the question before
	check(4, 0.5, true)
	check(5, 1, true)
}
