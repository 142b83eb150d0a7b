package readahead

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// A Batch is a batch of the plan. Workers and remotes take its samples, until all are made.
type Batch struct {
	queue   *Queue
	number  int
	indices []int
	warm    bool // its samples are in memory, and are taken by adding to taken

	// taken has two numbers: workers have taken samples up to here, and, 32 bits higher, remotes have taken so many of the last ones.
	taken  atomic.Uint64
	left   atomic.Int64 // samples that nobody has taken, without those that taken tells of a warm batch
	atHand atomic.Int64 // leases that can be taken
	dry    atomic.Bool  // workers have taken all that was planned for them, and remotes not the rest

	// Guarded by the pool's mutex.
	published bool
	planned   int      // samples, from the first on
	likely    int      // samples that workers are likely to take, from the first on: these are planned
	again     []Sample // samples given back: they are planned first
	leases    []*Lease // leases of samples that are planned and not taken
	workers   int      // samples that workers have taken
}

// A Sample is one of a batch that was taken.
type Sample struct {
	Position, Index int    // Index is that of a substitute after Again
	Lease           *Lease // nil: the worker reads its record in place, or from a cache
	Kept            bool   // it has no lease: the worker reads it by ReadKept, and gives it back if that fails
	again, second   bool   // it was taken before; its record is read for the second time
}

// A Lease is a sample that is read ahead.
type Lease struct {
	Sample
	queue    *Queue
	batch    *Batch // the batch that has it; nil once it was taken or dropped
	landed   bool   // it can be taken
	wrong    bool   // Record has found wrong bytes
	from, to int    // its part of the arena, of whole pages
	buf      []byte // its memory
	bytes    []byte
	err      error
	run      func() // read, made once
}

// between is how many samples lie between those that workers and those that remotes have taken.
func (b *Batch) between() int {
	taken := b.taken.Load()
	return len(b.indices) - int(uint32(taken)) - int(taken>>32)
}

// Exhausted reports whether every sample is taken.
func (b *Batch) Exhausted() bool { return b.left.Load() == 0 && !(b.warm && b.between() > 0) }

// AtHand reports whether a worker that comes now gets a sample.
func (b *Batch) AtHand() bool { return b.atHand.Load() > 0 || b.warm && b.between() > 0 }

// ForRemotes reports whether a remote that comes now gets a sample.
func (b *Batch) ForRemotes() bool { return b.between() > 0 }

// Want says that a worker would take samples that were left to remotes: some more are read.
func (b *Batch) Want() {
	if b.dry.Load() {
		b.planAgain(func() {
			b.likely = min(len(b.indices)-int(b.taken.Load()>>32), b.planned+max(1, len(b.indices)/slackShare))
		})
	}
}

// Again gives a sample back that was taken and could not be made: it is read again, or the sample of another index instead.
func (b *Batch) Again(s *Sample, index int) {
	b.planAgain(func() {
		second := s.Lease != nil && s.Index == index
		if s.Lease != nil {
			b.queue.pool.giveLocked(s.Lease)
			s.Lease = nil
		}
		b.again = append(b.again, Sample{Position: s.Position, Index: index, again: true, second: second})
		b.left.Add(1)
	})
}

// planAgain makes a change after which the batch has more to plan.
func (b *Batch) planAgain(change func()) {
	q := b.queue
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	b.countLocked(change)
	q.unplanned = min(q.unplanned, max(0, slices.Index(q.batches, b)))
	q.pool.changed.Broadcast()
}

// countLocked makes a change, and counts what workers may take before and after it.
func (b *Batch) countLocked(change func()) {
	q := b.queue
	waited := q.waitsLocked()
	if b.published {
		q.missing, q.atHand = q.missing-b.missing(), q.atHand-int(b.atHand.Load())
	}
	if change(); b.published {
		q.missing, q.atHand = q.missing+b.missing(), q.atHand+int(b.atHand.Load())
	}
	b.dry.Store(!b.warm && b.planned >= b.likely && len(b.again)+len(b.leases) == 0 && b.between() > 0)
	if waits := q.waitsLocked(); waits != waited {
		q.waitLocked(waits)
	}
}

// missing is how many samples are on their way to the workers.
func (b *Batch) missing() int {
	return b.likely - b.planned + len(b.again) + len(b.leases) - int(b.atHand.Load())
}

// nextLocked returns the sample to plan next, if there is one.
func (b *Batch) nextLocked() (s Sample, more bool) {
	switch {
	case len(b.again) > 0:
		return b.again[0], true
	case b.planned < b.likely:
		return Sample{Position: b.planned, Index: b.indices[b.planned]}, true
	}
	return Sample{}, false
}

// planLocked adds the lease of the sample that was planned.
func (b *Batch) planLocked(l *Lease, s Sample) {
	b.countLocked(func() {
		l.Sample, l.batch = s, b
		b.leases = append(b.leases, l)
		b.queue.ahead++
		if s.again {
			b.again = slices.Delete(b.again, 0, 1)
		} else {
			b.planned++
		}
		if l.landed {
			b.atHand.Add(1)
		}
	})
}

// removeLocked takes leases out of the batch, those that which returns true for, and gives each to take.
func (b *Batch) removeLocked(which func(l *Lease) bool, take func(l *Lease)) {
	b.leases = slices.DeleteFunc(b.leases, func(l *Lease) bool {
		if !which(l) {
			return false
		}
		if l.landed {
			b.atHand.Add(-1)
		}
		b.queue.ahead--
		l.batch = nil
		take(l)
		return true
	})
}

// dropLocked gives back leases that no worker will take. Reads that have not ended do so later.
func (b *Batch) dropLocked(which func(l *Lease) bool) {
	b.removeLocked(which, func(l *Lease) {
		if l.landed {
			b.queue.pool.giveLocked(l)
		}
	})
}

// chunkShare is the part of the memory that a worker may take at a time.
const chunkShare = 64

// Take gives a worker samples at hand, at most limit of them, and takes back the leases of those that it has made. It returns the samples
// in the memory of made, none if none is at hand. With a limit of 0 it only takes back.
func (b *Batch) Take(limit int, made []Sample) []Sample {
	taken := made[:0]
	if limit > 0 && b.atHand.Load() > 0 || slices.ContainsFunc(made, func(s Sample) bool { return s.Lease != nil }) {
		p := b.queue.pool
		p.mu.Lock()
		for _, s := range made {
			if s.Lease != nil {
				p.giveLocked(s.Lease)
			}
		}
		taken = b.takeLocked(limit, taken)
		b.queue.wakeLocked()
		p.mu.Unlock()
	}
	if b.warm && len(taken) == 0 {
		for first, end := b.count(limit, false); first < end; first++ {
			taken = append(taken, Sample{Position: first, Index: b.indices[first]})
		}
	}
	return taken
}

// takeLocked takes leases that have landed, the first ones.
func (b *Batch) takeLocked(limit int, taken []Sample) []Sample {
	p, bytes := b.queue.pool, int64(0)
	b.countLocked(func() {
		b.removeLocked(func(l *Lease) bool { return l.landed && len(taken) < limit && bytes <= p.max/chunkShare }, func(l *Lease) {
			bytes += int64(len(l.buf))
			b.left.Add(-1)
			if old := b.taken.Load(); !l.again {
				b.workers++
				b.taken.Store(old>>32<<32 | max(old<<32>>32, uint64(l.Position)+1))
			}
			taken = append(taken, l.Sample)
			if len(l.buf) > 0 {
				taken[len(taken)-1].Lease = l
			} else {
				p.giveLocked(l)
			}
		})
	})
	return taken
}

// count takes samples between those of workers and of remotes.
func (b *Batch) count(limit int, remote bool) (first, end int) {
	for {
		taken := b.taken.Load()
		workers, remotes := int(uint32(taken)), int(taken>>32)
		count := max(0, min(limit, len(b.indices)-workers-remotes))
		if first = workers; remote {
			remotes += count
			first = len(b.indices) - remotes
		} else {
			workers += count
		}
		if b.taken.CompareAndSwap(taken, uint64(remotes)<<32|uint64(workers)) {
			return first, first + count
		}
	}
}

// TakeLast lets a remote take samples, at most limit of them: the last ones, which workers come to last. There are none if first is end.
func (b *Batch) TakeLast(limit int) (first, end int) {
	if b.warm {
		return b.count(limit, true)
	}
	b.queue.pool.mu.Lock()
	defer b.queue.pool.mu.Unlock()
	b.countLocked(func() {
		first, end = b.count(limit, true)
		b.left.Add(int64(first - end))
		b.likely, b.planned = min(b.likely, first), min(b.planned, first)
		b.dropLocked(func(l *Lease) bool { return l.Position >= first && !l.again })
	})
	b.queue.wakeLocked()
	return first, end
}

// Finish notes that all samples of a batch are made.
func (b *Batch) Finish() {
	q := b.queue
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	if b.warm {
		b.workers = int(uint32(b.taken.Load()))
	}
	q.localShare += (float64(b.workers)/float64(max(1, len(b.indices))) - q.localShare) / 4
	if i := slices.Index(q.batches, b); i >= 0 {
		q.batches = slices.Delete(q.batches, i, i+1)
		if q.unplanned > i {
			q.unplanned--
		}
	}
}

// read reads a sample. It is a goroutine of its own.
func (l *Lease) read() {
	q, p := l.queue, l.queue.pool
	bytes, err := q.cfg.Set.Fetch(l.Index, l.buf)
	p.mu.Lock()
	q.setStalledLocked(false)
	q.inFlight--
	p.endLocked(q, 1)
	b := l.batch
	l.bytes, l.err, l.landed = bytes, err, true
	if b == nil { // nobody wants it any more
		p.giveLocked(l)
	} else {
		b.countLocked(func() { b.atHand.Add(1) })
	}
	if p.wakeLocked(); q.inFlight == 0 {
		p.changed.Broadcast()
	}
	published := b != nil && b.published
	p.mu.Unlock()
	if published {
		q.cfg.Landed()
	}
}

// Record returns the sample that was read, after a check.
func (l *Lease) Record() (shard.Record, error) {
	record, err := l.queue.cfg.Set.Check(l.Index, l.bytes, l.err)
	_, remote := errors.AsType[*storage.RemoteError](err)
	l.wrong = err != nil && !remote && !l.second
	return record, err
}

// Wrong reports whether Record has found bytes that a second read may find right: a storage's error is final.
func (l *Lease) Wrong() bool { return l != nil && l.wrong }
