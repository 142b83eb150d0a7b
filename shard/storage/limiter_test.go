package storage

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestGateBounds never has more requests under way than the limit, and forgets none.
func TestGateBounds(t *testing.T) {
	g := newRequestLimiter(20)
	var now, most, all atomic.Int64
	var done sync.WaitGroup
	for range 500 {
		done.Go(func() {
			g.enter()
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			all.Add(1)
			now.Add(-1)
			g.leave()
		})
	}
	done.Wait()
	if most.Load() > 20 || all.Load() != 500 || g.inFlight != 0 || len(g.queue) != 0 {
		t.Errorf("%d at a time of 20, %d of 500; %d are left", most.Load(), all.Load(), g.inFlight)
	}
	g.backOff()
	g.backOff() // at the same time as the first
	lowered := g.limit
	for range 200 {
		g.enter()
		g.leave()
	}
	if lowered != 15 || g.limit != 20 {
		t.Errorf("the limit falls to %d, and rises to %d", lowered, g.limit)
	}
	c := NewClient()
	c.SetRequestsMax(3) // TestClientsShareNothing checks that limit
	if c.SetRequestsMax(0); c.RequestsMax() != requestsFirst {
		t.Error(c.RequestsMax())
	}
}
