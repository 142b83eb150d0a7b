package storage

import (
	"sync"
	"time"
)

// A requestLimiter bounds how many requests to stores run at a time. A link fills with as many as its rate times its delay asks
// for, and the limiter finds that number. While requests wait, it now and then allows half as many again, and keeps that only if
// more bytes come. So a link of 10 Gbit/s at 30 ms gets 350 for JPEGs of 110 KB. A store that asks for fewer requests (429, 503)
// gets fewer.
type requestLimiter struct {
	mu       sync.Mutex
	queue    []chan struct{} // waiting requests, in order
	inFlight int
	pinned   bool
	search   limitSearch

	began   time.Time // start of the measured period
	bytes   int64     // bytes of the period
	waiting bool      // requests have waited all the time
}

const (
	requestsMin   = 8
	requestsFirst = 64
	requestsMax   = 1024
	limitPeriod   = time.Second
	// limitRest is how many periods a limit stays after a higher one was no faster.
	limitRest = 30
	// limitGain is how much faster half as many requests again must be.
	limitGain = 1.08
)

// limitSearch looks for the number of requests that pays.
type limitSearch struct {
	limit  int
	before int     // the last limit, to compare with; 0: nothing is tried
	rate   float64 // bytes a second with it
	rest   int     // periods before the next try
}

// measured takes the rate of a period, in bytes a second. Requests have waited all the time.
func (s *limitSearch) measured(rate float64) {
	switch {
	case s.rest > 0:
		s.rest--
		return
	case s.before > 0 && rate < limitGain*s.rate:
		s.limit, s.before, s.rest = s.before, 0, limitRest
		return
	case s.limit == requestsMax:
		s.before, s.rest = 0, limitRest
		return
	}
	s.before, s.rate, s.limit = s.limit, rate, min(s.limit+s.limit/2, requestsMax)
}

// backOff allows fewer requests.
func (s *limitSearch) backOff() {
	s.limit, s.before, s.rest = max(requestsMin, s.limit*3/4), 0, limitRest
}

// PinRequests sets how many requests run at a time. With 0 the client finds that number itself.
func (c *Client) PinRequests(n int) {
	g := &c.limiter
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pinned, g.search.limit = n > 0, n
	if n == 0 {
		g.search = limitSearch{limit: requestsFirst}
	}
}

// RequestsMax returns how many requests may run at the moment.
func (c *Client) RequestsMax() int {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	return c.limiter.search.limit
}

// enter waits for a place.
func (g *requestLimiter) enter() {
	g.mu.Lock()
	if g.inFlight < g.search.limit {
		g.inFlight++
		g.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	g.queue = append(g.queue, turn)
	g.mu.Unlock()
	<-turn
}

// leave gives a place back, after so many bytes.
func (g *requestLimiter) leave(bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	g.bytes += int64(bytes)
	now := time.Now()
	switch took := now.Sub(g.began); {
	case took < limitPeriod:
		g.waiting = g.waiting && len(g.queue) > 0
	default:
		if g.waiting && took < 2*limitPeriod && !g.pinned {
			g.search.measured(float64(g.bytes) / took.Seconds())
		}
		g.began, g.bytes, g.waiting = now, 0, len(g.queue) > 0
	}
	for len(g.queue) > 0 && g.inFlight < g.search.limit {
		close(g.queue[0])
		g.queue = g.queue[1:]
		g.inFlight++
	}
}

// backOff allows fewer requests, as a store has asked for that.
func (g *requestLimiter) backOff() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.pinned && g.search.rest < limitRest-2 { // the first of many such answers counts
		g.search.backOff()
	}
}
