package loader

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A scheduler says which batch a worker works on next. What holds:
//
//   - The queues and their entries belong to it alone, under its lock.
//   - A batch stays from publish until all of its samples are taken and the last worker has left it.
//   - Once close has returned, no worker is in a batch of the stream, and none comes.
//   - A worker that waits is woken when a sample comes to hand, since it counts as idle before it looks for one. Remotes wake those that
//     stand by when they take the rest of a batch.
//
// Streams and workers know it by six methods:
//
//	open      begins a stream                   close   ends it;
//	publish   adds a batch of it                landed  says that a sample of a batch has come to hand;
//	next      takes a worker out of a batch and gives it a turn in another one with samples at hand;
//	shutDown  cancels all streams and ends the workers.
type scheduler struct {
	mu       sync.Mutex
	work     sync.Cond    // there may be work, or the workers are to end
	left     sync.Cond    // a worker has left a batch
	idle     atomic.Int32 // takers that wait, or are about to
	queues   []*streamQueue
	clock    time.Duration // the account of the queue that was served last
	remotes  []Remote      // remotes that have joined
	shutdown bool
}

// A streamQueue is what the scheduler knows of one stream, or of a job. The one with the lowest account is served next, so that streams
// that always have work get as much of the workers' time, whatever their batches' size and the time that their samples take.
type streamQueue struct {
	cancel  func()
	entries []entry       // the oldest batch first
	account time.Duration // time of the workers given to it, as if it had been there and busy from the beginning

	offer        any  // the stream's; nil: nothing is for remotes
	offloadFirst bool // remotes need not wait until it is behind
}

const (
	// turnTime is how long a worker takes samples of a batch before another stream may have its turn. A turn costs one lock,
	// negligible next to its samples.
	turnTime = time.Millisecond
	// creditTime is how far a stream may fall behind and still catch up. Small batches come and go, and a client that has just released a
	// few slots must not lose its share for the moment before. A stream that has stood still for an hour gets no more credit than this.
	creditTime = 50 * time.Millisecond
)

// work is samples that workers take: a batch of a stream, or a job.
type work interface {
	// Exhausted reports whether all of them are taken, AtHand whether a worker that comes now gets one, and ForRemotes whether a remote
	// does.
	Exhausted() bool
	AtHand() bool
	ForRemotes() bool
	// Want says that a worker has nothing to do: samples that were left to remotes are his too.
	Want()
	// work lets a worker take and finish samples at hand until the turn is over.
	work(w *worker, t *turn)
	// release is called once, when the last worker has left.
	release()
}

// A turn is a worker's, in a batch.
type turn struct {
	work    work // nil means that the worker is to end
	queue   *streamQueue
	began   time.Time
	cost    time.Duration // time that its stream pays for; 0: all since it began
	limited bool          // other streams wait for their turns
}

// over reports whether another stream may have its turn.
func (t *turn) over() bool { return t.limited && time.Since(t.began) >= turnTime }

// charge has the stream pay for the processor time and the reads of a turn, and not for the time that the system gave to other
// programs, except in a read. The processor time is the difference of two readings of a thread's clock. It may be anything if the worker
// has changed its thread: it counts only above 0, and no turn costs more than the time since it began.
func (t *turn) charge(processor, reads time.Duration) {
	t.cost = time.Since(t.began)
	if processor > 0 {
		t.cost = min(t.cost, processor+reads)
	}
}

// An entry is what the scheduler knows of one batch.
type entry struct {
	work    work
	workers int // workers in the batch
}

func newScheduler() *scheduler {
	s := new(scheduler)
	s.work.L, s.left.L = &s.mu, &s.mu
	return s
}

// open makes a queue for a stream, and lets remotes take work that is offered to them. cancel is called when the workers end before the
// queue is closed.
func (s *scheduler) open(cancel func(), offer any, offloadFirst bool) (*streamQueue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutdown {
		return nil, ErrClosed
	}
	q := &streamQueue{cancel: cancel, account: s.clock, offer: offer, offloadFirst: offloadFirst}
	s.queues = append(s.queues, q)
	return q, nil
}

// publish gives a batch to the workers.
func (s *scheduler) publish(q *streamQueue, w work) {
	s.mu.Lock()
	q.entries = append(q.entries, entry{work: w})
	s.work.Broadcast()
	s.mu.Unlock()
}

// landed wakes a worker, if one waits, for a sample that has come to hand.
func (s *scheduler) landed() {
	if s.idle.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work.Signal(); len(s.remotes) > 0 { // it may have been one of those
		s.work.Broadcast()
	}
}

// close takes a queue from the workers and waits until no worker is in its batches. Its stream is cancelled already, so that
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

// A taker takes turns of the scheduler: a worker, or a remote.
type taker interface {
	// takes reports whether it takes a turn in work of a queue. The scheduler is locked.
	takes(q *streamQueue, w work) bool
	// makes reports whether it is there for all work of a queue.
	makes(q *streamQueue) bool
	// over reports that it takes no more turns.
	over() bool
}

// A localWorker takes every turn. Where it is the reserve of a pool without threads, it takes work of queues that no remote takes, and
// what is at hand of batches that have nothing left for remotes.
type localWorker struct{ reserve *scheduler }

func (l localWorker) makes(q *streamQueue) bool {
	return l.reserve == nil || !l.reserve.hasRemoteLocked(q)
}
func (l localWorker) takes(q *streamQueue, w work) bool {
	return w.AtHand() && (l.reserve == nil || !w.ForRemotes() || l.makes(q))
}
func (localWorker) over() bool { return false }

// next takes a taker out of the batch of its last turn (none at first) and gives it another turn, for which it waits if need be. It counts
// the time as one of reading if a stream that it is there for waits for its storage.
func (s *scheduler) next(who taker, last turn, c *counters) turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last.work != nil {
		s.leaveLocked(last)
	}
	s.idle.Add(1) // counted first, so that landed wakes it if it looks too early
	defer s.idle.Add(-1)
	for !s.shutdown && !who.over() {
		if q, e := s.chooseLocked(who); e != nil {
			return s.dealLocked(q, e)
		}
		started, waited := time.Now(), &c.wait
		if s.wantLocked(who) {
			waited = &c.read
			c.readingSince.Store(int64(started.Sub(clockStart)))
		}
		s.work.Wait()
		c.readingSince.Store(0)
		waited.Add(int64(time.Since(started)))
	}
	return turn{}
}

// wantLocked says that a taker has nothing to do to the oldest batches of the queues that it is there for, and reports whether there is
// one.
func (s *scheduler) wantLocked(who taker) (wanted bool) {
	for _, q := range s.queues {
		if !who.makes(q) {
			continue
		}
		if i := slices.IndexFunc(q.entries, func(e entry) bool { return !e.work.Exhausted() }); i >= 0 {
			q.entries[i].work.Want()
			wanted = true
		}
	}
	return wanted
}

// join notes a remote, until it leaves.
func (s *scheduler) join(r Remote) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remotes = append(s.remotes, r)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remotes = slices.DeleteFunc(s.remotes, func(other Remote) bool { return other == r })
		s.work.Broadcast()
	}
}

// wake lets all that wait for a turn look again.
func (s *scheduler) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work.Broadcast()
}

// hasRemoteLocked reports whether a remote takes a queue's work.
func (s *scheduler) hasRemoteLocked(q *streamQueue) bool {
	return q.offer != nil && slices.ContainsFunc(s.remotes, func(r Remote) bool { return r.Takes(q.offer) })
}

// offloadFirstSlots is the number of slots below which a stream is not seen to be behind, as the client has most of them.
const offloadFirstSlots = 4

// behindLocked reports whether a queue has work for remotes: samples are left in two batches, so that local workers do not keep up.
func (q *streamQueue) behindLocked() bool {
	batches := 0
	for i := range q.entries {
		if !q.entries[i].work.Exhausted() {
			batches++
		}
	}
	return q.offer != nil && (batches > 1 || q.offloadFirst)
}

// chooseLocked returns the queue with the lowest account of those with work for a taker, and the oldest batch of it with samples that the
// taker may take; nil if no queue has work.
func (s *scheduler) chooseLocked(who taker) (chosen *streamQueue, batch *entry) {
	for _, q := range s.queues {
		if chosen != nil && chosen.account <= q.account {
			continue
		}
		if i := slices.IndexFunc(q.entries, func(e entry) bool { return who.takes(q, e.work) }); i >= 0 {
			chosen, batch = q, &q.entries[i]
		}
	}
	return chosen, batch
}

// dealLocked gives a turn in a batch. It is charged turnTime until it is over.
func (s *scheduler) dealLocked(q *streamQueue, e *entry) turn {
	q.account = max(q.account, s.clock-creditTime)
	s.clock = max(s.clock, q.account)
	q.account += turnTime
	e.workers++
	return turn{work: e.work, queue: q, began: time.Now(), limited: len(s.queues) > 1}
}

// leaveLocked notes that a worker has left a batch, charges the turn's cost, and drops the batch if nobody has anything to do in
// it any more.
func (s *scheduler) leaveLocked(last turn) {
	q := last.queue
	q.account += cmp.Or(last.cost, time.Since(last.began)) - turnTime
	i := slices.IndexFunc(q.entries, func(e entry) bool { return e.work == last.work })
	e := &q.entries[i]
	if e.workers--; e.workers > 0 {
		return
	}
	s.left.Broadcast()
	if last.work.Exhausted() {
		q.entries = slices.Delete(q.entries, i, i+1)
		last.work.release()
	}
}

// shutDown cancels all streams, and ends the workers once they have finished the samples that they have taken.
func (s *scheduler) shutDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shutdown = true
	for _, q := range s.queues {
		q.cancel()
	}
	s.work.Broadcast()
}
