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
	clock    time.Duration // the account of the queue that was served last
	waiting  int           // workers without a turn
	takers   []*taker      // remotes that have joined
	shutdown bool
}

// A streamQueue is what the scheduler knows of one stream, or of a job. The one with the lowest account is served next, so that streams that
// always have work get as much of the workers' time, whatever their batches' size and the time that their samples take.
type streamQueue struct {
	cancel  func()
	entries []entry       // the oldest batch first
	account time.Duration // of the workers, that it was given, as if it had been there and busy from the beginning
	cost    time.Duration // of a sample, as the last ones took workers; 0: not yet known

	feed  any  // the stream's; nil: nothing is for remotes
	eager bool // remotes need not wait until it is behind
}

const (
	// turnTime is about how long a worker stays in a batch before another stream may have its turn, and turnSamplesMax how many samples it
	// takes there at most. A turn costs a lock: nothing beside them.
	turnTime       = time.Millisecond
	turnSamplesMax = 64
	// creditTime is how far a stream may fall behind and still catch up. Small batches come and go, and a client that has
	// just released a few slots must not lose its share for the moment before; one that has stood still for an hour gets no
	// more than this for it.
	creditTime = 50 * time.Millisecond
	// costShare is the weight of a turn in the average cost of a sample, and costMax how many times that a turn is charged at most.
	// A turn on two threads is timed by the wall clock. On a busy machine many are, and last for long. So the average grows by an
	// eighth at most in a turn, and falls by a quarter.
	costShare = 4
	costMax   = 4
)

// work is samples that workers take: a batch of a stream, or a job.
type work interface {
	// size is how many samples there are in all.
	size() int
	// exhausted reports whether all of them are taken.
	exhausted() bool
	// work has a worker take and finish at most so many samples, and returns how many of them it has not taken, and the time that the others took.
	work(w *worker, most int) (left int, took time.Duration)
	// release is called once, when the last worker has left.
	release()
	queueOf() *streamQueue
}

// A turn is a worker's: a batch, and how many samples of it the worker may take. Those that it has not taken it gives back.
type turn struct {
	work    work // nil means that the worker is to end
	samples int

	dealt   int           // samples, at first
	charged time.Duration // for them
	took    time.Duration // processor time of the worker, and its time in reads
	remote  bool          // it was a remote's, which takes another time than a worker
}

// An entry is what the scheduler knows of one batch.
type entry struct {
	work    work
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
func (s *scheduler) publish(q *streamQueue, w work) {
	s.mu.Lock()
	if q.oldestLocked() == nil {
		q.account = max(q.account, s.clock-creditTime)
	}
	q.entries = append(q.entries, entry{work: w})
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
	return s.nextFor(&everything, last, waited)
}

// everything is what local workers take.
var everything = taker{may: func(*streamQueue) bool { return true }, over: func() bool { return false }}

// nextFor is next for one who does not take everything.
func (s *scheduler) nextFor(who *taker, last turn, waited *atomic.Int64) turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last.work != nil {
		s.leaveLocked(last)
	}
	for !s.shutdown && !who.over() {
		if q, e := s.chooseLocked(who.may); e != nil {
			return s.dealLocked(q, e, who)
		}
		started := time.Now()
		if who == &everything {
			s.waiting++
		}
		s.work.Wait()
		if who == &everything {
			s.waiting--
		}
		waited.Add(int64(time.Since(started)))
	}
	return turn{}
}

// join notes a remote, until it leaves.
func (s *scheduler) join(who *taker) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takers = append(s.takers, who)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.takers = slices.DeleteFunc(s.takers, func(t *taker) bool { return t == who })
		s.work.Broadcast()
	}
}

// offer lets remotes take a queue's work.
func (s *scheduler) offer(q *streamQueue, feed any, eager bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.feed, q.eager = feed, eager
}

// wake has all who wait for a turn look again.
func (s *scheduler) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work.Broadcast()
}

// forsakenLocked reports whether no remote takes a queue's work.
func (s *scheduler) forsakenLocked(q *streamQueue) bool {
	return q.feed == nil || !slices.ContainsFunc(s.takers, func(t *taker) bool { return t.remote.Takes(q.feed) })
}

// eagerSlots is the number of slots below which a stream is not seen to be behind, as the client has most of them.
const eagerSlots = 4

// behindLocked reports whether a queue has work for remotes: samples are left in two batches, so that local workers do not keep up.
func (q *streamQueue) behindLocked() bool {
	batches := 0
	for i := range q.entries {
		if !q.entries[i].work.exhausted() {
			batches++
		}
	}
	return q.feed != nil && (batches > 1 || q.eager)
}

// idle reports whether a worker has nothing to do.
func (s *scheduler) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting > 0
}

// chooseLocked returns the queue with the lowest account of those with work that may be taken, and the oldest batch of it with samples left; nil
// if there is none anywhere.
func (s *scheduler) chooseLocked(may func(*streamQueue) bool) (chosen *streamQueue, batch *entry) {
	for _, q := range s.queues {
		if chosen != nil && chosen.account <= q.account || !may(q) {
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
		if !q.entries[i].work.exhausted() {
			return &q.entries[i]
		}
	}
	return nil
}

// dealLocked has a worker enter a batch, for a whole one where there is nobody to take turns with.
func (s *scheduler) dealLocked(q *streamQueue, e *entry, who *taker) turn {
	samples := e.work.size()
	if who.remote != nil {
		samples = min(max(1, who.most()), PieceSamplesMax)
	} else if len(s.queues) > 1 {
		turn := 1
		if q.cost > 0 {
			turn = min(max(1, int(turnTime/q.cost)), turnSamplesMax)
		}
		samples = min(samples, turn)
	}
	s.clock = max(s.clock, q.account)
	charged := time.Duration(samples) * q.cost
	q.account += charged
	e.workers++
	return turn{work: e.work, samples: samples, dealt: samples, charged: charged, remote: who.remote != nil}
}

// leaveLocked notes that a worker has left a batch, charges the time that it took, and drops the batch if nobody has anything to do in it any more.
func (s *scheduler) leaveLocked(last turn) {
	q := last.work.queueOf()
	taken, took := time.Duration(last.dealt-last.samples), last.took
	if q.cost > 0 {
		took = min(took, costMax*q.cost*taken)
	} else if !last.remote {
		took = min(took, turnTime) // the first turn, and so the first cost
	}
	q.account += took - last.charged
	switch {
	case last.remote:
	case taken > 0 && q.cost > 0:
		q.cost = max(1, q.cost+min(took/taken-q.cost, q.cost/2+costShare)/costShare)
	case taken > 0:
		q.cost = max(1, took/taken)
	}
	i := slices.IndexFunc(q.entries, func(e entry) bool { return e.work == last.work })
	e := &q.entries[i]
	if e.workers--; e.workers > 0 {
		return
	}
	s.left.Broadcast()
	if last.work.exhausted() {
		q.entries = slices.Delete(q.entries, i, i+1)
		last.work.release()
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
