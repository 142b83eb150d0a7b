package readahead

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

const (
	pageBytes = 4096 // leases are of whole pages, for direct reads
	// processorsReading are for the goroutine that asks for the next samples: a decoding thread can delay it by up to 10 ms.
	processorsReading = 1
	// processorsBlocked are for goroutines that wait in reads, which hold a processor each until Go takes it back, at a cost. Through a file
	// system that takes 2 ms for a read, JPEGs come at 0.86 of their rate with three (Intel, family 6 model 167), and at 0.7 with one
	// (Zen 5). From disks that many cost some percent.
	processorsBlocked = 16
)

// A Pool has the memory that its queues read into. Each of them may hold an equal share of it.
type Pool struct {
	max        int64
	processors func(int) // optional

	mu      sync.Mutex
	changed sync.Cond
	queues  []*Queue // queues that may have memory
	arena   []byte   // nil until the first read; kept from then on
	taken   []*Lease // those that have a part of the arena, in its order
	told    int      // processors
	spare   []*Lease // those that are free
}

// NewPool returns a pool of so many bytes. It calls processors, unless nil, with the number of processors that reading takes beside
// the decoding ones: when the first queue reads, and with 0 after the last one.
func NewPool(bytes int64, processors func(int)) *Pool {
	p := &Pool{max: bytes &^ (pageBytes - 1), processors: processors}
	p.changed.L = &p.mu
	return p
}

// Open returns a queue, which is over once ctx ends. Nobody waits for it then.
func (p *Pool) Open(ctx context.Context, cfg Config) *Queue {
	q := &Queue{pool: p, cfg: cfg, batch: -1, reads: 1, localShare: 1}
	context.AfterFunc(ctx, q.cancel)
	go q.plan()
	return q
}

// takeLocked gives a queue a lease with memory, or nil if its share or the memory is used up. fits is false if that will never change.
func (p *Pool) takeLocked(q *Queue, need shard.Need) (l *Lease, fits bool) {
	bytes := (need.Bytes + pageBytes - 1) &^ (pageBytes - 1)
	if int64(bytes) > p.max || !p.joinLocked(q, need.Blocks) {
		return nil, false
	}
	if q.held > 0 && q.held+int64(bytes) > p.shareLocked() {
		return nil, true
	}
	from, place := 0, 0 // the first gap that is large enough
	for place < len(p.taken) && p.taken[place].from-from < bytes {
		from = p.taken[place].to
		place++
	}
	if from+bytes > len(p.arena) {
		return nil, true
	}
	if n := len(p.spare); n > 0 {
		l, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		l = &Lease{}
		l.run = l.read
	}
	*l = Lease{queue: q, from: from, to: from + bytes, run: l.run}
	p.taken = slices.Insert(p.taken, place, l)
	q.held += int64(bytes)
	return l, true
}

// shareLocked is how many bytes each queue may hold.
func (p *Pool) shareLocked() int64 { return p.max / int64(max(1, len(p.queues))) }

// joinLocked makes q one of the queues that have a share, unless the system has no memory.
func (p *Pool) joinLocked(q *Queue, blocks bool) bool {
	if slices.Contains(p.queues, q) {
		return true
	}
	if p.arena == nil {
		var err error
		if p.arena, err = storage.NewMemory(int(p.max)); err != nil {
			slog.Warn("samples are not read ahead: there is no memory for that", "bytes", p.max, "error", err)
			p.max = 0
			return false
		}
	}
	processors := processorsReading
	if blocks {
		processors = processorsBlocked
	}
	p.tell(max(processors, p.told))
	p.queues = append(p.queues, q)
	return true
}

// giveLocked takes a lease and its memory back.
func (p *Pool) giveLocked(l *Lease) {
	i := slices.Index(p.taken, l)
	p.taken = slices.Delete(p.taken, i, i+1)
	p.spare = append(p.spare, l)
	l.queue.held -= int64(l.to - l.from)
	p.leaveLocked(l.queue)
}

// leaveLocked takes a queue's share from it if nothing is planned or held any more, and wakes the planners that have enough to go on with.
func (p *Pool) leaveLocked(q *Queue) {
	if q.planned && q.held == 0 {
		p.queues = slices.DeleteFunc(p.queues, func(other *Queue) bool { return other == q })
	}
	if len(p.queues) == 0 {
		p.tell(0)
	}
	for _, other := range p.queues {
		other.wakeLocked()
	}
}

// tell says how many processors reading takes from now on.
func (p *Pool) tell(processors int) {
	if processors != p.told && p.processors != nil {
		p.processors(processors)
	}
	p.told = processors
}
