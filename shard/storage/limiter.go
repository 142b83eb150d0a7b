package storage

import (
	"cmp"
	"sync"
	"time"
)

// A requestLimiter bounds how many requests to stores run at a time. A store that asks for fewer (429, 503) gets fewer, and then slowly
// more again.
type requestLimiter struct {
	mu       sync.Mutex
	queue    []chan struct{} // waiting requests, in order
	inFlight int
	limit    int // now
	max      int
	done     int       // requests since the limit has changed
	lowered  time.Time // last time
}

const (
	requestsMin = 8
	// requestsFirst is the limit unless the user sets one. With JPEGs of 110 KB they fill 15 Gbit/s at 30 ms.
	requestsFirst = 512
	requestsMax   = 1024
)

func newRequestLimiter(max int) *requestLimiter { return &requestLimiter{limit: max, max: max} }

// SetRequestsMax limits how many requests run at a time, before the first of them. 0 is the default.
func (c *Client) SetRequestsMax(n int) { c.limiter = newRequestLimiter(cmp.Or(n, requestsFirst)) }

// RequestsMax returns how many requests may run at the moment.
func (c *Client) RequestsMax() int {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	return c.limiter.limit
}

// enter waits for a place.
func (g *requestLimiter) enter() {
	g.mu.Lock()
	if g.inFlight < g.limit {
		g.inFlight++
		g.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	g.queue = append(g.queue, turn)
	g.mu.Unlock()
	<-turn
}

// leave gives a place back.
func (g *requestLimiter) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	if g.done++; g.done >= g.limit {
		g.limit, g.done = min(g.limit+1, g.max), 0
	}
	for len(g.queue) > 0 && g.inFlight < g.limit {
		close(g.queue[0])
		g.queue = g.queue[1:]
		g.inFlight++
	}
}

// backOff allows fewer requests, as a store has asked for that. One of many such answers counts.
func (g *requestLimiter) backOff() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.lowered) > time.Second {
		g.limit, g.done, g.lowered = min(g.limit, max(requestsMin, g.limit*3/4)), 0, time.Now()
	}
}
