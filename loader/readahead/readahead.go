// Package readahead reads records before they are due, in the order of a plan, into memory that it owns, unless the page cache has them.
//
// A [Queue] reads for one stream. It knows samples by their numbers, 0, 1, 2 … in the order of the plan. Its planner, a goroutine, goes
// along the plan. It skips the samples that need no waiting. For each of the others it waits until there is memory, puts a lease into
// the queue, and starts a goroutine that reads.
//
// A worker calls Begin for the samples that it comes to, then Take for each of them. Take removes the sample's lease from the queue
// after waiting for its read, and checks the record. The worker itself reads the samples that have no lease. Release gives the memory of a
// lease back. A lease is dropped once a remote has made its sample, or the queue is over.
//
//	want ──► in the queue ──Take──► the worker's ──Release──► free
//	              │                                            ▲
//	              └──drop, then the end of its read────────────┘
//
// What holds:
//
//   - Samples get leases in the order of the plan, so reads begin in that order.
//   - A sample that a worker has begun gets no lease any more. So it is read once, and a worker waits only for reads that have begun.
//   - A queue holds no more memory than its share, or that of a single larger sample.
//   - Memory stays reserved until the read into it has ended, even if that takes a hung disk forever. Nobody waits for it.
//   - After readyMax consecutive samples that need no waiting the planner pauses, once no lease is in the queue. Then no worker locks
//     anything. Probe notices when that changes.
//
// Everything is guarded by the mutex of the pool. One condition wakes planners, and workers that wait for a read. An event wakes a
// planner only if a sixteenth of each limit is free, since to wake it for each sample would cost more than the reads.
package readahead

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/imgfeed/imgfeed/shard"
)

const (
	// After readyMax samples in a row that need no waiting the planner pauses, and checks only every probeEvery-th sample.
	readyMax   = 256
	probeEvery = 16
	// samplesPerRead is how many samples may be read ahead for each read that may be in flight.
	samplesPerRead = 8
	// slackShare is the part of each limit that must be free before the planner continues.
	slackShare = 16
)

// A Set is where records are read from. See the methods of [shard.Set] with these names.
type Set interface {
	WillNeed(i int) (shard.Need, error)
	Fetch(i int, buf []byte) ([]byte, error)
	Check(i int, bytes []byte, err error) (shard.Record, error)
	Waited(i int)
}

// A Config says what a queue reads.
type Config struct {
	Set       Set
	Batches   int
	BatchSize int
	// Batch returns the samples of a batch, in the memory of buf if they fit. Those of batch k are numbered from k·BatchSize on.
	Batch func(k int, buf []int) []int
}

// A Queue reads the samples of one plan ahead. Its methods may be called by many goroutines at a time.
type Queue struct {
	pool   *Pool
	cfg    Config
	paused atomic.Bool // samples are in memory: nothing is read ahead, and nothing is in the queue
	probed int         // samples that Probe was given

	// Guarded by the pool's mutex.
	next       int64 // the sample to plan next
	batch      int   // the batch that indices are of
	indices    []int
	ready      int      // samples in a row that need no waiting
	leases     []*Lease // sorted by number
	begun      int64    // workers have begun the samples before this one
	localShare float64  // moving average of the part of a batch that workers take and remotes do not
	reads      int      // the most reads in flight
	inFlight   int
	held       int64 // bytes
	waiting    bool  // the planner waits, and is not paused
	started    bool  // the first reads have begun, or it is known that no sample needs one
	over       bool  // ctx has ended
	planned    bool  // the planner has ended
}

// A Lease is a sample that was read ahead.
type Lease struct {
	Record   shard.Record
	queue    *Queue
	landed   bool // its read has ended
	awaited  bool // a worker waits for it
	number   int64
	index    int
	from, to int // its part of the arena, of whole pages
	bytes    []byte
	err      error
	run      func() // read, made once
}

// plan is the planner's life. It holds the mutex, except to look at a sample and to wait.
func (q *Queue) plan() {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	for q.awaitWindowLocked() {
		index, local, more := q.sampleLocked()
		if !more {
			break
		}
		if local {
			q.pool.mu.Unlock()
			need, err := q.cfg.Set.WillNeed(index)
			q.pool.mu.Lock()
			if err != nil || need.Ready { // an error is the worker's to find
				q.ready++
			} else {
				q.ready = 0
				q.wantLocked(index, need)
			}
		}
		q.next++
	}
	q.planned = true
	q.startLocked()
	q.pool.leaveLocked(q)
}

// sampleLocked returns the next sample, and whether a worker is likely to take it: all but those at the end of a batch, where remotes
// took as many of the last batches. more is false at the end of the plan.
func (q *Queue) sampleLocked() (index int, local, more bool) {
	size := int64(q.cfg.BatchSize)
	batch, position := int(q.next/size), int(q.next%size)
	if batch >= q.cfg.Batches {
		return 0, false, false
	}
	if batch != q.batch {
		q.batch, q.indices = batch, q.cfg.Batch(batch, q.indices)
	}
	n := len(q.indices)
	if position >= n { // a short batch, which in a plan of buckets need not be the last
		return 0, false, batch+1 < q.cfg.Batches
	}
	return q.indices[position], position < int(float64(n)*q.localShare*9/8)+n/32, true
}

// windowLocked is how many samples the planner looks ahead at most.
func (q *Queue) windowLocked() int64 { return int64(max(readyMax, q.reads*samplesPerRead)) }

// awaitWindowLocked waits until the next sample is to be planned, and returns false once the queue is over.
func (q *Queue) awaitWindowLocked() bool {
	if q.next >= readyMax {
		q.startLocked()
	}
	return q.waitLocked(func() bool {
		if q.ready >= readyMax && len(q.leases) == 0 {
			q.ready = 0
			q.paused.Store(true)
		}
		q.next = max(q.next, q.begun)
		return !q.paused.Load() && q.next-q.begun < q.windowLocked()
	})
}

// wantLocked waits for memory and starts to read the next sample, unless workers have come to it meanwhile or it is too large.
func (q *Queue) wantLocked(index int, need shard.Need) {
	q.reads = max(1, need.ReadsMax)
	q.waitLocked(func() bool {
		if q.begun > q.next {
			return true
		}
		if q.inFlight >= q.reads {
			return false
		}
		l, fits := q.pool.takeLocked(q, need)
		if l == nil {
			return !fits
		}
		l.number, l.index = q.next, index
		q.leases = append(q.leases, l)
		q.inFlight++
		go l.run()
		return true
	})
}

// waitLocked lets the planner wait until done returns true. It returns false once the queue is over.
func (q *Queue) waitLocked(done func() bool) bool {
	for !q.over && !done() {
		q.waiting = !q.paused.Load()
		q.startLocked()
		q.pool.changed.Wait()
	}
	q.waiting = false
	return !q.over
}

// wakeLocked wakes the planner if it waits and has enough to go on with.
func (q *Queue) wakeLocked() {
	window := q.windowLocked()
	if q.waiting && q.next-q.begun <= window-window/slackShare && q.inFlight <= q.reads-max(1, q.reads/slackShare) &&
		q.held <= q.pool.shareLocked()*(slackShare-1)/slackShare {
		q.waiting = false
		q.pool.changed.Broadcast()
	}
}

// startLocked notes that the first reads have begun.
func (q *Queue) startLocked() {
	if !q.started {
		q.started = true
		q.pool.changed.Broadcast()
	}
}

// read reads a sample. It is a goroutine of its own.
func (l *Lease) read() {
	q, p := l.queue, l.queue.pool
	bytes, err := q.cfg.Set.Fetch(l.index, p.arena[l.from:l.to:l.to])
	p.mu.Lock()
	defer p.mu.Unlock()
	q.inFlight--
	if _, wanted := q.find(l.number); !wanted {
		p.giveLocked(l)
		return
	}
	l.landed, l.bytes, l.err = true, bytes, err
	if l.awaited || q.inFlight == 0 {
		p.changed.Broadcast()
	}
	q.wakeLocked()
}

// find returns the place in the queue of the first lease from a number on.
func (q *Queue) find(number int64) (place int, found bool) {
	return slices.BinarySearchFunc(q.leases, number, func(l *Lease, number int64) int { return cmp.Compare(l.number, number) })
}

// dropLocked takes the leases of some samples, which nobody will take, out of the queue. Reads that have not ended give theirs back later.
func (q *Queue) dropLocked(first, end int64) {
	i, _ := q.find(first)
	j, _ := q.find(end)
	for _, l := range q.leases[i:j] {
		if l.landed {
			q.pool.giveLocked(l)
		}
	}
	q.leases = slices.Delete(q.leases, i, j)
}

// cancel ends the queue.
func (q *Queue) cancel() {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	q.over = true
	q.dropLocked(0, math.MaxInt64)
	q.pool.changed.Broadcast()
}

// Await waits until the first reads have begun, as many as may be in flight, or until it is known that no sample needs one. Workers
// that come before that would read by themselves, one sample after the other. If ended is true, it also waits until every read that the
// memory allows has ended.
func (q *Queue) Await(ended bool) {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	for !q.over && (!q.started || ended && q.inFlight > 0) {
		q.pool.changed.Wait()
	}
}

// Paused reports whether samples are in memory, so that nothing is read ahead.
func (q *Queue) Paused() bool { return q.paused.Load() }

// Begin notes that a worker comes to the samples before a number.
func (q *Queue) Begin(number int64) {
	if q.paused.Load() {
		return // Probe gives the number when the pause ends.
	}
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	q.begun = max(q.begun, number)
	q.wakeLocked()
}

// Take returns the lease of a sample that was read ahead, which is to be released, or why it could not be read, after waiting for the
// read. The caller is to read a sample that has no lease.
func (q *Queue) Take(number int64) (*Lease, error) {
	if q.paused.Load() {
		return nil, nil
	}
	l, err := q.await(number)
	if l == nil {
		return nil, err
	}
	if l.Record, err = q.cfg.Set.Check(l.index, l.bytes, l.err); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// await takes a sample's lease out of the queue, after waiting for its read.
func (q *Queue) await(number int64) (*Lease, error) {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	place, found := q.find(number)
	if !found {
		return nil, nil
	}
	l := q.leases[place]
	if !l.landed {
		q.cfg.Set.Waited(l.index)
	}
	for !l.landed && !q.over {
		l.awaited = true
		q.pool.changed.Wait()
	}
	if q.over {
		return nil, context.Canceled
	}
	place, _ = q.find(number)
	q.leases = slices.Delete(q.leases, place, place+1)
	return l, nil
}

// Release gives the memory back. A lease that is nil has none.
func (l *Lease) Release() {
	if l != nil {
		p := l.queue.pool
		p.mu.Lock()
		defer p.mu.Unlock()
		p.giveLocked(l)
	}
}

// Finish notes that a batch is finished, and how many of its samples workers took. Remotes took the others: what was read of those is given
// back. first is the number of the batch's first sample.
func (q *Queue) Finish(first int64, samples, workers int) {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	q.localShare += (float64(workers)/float64(samples) - q.localShare) / 4
	q.dropLocked(first, first+int64(samples))
}

// Probe looks at some of a batch's samples while the queue is paused, and ends the pause if they are in memory no longer. Workers have
// begun no sample from next on, and do not before Probe returns. It is for one goroutine at a time.
func (q *Queue) Probe(indices []int, next int64) {
	if !q.paused.Load() {
		return
	}
	for _, index := range indices {
		if q.probed++; q.probed%probeEvery > 0 {
			continue
		}
		if need, err := q.cfg.Set.WillNeed(index); err == nil && !need.Ready {
			q.pool.mu.Lock()
			defer q.pool.mu.Unlock()
			q.begun = max(q.begun, next)
			q.paused.Store(false)
			q.pool.changed.Broadcast()
			return
		}
	}
}
