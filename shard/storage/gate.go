package storage

import (
	"sync"
	"time"
)

// A gate bounds how many requests for ranges are under way, of all files behind a network. How many a link wants is its rate times its delay, and the gate finds it by
// itself: while requests wait, it now and then allows half as many again, and keeps that only if more bytes come. So a link of 10 Gbit/s at 30 ms gets 350 for
// JPEGs of 110 KB. A storage that asks for fewer requests (429, 503) gets fewer.
type gate struct {
	mu       sync.Mutex
	queue    []chan struct{} // that wait, the first first
	underWay int
	pinned   bool
	search   gateSearch

	began   time.Time // of the period that is measured
	bytes   int64     // in it
	waiting bool      // requests waited all the time
}

const (
	requestsMin   = 8
	requestsFirst = 64
	requestsMax   = 1024
	gatePeriod    = time.Second
	// gateRest is how many periods a limit stays that more did not pay for.
	gateRest = 30
	// gateGain is how much faster it has to be with half as many requests again: half of that, were it not the link that is the limit.
	gateGain = 1.08
)

// gateSearch looks for the number of requests that pays.
type gateSearch struct {
	limit  int
	before int     // the limit that is compared with; 0: none
	rate   float64 // of that
	rest   int     // periods in which nothing is tried
}

// measured takes the bytes a second of a period in which requests waited.
func (s *gateSearch) measured(rate float64) {
	switch {
	case s.rest > 0:
		s.rest--
		return
	case s.before > 0 && rate < gateGain*s.rate:
		s.limit, s.before, s.rest = s.before, 0, gateRest
		return
	case s.limit == requestsMax:
		s.before, s.rest = 0, gateRest
		return
	}
	s.before, s.rate, s.limit = s.limit, rate, min(s.limit+s.limit/2, requestsMax)
}

// slower allows fewer requests.
func (s *gateSearch) slower() { s.limit, s.before, s.rest = max(requestsMin, s.limit*3/4), 0, gateRest }

// PinRequests sets how many requests are under way at most. With 0 the client finds that number itself.
func (c *Client) PinRequests(n int) {
	g := &c.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pinned, g.search.limit = n > 0, n
	if n == 0 {
		g.search = gateSearch{limit: requestsFirst}
	}
}

// RequestsMax returns how many requests for ranges may be under way at the moment.
func (c *Client) RequestsMax() int {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	return c.gate.search.limit
}

// enter waits for a place.
func (g *gate) enter() {
	g.mu.Lock()
	if g.underWay < g.search.limit {
		g.underWay++
		g.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	g.queue = append(g.queue, turn)
	g.mu.Unlock()
	<-turn
}

// leave gives a place back, after so many bytes.
func (g *gate) leave(bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.underWay--
	g.bytes += int64(bytes)
	now := time.Now()
	switch took := now.Sub(g.began); {
	case took < gatePeriod:
		g.waiting = g.waiting && len(g.queue) > 0
	default:
		if g.waiting && took < 2*gatePeriod && !g.pinned {
			g.search.measured(float64(g.bytes) / took.Seconds())
		}
		g.began, g.bytes, g.waiting = now, 0, len(g.queue) > 0
	}
	for len(g.queue) > 0 && g.underWay < g.search.limit {
		close(g.queue[0])
		g.queue = g.queue[1:]
		g.underWay++
	}
}

// slower is told of a storage that asks for fewer requests.
func (g *gate) slower() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.pinned && g.search.rest < gateRest-2 { // of many such answers at a time the first counts
		g.search.slower()
	}
}
