package loader

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A scheduler says which batch a worker works on next. It owns its lock, and all that is under it: the lanes and their entries
// belong to it alone. Streams and workers know it by five methods:
//
//	open     a stream is there                          close   it is over: returns once no worker is in its batches
//	publish  a batch of it has samples to work on       next    a worker leaves a batch and enters another one
//	shutDown all streams are cancelled, workers end
//
// A batch stays from publish until all of its samples are taken and the last worker has left it.
type scheduler struct {
	mu       sync.Mutex
	work     sync.Cond // there may be work, or the workers are to end
	left     sync.Cond // a worker has left a batch
	lanes    []*lane
	turn     int // of the lane that is asked first
	shutdown bool
}

// A lane is what the scheduler knows of one stream.
type lane struct {
	cancel  func()
	entries []entry // the oldest batch first
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

// open makes a lane for a stream; cancel is called when the workers end before the lane is closed.
func (s *scheduler) open(cancel func()) (*lane, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutdown {
		return nil, ErrClosed
	}
	l := &lane{cancel: cancel}
	s.lanes = append(s.lanes, l)
	return l, nil
}

// publish gives a batch to the workers.
func (s *scheduler) publish(l *lane, b *pendingBatch) {
	s.mu.Lock()
	l.entries = append(l.entries, entry{batch: b})
	s.work.Broadcast()
	s.mu.Unlock()
}

// close takes a lane from the workers and waits until none of them is in its batches. Its stream is cancelled already, so that
// takes the time of one sample at most.
func (s *scheduler) close(l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.lanes, l); i >= 0 {
		s.lanes = slices.Delete(s.lanes, i, i+1)
	}
	for slices.ContainsFunc(l.entries, func(e entry) bool { return e.workers > 0 }) {
		s.left.Wait()
	}
	l.entries = nil
}

// next has a worker leave the batch that it was in (nil at first) and enter another one, for which it waits if need be; the time
// is added to waited. It returns nil when the worker is to end.
func (s *scheduler) next(last *pendingBatch, waited *atomic.Int64) *pendingBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last != nil {
		s.leaveLocked(last)
	}
	for !s.shutdown {
		if e := s.chooseLocked(); e != nil {
			e.workers++
			return e.batch
		}
		started := time.Now()
		s.work.Wait()
		waited.Add(int64(time.Since(started)))
	}
	return nil
}

// chooseLocked returns the oldest batch with samples left of the lane whose turn it is, nil if there is none anywhere. The
// lane after it is asked first the next time.
func (s *scheduler) chooseLocked() *entry {
	for k := range s.lanes {
		at := (s.turn + k) % len(s.lanes)
		l := s.lanes[at]
		for i := range l.entries {
			if !l.entries[i].batch.exhausted() {
				s.turn = at + 1
				return &l.entries[i]
			}
		}
	}
	return nil
}

// leaveLocked notes that a worker has left a batch, and drops the batch if nobody has anything to do in it any more.
func (s *scheduler) leaveLocked(b *pendingBatch) {
	l := b.stream.lane
	i := slices.IndexFunc(l.entries, func(e entry) bool { return e.batch == b })
	e := &l.entries[i]
	if e.workers--; e.workers > 0 {
		return
	}
	s.left.Broadcast()
	if b.exhausted() {
		l.entries = slices.Delete(l.entries, i, i+1)
		b.release()
	}
}

// shutDown cancels all streams and has the workers end once they have finished the samples at hand.
func (s *scheduler) shutDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shutdown = true
	for _, l := range s.lanes {
		l.cancel()
	}
	s.work.Broadcast()
}
