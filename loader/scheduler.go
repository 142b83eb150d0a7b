package loader

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A scheduler says which batch a worker works on next. It owns its lock, and all that is under it: the queues and their entries
// belong to it alone. Streams, workers and those who look on know it by six methods:
//
//	open     a stream is there                          close   it is over: returns once no worker is in its batches
//	publish  a batch of it has samples to work on       next    a worker leaves a batch and has a turn in another one
//	shutDown all streams are cancelled, workers end     idle   a worker has nothing to do
//
// A batch stays from publish until all of its samples are taken and the last worker has left it.
type scheduler struct {
	mu       sync.Mutex
	work     sync.Cond // there may be work, or the workers are to end
	left     sync.Cond // a worker has left a batch
	queues   []*streamQueue
	clock    int64 // the account of the queue that was served last
	waiting  int   // workers without a turn
	shutdown bool
}

// A streamQueue is what the scheduler knows of one stream. The one with the lowest account is served next, so that streams that
// always have work get as many samples, whatever their batches' size and the time that their samples take.
type streamQueue struct {
	cancel  func()
	entries []entry // the oldest batch first
	account int64   // samples that it was given, as if it had been there and busy from the beginning
}

const (
	// turnSamples is how many samples a worker takes of a batch before another stream may have its turn. A turn costs a lock:
	// nothing beside eight samples, the quickest of which take a hundred times as long.
	turnSamples = 8
	// creditSamples is how far a stream may fall behind and still catch up. Small batches come and go, and a client that has
	// just released a few slots must not lose its share for the moment before; one that has stood still for an hour gets no
	// more than this for it.
	creditSamples = 256
)

// A turn is a worker's: a batch, and how many samples of it the worker may take. Those that it has not taken it gives back.
type turn struct {
	batch   *pendingBatch // nil means that the worker is to end
	samples int
}

// An entry is what the scheduler knows of one batch.
type entry struct {
	batch   *pendingBatch
	workers int // in it
}

func newScheduler() *scheduler {
	s := new(scheduler)
	s.work.L, s.left.L = &s.mu, &s.mu
	return s
}

// open makes a queue for a stream; cancel is called when the workers end before the queue is closed.
func (s *scheduler) open(cancel func()) (*streamQueue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutdown {
		return nil, ErrClosed
	}
	q := &streamQueue{cancel: cancel, account: s.clock}
	s.queues = append(s.queues, q)
	return q, nil
}

// publish gives a batch to the workers.
func (s *scheduler) publish(q *streamQueue, b *pendingBatch) {
	s.mu.Lock()
	if q.oldestLocked() == nil {
		q.account = max(q.account, s.clock-creditSamples)
	}
	q.entries = append(q.entries, entry{batch: b})
	s.work.Broadcast()
	s.mu.Unlock()
}

// close takes a queue from the workers and waits until none of them is in its batches. Its stream is cancelled already, so that
// takes the time of one sample at most.
func (s *scheduler) close(q *streamQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queues, q); i >= 0 {
		s.queues = slices.Delete(s.queues, i, i+1)
	}
	for slices.ContainsFunc(q.entries, func(e entry) bool { return e.workers > 0 }) {
		s.left.Wait()
	}
	q.entries = nil
}

// next has a worker leave the batch of its last turn (none at first) and gives it another turn, for which it waits if need be;
// the time is added to waited.
func (s *scheduler) next(last turn, waited *atomic.Int64) turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last.batch != nil {
		s.leaveLocked(last)
	}
	for !s.shutdown {
		if q, e := s.chooseLocked(); e != nil {
			return s.dealLocked(q, e)
		}
		started := time.Now()
		s.waiting++
		s.work.Wait()
		s.waiting--
		waited.Add(int64(time.Since(started)))
	}
	return turn{}
}

// idle reports whether a worker has nothing to do.
func (s *scheduler) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting > 0
}

// chooseLocked returns the queue with the lowest account of those with work, and the oldest batch of it with samples left; nil
// if there is none anywhere.
func (s *scheduler) chooseLocked() (chosen *streamQueue, batch *entry) {
	for _, q := range s.queues {
		if chosen != nil && chosen.account <= q.account {
			continue
		}
		if e := q.oldestLocked(); e != nil {
			chosen, batch = q, e
		}
	}
	return chosen, batch
}

// oldestLocked returns the oldest batch with samples left, or nil.
func (q *streamQueue) oldestLocked() *entry {
	for i := range q.entries {
		if !q.entries[i].batch.exhausted() {
			return &q.entries[i]
		}
	}
	return nil
}

// dealLocked has a worker enter a batch, for a whole one where there is nobody to take turns with.
func (s *scheduler) dealLocked(q *streamQueue, e *entry) turn {
	samples := len(e.batch.indices)
	if len(s.queues) > 1 {
		samples = min(samples, turnSamples)
	}
	s.clock = max(s.clock, q.account)
	q.account += int64(samples)
	e.workers++
	return turn{e.batch, samples}
}

// leaveLocked notes that a worker has left a batch, and drops the batch if nobody has anything to do in it any more.
func (s *scheduler) leaveLocked(last turn) {
	b := last.batch
	q := b.stream.queue
	q.account -= int64(last.samples)
	i := slices.IndexFunc(q.entries, func(e entry) bool { return e.batch == b })
	e := &q.entries[i]
	if e.workers--; e.workers > 0 {
		return
	}
	s.left.Broadcast()
	if b.exhausted() {
		q.entries = slices.Delete(q.entries, i, i+1)
		b.release()
	}
}

// shutDown cancels all streams and has the workers end once they have finished the samples at hand.
func (s *scheduler) shutDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shutdown = true
	for _, q := range s.queues {
		q.cancel()
	}
	s.work.Broadcast()
}
