package storage

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// limitFirst requests run at a time at first. A store that gives one answer every five seconds still gives the last within
	// stallTimeout.
	limitFirst = 4
	// While a round of answers takes less than slowAnswer on average, more requests at a time do no harm. A slower store may have a queue,
	// and gets more only while that brings more answers.
	slowAnswer = time.Second
	// A round of a slow store has slowRounds times as many answers: some stores give many at once.
	slowRounds = 3
	// holdRounds is how many rounds a limit stays once a lower one has brought fewer answers.
	holdRounds = 8
)

// A gate lets the requests to one storage pass in the order in which they came. How many may be in flight follows the answers. A round is
// as many answers as that. The first rounds double it, or quadruple it, and so find in half a second what a fast link takes.
//
// What holds, under mu:
//
//   - The queue is sorted by ticket. It is empty, or at least limit requests are in flight.
//   - Whoever takes a waiter from the queue sends it one value: nil, and it counts in inFlight until it leaves, or an error. So a waiter
//     whose context ends, and that finds itself no longer in the queue, can receive that value.
//   - inFlight exceeds limit only after limit has fallen. Then none passes until enough have left.
type gate struct {
	max   int           // limit of the limit
	limit atomic.Int64  // requests that may be in flight; written under mu
	shown *atomic.Int64 // its last value

	mu       sync.Mutex
	answered int64 // requests
	tickets  int64
	inFlight int
	queue    []*waiter // sorted by ticket
	// Of this round:
	begun   time.Time
	answers int64
	took    time.Duration // total time of all answers
	full    bool          // the limit was reached
	// Of the round before:
	lastLimit int64
	lastRate  float64 // answers a second

	hold    int       // rounds in which the limit does not fall
	lowered time.Time // the last time the store refused requests or did not answer
	refused bool      // the store asks for fewer requests: more of them come slowly
	down    time.Time // the time at which it was found down; zero once it has answered
}

// A waiter is a request at the gate. pass has room for the one value that it is sent, so nobody who lets it pass or fails it waits for it.
type waiter struct {
	ticket int64
	came   time.Time
	pass   chan error
}

// newGate returns a gate of a client's storage.
func newGate(c *Client) *gate {
	g := &gate{max: cmp.Or(c.RequestsMax, requestsFirst), shown: &c.Counts.Allowed, begun: time.Now()}
	g.setLocked(limitFirst)
	return g
}

// setLocked sets the limit, within max, and shows it in the client's counts.
func (g *gate) setLocked(limit int64) {
	g.limit.Store(min(limit, int64(g.max)))
	g.shown.Store(g.limit.Load())
}

// ticket returns a request's number. Requests pass in the order of their tickets; a repeated one keeps its own.
func (g *gate) ticket() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tickets++
	return g.tickets
}

// enter waits until a request may be sent. The error is the context's, or that of the request that found the store down.
func (g *gate) enter(ctx context.Context, ticket int64) error {
	w := &waiter{ticket, time.Now(), make(chan error, 1)}
	g.mu.Lock()
	if g.inFlight == 0 && len(g.queue) == 0 {
		g.beginLocked() // a time without requests is part of no round
	}
	// One that is repeated, or that came here late, goes before those with later tickets. If it may pass at once, passLocked takes it
	// again.
	i, _ := slices.BinarySearchFunc(g.queue, ticket, func(w *waiter, ticket int64) int { return cmp.Compare(w.ticket, ticket) })
	g.queue = slices.Insert(g.queue, i, w)
	g.passLocked()
	g.mu.Unlock()
	select {
	case err := <-w.pass:
		return err
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue, w); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
	} else if <-w.pass == nil { // it was let pass just now, and does not go
		g.inFlight--
		g.passLocked()
	}
	return context.Cause(ctx)
}

// passLocked lets requests pass.
func (g *gate) passLocked() {
	for len(g.queue) > 0 && g.inFlight < int(g.limit.Load()) {
		g.inFlight++
		g.queue[0].pass <- nil
		g.queue = slices.Delete(g.queue, 0, 1)
	}
	g.full = g.full || g.inFlight >= int(g.limit.Load())
}

// leave notes that a request is over, with its connection closed if it was given up, and lets the next one pass.
func (g *gate) leave(sent time.Time, answered, refused bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	if answered {
		g.answered++
		g.answers++
		g.down = time.Time{}
		g.took += time.Since(sent)
		if mean, limit := g.took/time.Duration(g.answers), g.limit.Load(); g.answers >= limit &&
			(mean < slowAnswer || g.answers >= slowRounds*limit) {
			g.roundLocked(limit, mean)
		}
	}
	if refused && sent.After(g.lowered) {
		g.refused = true
		g.lowerLocked(g.limit.Load() / 2)
	}
	g.passLocked()
}

// fail fails the requests that wait, by the error of one that was sent at a time. One that came later, to a store that was found down
// before, asks for itself. Its caller leaves only afterwards, and so lets none of these pass.
func (g *gate) fail(err error, sent time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = slices.DeleteFunc(g.queue, func(w *waiter) bool {
		if !g.down.IsZero() && w.came.After(g.down) && w.came.After(sent) {
			return false
		}
		w.pass <- err
		return true
	})
	if g.down.IsZero() {
		g.down = time.Now()
	}
}

// A turn says when a request that was sent is due: the store has then answered those that were sent before. The request's timer alone uses
// it, and each use locks the gate.
type turn struct {
	gate       *gate
	sent, seen int64 // answers of the store, when the request was sent and when it was looked at
	before     int64 // requests in flight when it was sent
}

// turn returns the turn of a request that is sent now.
func (g *gate) turn() *turn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return &turn{g, g.answered, g.answered, int64(g.inFlight)}
}

// waits reports whether a request that had no answer for so long waits on, since it is not its turn. The store will come to it, and would
// do the work once more for another one. So the limit falls to what the store answers in a moment.
func (t *turn) waits(stall time.Duration) bool {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	answers := g.answered - t.seen
	if answers == 0 || g.answered-t.sent >= 2*t.before { // stores answer in about the order in which they are asked
		return false
	}
	if t.seen = g.answered; time.Since(g.lowered) > stall/2 {
		g.lowerLocked(int64(float64(answers) * 2 * slowAnswer.Seconds() / stall.Seconds()))
	}
	return true
}

// lowerLocked sets a lower limit, and begins another round.
func (g *gate) lowerLocked(limit int64) {
	g.setLocked(max(1, min(limit, g.limit.Load())))
	g.lowered, g.lastLimit, g.lastRate = time.Now(), 0, 0
	g.beginLocked()
}

// beginLocked begins a round.
func (g *gate) beginLocked() { g.begun, g.answers, g.took, g.full = time.Now(), 0, 0, false }

// roundLocked sets the limit after a round, whose answers took mean on average. It climbs while that costs nothing, or brings more answers,
// and goes back one step where it does not. From time to time it tries whether half of the limit brings as many.
func (g *gate) roundLocked(limit int64, mean time.Duration) {
	rate := float64(g.answers) / max(1e-9, time.Since(g.begun).Seconds())
	more := 2 * limit
	switch {
	case g.refused:
		more = limit + max(1, limit/16)
	case mean < slowAnswer/4:
		more = 4 * limit
	}
	next := limit
	// A higher limit has paid if it brought half of what so many more requests could: at twice the limit, 1.5 times the answers.
	paid := g.lastRate * (1 + float64(limit-g.lastLimit)/float64(2*max(1, g.lastLimit)))
	switch {
	case !g.full && mean < slowAnswer: // requests are few, and say nothing of the limit
	case mean < slowAnswer || limit > g.lastLimit && rate > paid && mean < stallTimeout/4: // no queue, or the last rise has paid
		next = more
	case limit < g.lastLimit && rate < 0.9*g.lastRate: // the store would have answered more
		next, g.hold = g.lastLimit, holdRounds
	case g.hold > 0:
		g.hold--
	case limit > g.lastLimit: // the last rise has only made a queue
		next = g.lastLimit
	default:
		next = limit / 2
	}
	g.lastLimit, g.lastRate = limit, rate
	g.setLocked(max(2, next))
	g.beginLocked()
}
