package readahead

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

const (
	pageBytes = 4096 // leases are of whole pages, for direct reads
	// A queue may hold shareOfFree times as much memory as is free: one alone four fifths of all, two four ninths each. So one that holds
	// its memory for long, as its reads hang or its client is slow, leaves a part to those that come later.
	shareOfFree = 4
	// processorsReading is how many the goroutine needs that asks for the next samples: a decoding thread can delay it by up to 10 ms.
	processorsReading = 1
	// processorsBlocked is how many more processors blocked reads need: each holds one until Go takes it back, at a cost. Through a file
	// system that takes 2 ms for a read, JPEGs come at 0.86 of their rate with three (Intel, family 6 model 167), and at 0.7 with one
	// (Zen 5). From disks that many cost some percent.
	processorsBlocked = 16
	// stalledAfter is how long a stream waits before its storage counts as stalled. Reads that hang need no processors, and idle ones
	// search for work. Beside a stopped mount, a set in memory comes at 0.88 to 0.96 of its rate with them. Without them it is 0.96 to
	// 1.02 (Intel, family 6 model 167).
	stalledAfter = time.Second
)

// A Pool has the memory that its queues read into, and limits how many reads of a set are in flight.
type Pool struct {
	max        int64
	processors func(int) // optional

	mu      sync.Mutex
	changed sync.Cond
	queues  []*Queue          // queues that read
	sets    map[Set]*setReads // those with a queue, or with a read that has not ended
	arena   []byte            // nil until the first read; kept from then on
	free    int64             // bytes of it
	beside  []byte            // memory beside it, for a sample that does not fit
	taken   []*Lease          // those that have a part of the arena, in its order
	spare   []*Lease          // those that are free
	given   int               // processors that reading takes
}

// setReads counts the reads of a set that are in flight, also for queues that are over, and the queues that read it.
type setReads struct{ inFlight, queues, users int }

// shareOf is how many of so many reads each queue may have in flight.
func (r *setReads) shareOf(reads int) int { return max(1, reads/max(1, r.queues)) }

// NewPool returns a pool of so many bytes. It calls processors, unless nil, with the number of processors that reading takes beside
// the decoding ones: when the first queue reads, and with 0 once none reads any more.
func NewPool(bytes int64, processors func(int)) *Pool {
	p := &Pool{max: bytes &^ (pageBytes - 1), processors: processors, sets: map[Set]*setReads{}}
	p.free = p.max
	p.changed.L = &p.mu
	return p
}

// Open returns a queue, which is over once ctx ends. Nobody waits for its reads then.
func (p *Pool) Open(ctx context.Context, cfg Config) *Queue {
	q := &Queue{pool: p, cfg: cfg, reads: 1, localShare: 1}
	p.mu.Lock()
	if q.set = p.sets[cfg.Set]; q.set == nil {
		q.set = &setReads{}
		p.sets[cfg.Set] = q.set
	}
	q.set.users++
	p.mu.Unlock()
	context.AfterFunc(ctx, q.cancel)
	go q.plan()
	return q
}

// mayTakeLocked reports whether a queue may hold so many bytes more.
func (p *Pool) mayTakeLocked(q *Queue, bytes int64) bool {
	return q.held+bytes <= shareOfFree*(p.free-bytes)
}

// takeLocked gives a queue a lease with memory, or nil if its reads or the memory are used up. A queue that could not go on gets memory
// beside the arena if no gap is large enough.
func (p *Pool) takeLocked(q *Queue, need shard.Need) *Lease {
	p.joinLocked(q, need.Blocks)
	bytes := (need.Bytes + pageBytes - 1) &^ (pageBytes - 1)
	if q.inFlight >= q.set.shareOf(q.reads) || q.set.inFlight >= q.reads ||
		!q.urgentLocked() && !p.mayTakeLocked(q, int64(bytes)) {
		return nil
	}
	from, at := 0, 0 // the first gap that is large enough
	for at < len(p.taken) && p.taken[at].from-from < bytes {
		from = p.taken[at].to
		at++
	}
	fits := from+bytes <= len(p.arena)
	if !fits && !q.urgentLocked() {
		return nil
	}
	l := p.leaseLocked(q)
	if fits {
		l.from, l.to, l.buf = from, from+bytes, p.arena[from:from+bytes:from+bytes]
		p.taken = slices.Insert(p.taken, at, l)
		p.free -= int64(bytes)
	} else {
		l.buf = p.besideLocked(bytes)
	}
	q.held += int64(len(l.buf))
	return l
}

// besideLocked returns memory beside the arena that begins at a page: the last one that was given back, if it is large enough.
func (p *Pool) besideLocked(bytes int) []byte {
	memory := p.beside
	if p.beside = nil; cap(memory) < bytes {
		memory = make([]byte, bytes+pageBytes)
		memory = memory[-int(uintptr(unsafe.Pointer(&memory[0])))&(pageBytes-1):]
	}
	return memory[:bytes]
}

// leaseLocked returns a lease without memory.
func (p *Pool) leaseLocked(q *Queue) (l *Lease) {
	if n := len(p.spare); n > 0 {
		l, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		l = &Lease{}
		l.run = l.read
	}
	*l = Lease{queue: q, run: l.run}
	return l
}

// joinLocked makes q one of the queues that read.
func (p *Pool) joinLocked(q *Queue, blocks bool) {
	if slices.Contains(p.queues, q) {
		return
	}
	if p.arena == nil && p.max > 0 {
		var err error
		if p.arena, err = storage.NewMemory(int(p.max)); err != nil {
			slog.Warn("one sample is read ahead at a time: there is no memory for more", "bytes", p.max, "error", err)
			p.max, p.free = 0, 0
		}
	}
	if q.processors = processorsReading; blocks {
		q.processors = processorsBlocked
	}
	p.queues = append(p.queues, q)
	q.set.queues++
	p.giveProcessorsLocked()
}

// giveLocked takes a lease and its memory back.
func (p *Pool) giveLocked(l *Lease) {
	if l.to > l.from {
		i := slices.Index(p.taken, l)
		p.taken = slices.Delete(p.taken, i, i+1)
		p.free += int64(l.to - l.from)
	} else if len(l.buf) > 0 {
		p.beside = l.buf
	}
	p.spare = append(p.spare, l)
	if len(l.buf) > 0 {
		l.queue.held -= int64(len(l.buf))
		l.buf, l.bytes = nil, nil
		p.leaveLocked(l.queue)
	}
}

// endLocked notes that reads of a queue's set have ended, and forgets a set that is read no more.
func (p *Pool) endLocked(q *Queue, reads int) {
	if q.set.inFlight -= reads; q.set.users == 0 && q.set.inFlight == 0 {
		delete(p.sets, q.cfg.Set)
	}
}

// leaveLocked notes that a queue reads no more if it rests and holds no memory, and wakes the planners that have enough to go on with.
func (p *Pool) leaveLocked(q *Queue) {
	if i := slices.Index(p.queues, q); i >= 0 && q.resting && q.held == 0 {
		p.queues = slices.Delete(p.queues, i, i+1)
		q.set.queues--
	}
	if len(p.queues) == 0 {
		p.beside = nil
	}
	p.giveProcessorsLocked()
	p.wakeLocked()
}

// wakeLocked wakes the planners that have enough to go on with.
func (p *Pool) wakeLocked() {
	for _, q := range p.queues {
		q.wakeLocked()
	}
}

// giveProcessorsLocked says how many processors reading takes from now on, unless that is what it was.
func (p *Pool) giveProcessorsLocked() {
	processors := 0
	for _, q := range p.queues {
		if !q.stalled && !q.over {
			processors = max(processors, q.processors)
		}
	}
	if processors != p.given && p.processors != nil {
		p.processors(processors)
	}
	p.given = processors
}

// setStalledLocked notes that a queue's reads hang, or that one has landed.
func (q *Queue) setStalledLocked(stalled bool) {
	if q.stalled != stalled {
		q.stalled = stalled
		q.pool.giveProcessorsLocked()
	}
}
