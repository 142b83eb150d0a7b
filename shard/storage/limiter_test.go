package storage

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestGateFindsTheLink has the gate look for the requests of links, whose rate grows with them up to the link's.
func TestGateFindsTheLink(t *testing.T) {
	const bytes = 110e3
	for _, link := range []struct {
		name        string
		rate, delay float64
		least, most int
	}{
		{"1 Gbit/s at 5 ms", 125e6, 0.005, 64, 64},
		{"1 Gbit/s at 100 ms", 125e6, 0.1, 96, 216},
		{"10 Gbit/s at 30 ms", 1.25e9, 0.03, 324, 729},
		{"10 Gbit/s at 100 ms", 1.25e9, 0.1, 1024, 1024},
	} {
		s := limitSearch{limit: requestsFirst}
		for range 200 {
			s.measured(min(float64(s.limit)*bytes/link.delay, link.rate))
		}
		for s.rest == 0 { // a trial
			s.measured(min(float64(s.limit)*bytes/link.delay, link.rate))
		}
		if s.limit < link.least || s.limit > link.most {
			t.Errorf("%s: %d requests, want %d to %d", link.name, s.limit, link.least, link.most)
		}
		before := s.limit
		for range 100 {
			s.backOff()
		}
		if s.limit != requestsMin || before <= requestsMin {
			t.Errorf("%s: %d requests after many refusals", link.name, s.limit)
		}
	}
}

// TestGateBounds never has more requests under way than the limit, and forgets none.
func TestGateBounds(t *testing.T) {
	g := requestLimiter{search: limitSearch{limit: 7}, pinned: true}
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
			g.leave(10)
		})
	}
	done.Wait()
	if most.Load() > 7 || all.Load() != 500 || g.inFlight != 0 || len(g.queue) != 0 {
		t.Errorf("%d at a time of 7, %d of 500; %d are left", most.Load(), all.Load(), g.inFlight)
	}
	c := NewClient()
	c.PinRequests(3) // TestClientsShareNothing checks that limit
	if c.PinRequests(0); c.RequestsMax() != requestsFirst {
		t.Error(c.RequestsMax())
	}
}
