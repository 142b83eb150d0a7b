// Package readahead reads records before they are due, in the order of a plan, into memory that it owns. It leaves alone what is in the
// page cache.
//
//	          ┌─ Pool: memory, one mutex, one condition ────┐
//	plan ──►  │ Queue: want ──► reading ──► read ──► taken  │  ──► worker
//	          └─────────────────────────────────────────────┘
//
// A [Queue] reads for one stream. It knows samples by their numbers, 0, 1, 2 … in the order of the plan. Its planner, a goroutine, goes
// along the plan. It skips the samples that need no waiting. For each of the others it takes an entry and memory, waits until there are
// both, and starts a goroutine that reads.
//
// A worker calls Begin for the samples that it comes to, then Take for each of them. Take returns the record of a sample that has an
// entry, and waits while a read of it is in flight. The worker itself reads all other samples. Release gives the memory of a taken
// record back.
//
// # The states of an entry
//
//	free ──want──► reading ──landed──► read ──Take──► taken ──Release──► free
//	                  │                  │
//	                Drop               Drop                  Drop: a remote has made the sample, or the queue is over
//	                  ▼                  ▼
//	               dropped ──landed──► free
//
// # What holds
//
//   - Samples get entries in the order of the plan, so reads begin in that order.
//   - A sample that a worker has begun gets no entry any more. So it is read once, and a worker waits only for reads that have begun.
//   - Every entry except a free one holds memory. A queue holds no more than its share, or a single larger sample.
//   - No more than ReadsMax entries are in the states reading and dropped.
//   - Memory stays reserved until the read into it has ended, even if that takes a hung disk forever. Nobody waits for it.
//   - After readyMax consecutive samples that need no waiting the planner pauses. Then no worker locks anything. Probe notices when
//     that changes.
//
// Everything is guarded by the mutex of the pool. The exceptions are five atomic values, which spare workers the lock, and the fields
// of the planner. One condition wakes planners, and workers that wait for a read. An event wakes a planner only if a sixteenth of each
// limit is free, since to wake it for each sample would cost more than the reads.
package readahead

import (
	"context"
	"log/slog"
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
	Fetch(i int, buf []byte) (shard.Record, error)
	Waited(i int)
}

// A Config says what a queue reads.
type Config struct {
	Set       Set
	Batches   int
	BatchSize int
	// Batch returns the samples of a batch, in the memory of buf if they fit. Those of batch k are numbered from k·BatchSize on.
	Batch func(k int, buf []int) []int
	// Spread is how many times as far the planner looks at most, where remotes take many of the samples.
	Spread int
	// RemotesOnly says that remotes are expected to take everything, until Exhausted says otherwise.
	RemotesOnly bool
	Log         *slog.Logger
}

// A Queue reads the samples of one plan ahead. Its methods may be called by many goroutines at a time.
type Queue struct {
	pool *Pool
	cfg  Config

	begun      atomic.Int64 // workers have begun the samples before this one
	pending    atomic.Int64 // entries in the states reading and read
	paused     atomic.Bool  // samples are in memory: nothing is read ahead
	waiting    atomic.Bool  // the planner waits, and is not paused
	localShare atomic.Int64 // moving average, in 1/1000, of the samples of a batch that workers take and remotes do not

	// The planner's own.
	next    int64 // the sample to plan next
	batch   int   // the batch that indices are of
	indices []int
	ready   int // samples in a row that need no waiting

	probed int // samples since the last one that Probe looked at

	// Guarded by the pool's mutex.
	entries  []entry // sample n has entry n mod len(entries)
	reads    int     // the most reads in flight
	inFlight int
	held     int64 // bytes
	started  bool  // the first reads have begun, or it is known that no sample needs one
	over     bool  // ctx has ended
	planned  bool  // the planner has ended
}

type state uint8

const (
	free    state = iota
	reading       // somebody will want it
	dropped       // it is being read, and nobody wants it any more
	read
	taken
)

// An entry is a sample that the queue reads ahead.
type entry struct {
	queue   *Queue
	state   state
	awaited bool // a worker waits for it
	number  int64
	index   int
	memory  extent
	record  shard.Record
	err     error
	run     func() // e.read, made once
}

// plan is the planner's life.
func (q *Queue) plan() {
	defer q.end()
	for q.awaitWindow() {
		index, local, more := q.sample(q.next)
		if !more {
			return
		}
		if !local {
			q.next++
			continue
		}
		need, err := q.cfg.Set.WillNeed(index)
		if err != nil || need.Ready { // an error is the worker's to find
			q.next++
			q.ready++
			continue
		}
		q.ready = 0
		if e := q.want(index, need); e != nil {
			go e.run()
		}
		q.next++
	}
}

// sample returns the sample with a number, and whether a worker is likely to take it: all but those at the end of a batch, where
// remotes took as many of the last batches. more is false at the end of the plan.
func (q *Queue) sample(number int64) (index int, local, more bool) {
	size := int64(q.cfg.BatchSize)
	batch, position := int(number/size), int(number%size)
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
	share := int(q.localShare.Load())
	return q.indices[position], share > 0 && position < n*share*9/8000+n/32, true
}

// window is how many samples the planner looks ahead at most.
func (q *Queue) window() int64 {
	remotes := min(1000/max(1, q.localShare.Load()), int64(max(1, q.cfg.Spread)))
	return int64(max(readyMax, q.reads*samplesPerRead)) * remotes
}

// awaitWindow waits until the next sample is to be planned, and returns false once the queue is over.
func (q *Queue) awaitWindow() bool {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	if q.next >= readyMax {
		q.startLocked()
	}
	if q.ready >= readyMax {
		q.ready = 0
		q.paused.Store(true)
	}
	return q.waitLocked(func() bool {
		q.next = max(q.next, q.begun.Load())
		return !q.paused.Load() && q.next-q.begun.Load() < q.window()
	})
}

// want waits for an entry and memory for the next sample. It returns nil if workers have come to the sample meanwhile, if it is too
// large, and once the queue is over.
func (q *Queue) want(index int, need shard.Need) (wanted *entry) {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	if q.entries == nil {
		q.makeEntriesLocked(need.ReadsMax)
	}
	e := &q.entries[q.next%int64(len(q.entries))]
	q.waitLocked(func() bool {
		q.pending.Add(1) // It precedes the read of begun: a worker writes begun before it reads pending.
		fits, overtaken := true, q.begun.Load() > q.next
		if !overtaken && q.inFlight < q.reads && e.state == free {
			if e.memory, fits = q.pool.takeLocked(q, need.Bytes, need.Blocks); e.memory.to > 0 {
				e.state, e.awaited, e.number, e.index = reading, false, q.next, index
				q.inFlight++
				wanted = e
				return true
			}
		}
		q.pending.Add(-1)
		return overtaken || !fits
	})
	return wanted
}

// makeEntriesLocked makes the entries for so many reads at a time.
func (q *Queue) makeEntriesLocked(reads int) {
	q.reads = max(1, reads)
	n := min(max(readyMax, q.reads*samplesPerRead)*max(1, q.cfg.Spread), q.cfg.Batches*q.cfg.BatchSize)
	if q.entries, q.pool.spare = q.pool.spare, nil; cap(q.entries) < n {
		q.entries = make([]entry, n)
	}
	q.entries = q.entries[:n]
	for i := range q.entries {
		e := &q.entries[i]
		e.queue, e.state, e.number = q, free, -1
		if e.run == nil {
			e.run = e.read
		}
	}
}

// waitLocked lets the planner wait until done returns true. It returns false once the queue is over.
func (q *Queue) waitLocked(done func() bool) bool {
	for !q.over && !done() {
		if !q.paused.Load() && !q.waiting.Swap(true) {
			continue // A worker writes begun before it reads waiting, so done must read begun after waiting is written.
		}
		q.startLocked()
		q.pool.changed.Wait()
	}
	q.waiting.Store(false)
	return !q.over
}

// wakeLocked wakes the planner if it waits and has enough to go on with.
func (q *Queue) wakeLocked() {
	if !q.waiting.Load() {
		return
	}
	window := q.window()
	if q.next-q.begun.Load() <= window-window/slackShare && q.inFlight <= q.reads-max(1, q.reads/slackShare) &&
		q.held <= q.pool.shareLocked()*(slackShare-1)/slackShare {
		q.waiting.Store(false)
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
func (e *entry) read() {
	q, p := e.queue, e.queue.pool
	record, err := q.cfg.Set.Fetch(e.index, p.arena[e.memory.from:e.memory.to:e.memory.to])
	p.mu.Lock()
	defer p.mu.Unlock()
	q.inFlight--
	if e.state == dropped {
		q.freeLocked(e)
		return
	}
	e.state, e.record, e.err = read, record, err
	if e.awaited || q.inFlight == 0 {
		p.changed.Broadcast()
	}
	q.wakeLocked()
}

// freeLocked frees an entry and gives its memory back.
func (q *Queue) freeLocked(e *entry) {
	e.state, e.number, e.record, e.err = free, -1, shard.Record{}, nil
	q.pool.giveLocked(q, e.memory)
	q.leaveLocked()
}

// dropLocked notes that nobody will take a sample.
func (q *Queue) dropLocked(e *entry) {
	switch e.state {
	case reading:
		e.state = dropped
		q.pending.Add(-1)
	case read:
		q.pending.Add(-1)
		q.freeLocked(e)
	}
}

// leaveLocked leaves the pool if nothing is planned or held any more.
func (q *Queue) leaveLocked() {
	if !q.planned || q.held > 0 {
		return
	}
	if n := len(q.entries); 0 < n && n <= readyMax {
		q.pool.spare = q.entries // Reuse makes short plans, such as a feeder's pieces, cheap.
	}
	q.entries = nil
	q.pool.leaveLocked(q)
}

// end notes that the planner has ended.
func (q *Queue) end() {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	q.planned = true
	q.startLocked()
	q.leaveLocked()
}

// cancel ends the queue.
func (q *Queue) cancel() {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	q.over = true
	for entries, i := q.entries, 0; i < len(entries); i++ {
		q.dropLocked(&entries[i])
	}
	q.pool.changed.Broadcast()
}

// AwaitStart waits until the first reads have begun, as many as may be in flight, or until it is known that no sample needs one. Workers
// that come before that would read by themselves, one sample after the other.
func (q *Queue) AwaitStart() { q.await(func() bool { return q.started }) }

// AwaitReads waits until every read that the memory allows has ended.
func (q *Queue) AwaitReads() { q.await(func() bool { return q.started && q.inFlight == 0 }) }

func (q *Queue) await(done func() bool) {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	for !q.over && !done() {
		q.pool.changed.Wait()
	}
}

// Paused reports whether samples are in memory, so that nothing is read ahead.
func (q *Queue) Paused() bool { return q.paused.Load() }

// Begin notes that a worker comes to the samples before a number.
func (q *Queue) Begin(number int64) {
	for {
		old := q.begun.Load()
		if old >= number || q.begun.CompareAndSwap(old, number) {
			break
		}
	}
	if q.waiting.Load() {
		q.pool.mu.Lock()
		q.wakeLocked()
		q.pool.mu.Unlock()
	}
}

// Take returns the record of a sample that was read ahead, or why it could not be read, after waiting for the read. If held, it is to
// be released. If not, the caller is to read the sample, or the queue is over if there is an error.
func (q *Queue) Take(number int64) (record shard.Record, held bool, err error) {
	if q.pending.Load() == 0 {
		return shard.Record{}, false, nil
	}
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	if len(q.entries) == 0 {
		return shard.Record{}, false, nil
	}
	e := &q.entries[number%int64(len(q.entries))]
	if e.number != number {
		return shard.Record{}, false, nil
	}
	if e.state == reading {
		q.cfg.Set.Waited(e.index)
	}
	for e.state == reading && !q.over {
		e.awaited = true
		q.pool.changed.Wait()
	}
	if q.over {
		return shard.Record{}, false, context.Canceled
	}
	e.state = taken
	q.pending.Add(-1)
	return e.record, true, e.err
}

// Release gives back the memory of a sample that was taken.
func (q *Queue) Release(number int64) {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	q.freeLocked(&q.entries[number%int64(len(q.entries))])
}

// Exhausted notes that all samples of a batch are begun. first is the number of its first sample, and workers how many of them
// workers took and remotes did not.
func (q *Queue) Exhausted(first int64, samples, workers int) {
	q.Begin(first + int64(samples))
	old, now := q.localShare.Load(), int64(1000*workers/samples)
	if step := (now - old) / 4; step != 0 {
		now = old + step
	}
	q.localShare.Store(now)
}

// Drop gives back the memory of samples that were read for workers, and made by remotes: of so many from a number on, which no worker
// will take.
func (q *Queue) Drop(first int64, samples int) {
	if q.pending.Load() == 0 {
		return
	}
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	for number := first; number < first+int64(samples) && len(q.entries) > 0; number++ {
		if e := &q.entries[number%int64(len(q.entries))]; e.number == number {
			q.dropLocked(e)
		}
	}
}

// Probe looks at some of a batch's samples while the queue is paused, and ends the pause if they are in memory no longer. It is for one
// goroutine at a time.
func (q *Queue) Probe(indices []int) {
	if !q.paused.Load() {
		return
	}
	for _, index := range indices {
		if q.probed++; q.probed < probeEvery {
			continue
		}
		q.probed = 0
		if need, err := q.cfg.Set.WillNeed(index); err == nil && !need.Ready {
			q.pool.mu.Lock()
			q.paused.Store(false)
			q.pool.changed.Broadcast()
			q.pool.mu.Unlock()
			return
		}
	}
}
