// Package readahead reads records before they are due, in the order of a plan, into memory that it owns, unless the page cache has them.
// Its goroutines are the only ones that wait for storage. What holds:
//
//   - A worker waits for nothing: it takes samples at hand alone. One whose storage can hang is at hand in a lease's memory, or in a
//     cache on this machine's disk. If that has lost it meanwhile, the worker gives it back.
//   - Samples of a batch get leases in order, so reads begin in the order of the plan.
//   - Every sample that workers have to make comes to hand, or Down says that its storage does not answer. Landed says that one has come.
//   - A queue holds at most [shareOfFree] times the free memory, and its set has at most as many reads in flight as are worthwhile. So a
//     storage that hangs keeps memory and reads from no other. Memory stays reserved until the read into it has ended, even if that takes
//     a hung disk forever.
//   - After readyMax consecutive samples in memory, once the queue holds none, the planner pauses. Batches that are published
//     then are warm: workers take their samples by a counter, without a lock. Publish notices when that changes.
//
// A [Queue] reads for one stream. Its planner, a goroutine, goes along the plan, ahead of the batches that the stream publishes. It gives
// each sample that workers are likely to make a lease: of memory, which a goroutine reads into, or without memory if the sample can be
// read in place. Workers take what is at hand, in any order. Remotes take samples from the end of a batch. The states of a sample:
//
//	                              lease with memory           read                    Take               Take, later
//	planned ──► not planned yet ──────────┬──────────► in flight ──────► at hand ──────────► a worker's ───────────► made.
//	                ▲    │                └── lease without memory ──────────▲                    │
//	                │    └── TakeLast, also of what is in flight or at hand ──────► a remote's ───┼───────────────► made.
//	                └──────────────── Again: it could not be made ─────────────────────┴─────────┘
//
// All state but atomics is guarded by the mutex of the pool, which a worker takes once for some samples. One condition wakes planners. An
// event wakes a planner only if a sixteenth of each limit is free, since to wake it for each sample would cost more than the reads.
package readahead

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/imgfeed/imgfeed/shard"
)

const (
	// After readyMax samples in a row that need no waiting the planner pauses, and Publish checks only every probeEvery-th sample.
	readyMax   = 256
	probeEvery = 16
	// samplesPerRead is how many samples may be read ahead for each read that may be in flight.
	samplesPerRead = 8
	// slackShare is the part of each limit that must be free before the planner continues.
	slackShare = 16
)

// A Set is where records are read from. See the methods of [shard.Set] with these names.
type Set interface {
	MayHang() bool
	WillNeed(i int) (shard.Need, error)
	Fetch(i int, buf []byte) ([]byte, error)
	Check(i int, bytes []byte, err error) (shard.Record, error)
	Waited(i int)
}

// A Config says what a queue reads, and who hears of it.
type Config struct {
	Set       Set
	Batches   int
	BatchSize int
	// Batch returns the samples of a batch, in the memory of buf if they fit.
	Batch func(k int, buf []int) []int
	// Landed is called when a sample of a published batch has come to hand.
	Landed func()
	// Waits is called when the stream begins to wait for its storage, and when that ends: the published batches miss samples, and none is
	// at hand. It must not call the queue.
	Waits func(waits bool)
	// Down is called if that lasts so long that the storage is down: it has not read a sample of a published batch.
	Down func(index int, after time.Duration)
}

// A Queue reads the samples of one plan ahead. Its methods may be called by many goroutines at a time, but Publish.
type Queue struct {
	pool   *Pool
	cfg    Config
	paused atomic.Bool // samples are in memory: nothing is read ahead
	probed int         // samples that Publish was given

	// Guarded by the pool's mutex.
	set        *setReads
	batches    []*Batch // planned or published, in the plan's order, until they are finished
	unplanned  int      // the first of them that may have samples to plan
	next       int      // the batch of the plan that follows them
	spare      []*Batch
	looked     *Batch // need is of a sample of it
	sample     Sample // need is this sample's
	need       shard.Need
	ready      int     // samples in a row that are in memory
	ahead      int     // leases in the batches
	localShare float64 // moving average of the part of a batch that workers take and remotes do not
	reads      int     // the most reads in flight
	inFlight   int
	held       int64 // bytes
	waiting    bool  // the planner waits for room
	resting    bool  // the planner has nothing to plan: it is paused or at the end
	started    bool  // the first reads have begun, or it is known that no sample needs one
	over       bool  // ctx has ended

	missing  int         // samples of published batches that are on their way
	atHand   int         // those that can be taken
	since    time.Time   // the stream waits for its storage
	patience *time.Timer // runs meanwhile, if the storage does not end its reads itself
	limit    time.Duration

	processors int         // processors that its reads need, unless they are stalled
	stalled    bool        // the stream has waited for stalledAfter, and nothing has landed since
	stalls     *time.Timer // runs while the stream waits
}

// plan is the planner's life. It holds the mutex, except to look at a sample and to wait.
func (q *Queue) plan() {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	for !q.over {
		b, s := q.pickLocked()
		if q.waiting = false; b != nil && (q.looked != b || q.sample != s) {
			q.lookLocked(b, s)
			continue
		}
		if b != nil && q.leaseLocked(b, s) {
			continue
		}
		q.startLocked()
		if q.waiting = !q.resting; q.resting {
			q.pool.leaveLocked(q)
		}
		q.pool.changed.Wait()
	}
}

// pickLocked returns the sample to plan next and its batch, or nil if there is none now.
func (q *Queue) pickLocked() (*Batch, Sample) {
	if q.ready >= readyMax && q.held == 0 && !q.cfg.Set.MayHang() {
		q.pauseLocked()
	}
	full := q.ahead >= q.windowLocked()
	for q.resting = false; ; {
		for ; q.unplanned < len(q.batches); q.unplanned++ {
			b := q.batches[q.unplanned]
			if s, more := b.nextLocked(); more {
				if full && q.ready < readyMax && !s.again { // Samples in memory take no room.
					return nil, s
				}
				return b, s
			}
		}
		if q.resting = q.paused.Load() || q.next >= q.cfg.Batches; q.resting || full {
			return nil, Sample{}
		}
		b := q.newLocked()
		b.indices = q.cfg.Batch(q.next, b.indices)
		q.addLocked(b, q.next)
	}
}

// pauseLocked begins a pause. Batches that are not published yet become warm.
func (q *Queue) pauseLocked() {
	q.ready = 0
	q.paused.Store(true)
	for _, b := range q.batches {
		if !b.published {
			b.dropLocked(func(*Lease) bool { return true })
			b.warm, b.planned, b.likely = true, 0, 0
			b.left.Store(0)
			b.dry.Store(false)
		}
	}
}

// newLocked returns a batch to add.
func (q *Queue) newLocked() *Batch {
	n := len(q.spare)
	if n == 0 {
		return &Batch{queue: q}
	}
	b := q.spare[n-1]
	q.spare = q.spare[:n-1]
	return b
}

// addLocked adds a batch with its samples. While the queue is not paused, the samples at the end are left to remotes, if these took as many
// of the last batches.
func (q *Queue) addLocked(b *Batch, number int) {
	n := len(b.indices)
	b.number, b.warm, b.published, b.planned, b.likely, b.again, b.workers = number, q.paused.Load(), false, 0, 0, b.again[:0], 0
	b.taken.Store(0)
	b.dry.Store(false)
	if b.left.Store(0); !b.warm {
		b.left.Store(int64(n))
		b.likely = min(n, int(float64(n)*q.localShare*9/8)+n/32)
	}
	q.batches, q.next = append(q.batches, b), number+1
}

// lookLocked asks what the sample to plan next takes.
func (q *Queue) lookLocked(b *Batch, s Sample) {
	q.looked, q.sample = b, s
	q.pool.mu.Unlock()
	need, err := q.cfg.Set.WillNeed(s.Index)
	q.pool.mu.Lock()
	q.need = need
	q.need.Ready = need.Ready && !(need.Kept && s.again) || err != nil // an error is the worker's to find
	if need.Timeout > q.limit {
		if q.limit = need.Timeout; q.waitsLocked() {
			q.patience.Reset(q.limit)
		}
	}
}

// leaseLocked gives the sample to plan next a lease and begins its read. It returns false if there is no room for that now.
func (q *Queue) leaseLocked(b *Batch, s Sample) bool {
	if q.need.Ready {
		q.ready++
		q.looked = nil
		l := q.pool.leaseLocked(q)
		l.landed, s.Kept = true, q.need.Kept
		if b.planLocked(l, s); b.published {
			q.pool.mu.Unlock()
			q.cfg.Landed()
			q.pool.mu.Lock()
		}
		return true
	}
	q.ready, q.reads = 0, max(1, q.need.ReadsMax)
	l := q.pool.takeLocked(q, q.need)
	if l == nil {
		return false
	}
	q.looked = nil
	b.planLocked(l, s)
	q.inFlight++
	q.set.inFlight++
	go l.run()
	return true
}

// windowLocked is how many samples the planner looks ahead at most.
func (q *Queue) windowLocked() int { return max(readyMax, q.reads*samplesPerRead) }

// wakeLocked wakes the planner if it waits for room and has enough to go on with.
func (q *Queue) wakeLocked() {
	window, reads := q.windowLocked(), q.set.shareOf(q.reads)
	if q.waiting && (q.urgentLocked() || q.ahead <= window-window/slackShare && q.inFlight <= reads-max(1, reads/slackShare) &&
		q.set.inFlight < q.reads && q.pool.mayTakeLocked(q, q.held/slackShare)) {
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

func (q *Queue) waitsLocked() bool { return q.missing > 0 && q.atHand == 0 && !q.over }

// urgentLocked reports whether nothing comes to hand unless another sample is read.
func (q *Queue) urgentLocked() bool { return q.held == 0 || q.inFlight == 0 && q.waitsLocked() }

// waitLocked notes that the stream begins to wait for its storage, or that the wait ends.
func (q *Queue) waitLocked(waits bool) {
	q.cfg.Waits(waits)
	q.since = time.Now()
	if q.patience == nil {
		q.patience, q.stalls = time.AfterFunc(math.MaxInt64, q.giveUp), time.AfterFunc(math.MaxInt64, q.stall)
	}
	if waits {
		q.patience.Reset(cmp.Or(q.limit, math.MaxInt64))
		q.stalls.Reset(stalledAfter)
	} else {
		q.patience.Stop()
		q.stalls.Stop()
	}
	if q.wakeLocked(); waits {
		q.cfg.Set.Waited(q.missedLocked())
	}
}

// missedLocked returns the first sample that published batches miss.
func (q *Queue) missedLocked() (index int) {
	for _, b := range q.batches {
		if s, more := b.nextLocked(); b.published && len(b.leases) > 0 {
			return b.leases[0].Index
		} else if b.published && more {
			return s.Index
		}
	}
	return 0
}

// giveUp ends the wait of a stream whose storage has not answered for so long.
func (q *Queue) giveUp() {
	q.pool.mu.Lock()
	after, down, index := time.Since(q.since), q.waitsLocked() && q.limit > 0, q.missedLocked()
	q.pool.mu.Unlock()
	if down = down && after >= q.limit; down {
		q.cfg.Down(index, after)
	}
}

// stall notes that the storage of a waiting stream has not answered for a while.
func (q *Queue) stall() {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	if q.waitsLocked() && time.Since(q.since) >= stalledAfter {
		q.setStalledLocked(true)
	}
}

// cancel ends the queue.
func (q *Queue) cancel() {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	if q.waitsLocked() {
		q.waitLocked(false)
	}
	q.over, q.resting = true, true
	for _, b := range q.batches {
		b.dropLocked(func(*Lease) bool { return true })
	}
	q.set.users--
	q.pool.endLocked(q, 0)
	q.pool.leaveLocked(q)
	q.pool.changed.Broadcast()
}

// Await waits until the first reads have begun, as many as may be in flight, or until it is known that no sample needs one. Batches that
// are published before that are not warm. If ended is true, it also waits until no read is in flight.
func (q *Queue) Await(ended bool) {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	for !q.over && (!q.started || ended && q.inFlight > 0) {
		q.pool.changed.Wait()
	}
}

// Paused reports whether samples are in memory, so that nothing is read ahead.
func (q *Queue) Paused() bool { return q.paused.Load() }

// Publish returns the next batch of the plan, for workers and remotes. While the queue is paused it looks at some of its samples, and
// ends the pause if they are in memory no longer. The memory of old is used again, if not nil. It is for one goroutine at a time.
func (q *Queue) Publish(number int, indices []int, old *Batch) *Batch {
	for _, index := range indices {
		if q.probed++; q.paused.Load() && q.probed%probeEvery == 0 {
			if need, err := q.cfg.Set.WillNeed(index); err == nil && !need.Ready {
				q.paused.Store(false)
			}
		}
	}
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	if old != nil {
		q.spare = append(q.spare, old)
	}
	i, planned := slices.BinarySearchFunc(q.batches, number, func(b *Batch, number int) int { return cmp.Compare(b.number, number) })
	if !planned {
		b := q.newLocked()
		b.indices = append(b.indices[:0], indices...)
		q.addLocked(b, number)
	}
	b := q.batches[i]
	b.countLocked(func() { b.published = true })
	if !b.warm {
		q.pool.changed.Broadcast()
	}
	return b
}
