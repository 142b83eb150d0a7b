package loader

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/transform"
)

// A pendingBatch is a batch from the moment that it has a slot until it is handed out. Its stream fills it in, workers fill its
// slot, and Next waits for it. Its memory is used again for a later batch of the stream.
type pendingBatch struct {
	Piece  // all of the batch
	stream *Stream
	number int // the batch's number in the plan
	views  transform.Views
	first  int64 // the number in the stream of the batch's first sample
	chunk  int   // samples that a worker takes at a time

	taken      atomic.Uint64 // samples: by workers, from the first on, and, 32 bits higher, by remotes, from the last on
	unfinished atomic.Int64  // samples
	done       chan struct{} // holds one token once all samples are finished

	badMu   sync.Mutex
	bads    []BadSample // so far, without the failure
	failure *failure    // optional

	holders atomic.Int32 // number of holders: the scheduler and the stream
}

// A failure is the first bad sample of a batch, by position.
type failure struct {
	position int
	err      *SampleError
}

// exhausted reports whether every sample has been taken.
func (b *pendingBatch) exhausted() bool {
	workers, remotes := split(b.taken.Load())
	return workers+remotes >= len(b.Indices)
}

func split(taken uint64) (workers, remotes int) { return int(uint32(taken)), int(taken >> 32) }

// work implements the interface of this name. It ends early if no sample is left to take, and once the stream is cancelled.
func (b *pendingBatch) work(w *worker, t *turn) {
	processor, reads, made := threadTime(), w.counters.read.Load(), 0
	queue, chunk := b.stream.ahead, b.chunk
	if t.limited {
		chunk = 1
	}
	for b.stream.ctx.Err() == nil && !t.over() {
		first, end := b.take(chunk, false)
		if first == end {
			break
		}
		for i := first; i < end; i++ {
			next := -1
			if i+1 < end {
				next = b.Indices[i+1]
			}
			b.make(w, i, reading{queue: queue, number: b.first + int64(i), view: queue.Paused(), next: next})
		}
		w.publish()
		made += end - first
	}
	t.charge(threadTime()-processor, time.Duration(w.counters.read.Load()-reads))
	if made > 0 {
		b.finish(made) // Waking the consumer is not charged.
	}
}

// take takes at most limit samples of a batch for the caller to make. Workers take the first ones and remotes the last ones, so
// readahead knows which samples workers will need. No samples were left if end is first.
func (b *pendingBatch) take(limit int, remote bool) (first, end int) {
	n := len(b.Indices)
	for {
		taken := b.taken.Load()
		workers, remotes := split(taken)
		count := min(limit, n-workers-remotes)
		if count <= 0 {
			return n, n
		}
		if remote {
			remotes += count
			first = n - remotes
		} else {
			first = workers
			workers += count
		}
		if !b.taken.CompareAndSwap(taken, uint64(remotes)<<32|uint64(workers)) {
			continue
		}
		if workers+remotes == n {
			workers = n // no sample is left to read for a worker
		}
		b.stream.ahead.Begin(b.first + int64(workers))
		return first, first + count
	}
}

// make makes a sample that was taken, or deals with what is wrong with it. Nobody waits for what comes after the sample that ends the
// stream.
func (b *pendingBatch) make(w *worker, position int, from reading) {
	if b.first+int64(position) > b.stream.lastWanted.Load() {
		return
	}
	err := w.make(&b.stream.cfg, b.views, &b.Piece, position, b.Indices[position], from)
	if err != nil && b.stream.ctx.Err() == nil {
		b.bad(w, position, err)
	}
}

// finish notes that so many of the samples are finished.
func (b *pendingBatch) finish(samples int) {
	if b.unfinished.Add(-int64(samples)) > 0 {
		return
	}
	workers, _ := split(b.taken.Load())
	b.stream.ahead.Finish(b.first, len(b.Indices), workers)
	if b.stream.unfinished.Add(-1) == 0 {
		b.stream.cfg.Slots.idle.begin(time.Since(clockStart))
	}
	b.done <- struct{}{}
	// Whoever waits for the batch runs now, on this processor. When all are taken by workers, it would otherwise
	// wait until Go's scheduler interrupts one, which it does every 10 ms: four batches of a pixels set.
	runtime.Gosched()
}

// bad deals with a sample that could not be served.
func (b *pendingBatch) bad(w *worker, position int, err error) {
	cfg := &b.stream.cfg
	bad := BadSample{newSampleError(cfg.Dataset, b.Indices[position], err), position, -1}
	failed := false
	switch {
	case storage.IsDown(err) || cfg.OnError == Fail: // Storage that is down is no fault of the sample.
		failed = true
	case cfg.OnError == Substitute:
		tried := 0
		if bad.By, tried = b.substitute(w, position); bad.By < 0 {
			failed = true
			bad.Err = fmt.Errorf("%w; nor can another sample of its class be served in its place, of which %d were tried", err, tried)
		}
	default:
		if err := shard.Guard(func() error { return b.blank(position) }); err != nil {
			failed, bad.Err = true, err
		}
	}
	if failed {
		b.fail(position, bad.SampleError)
		return
	}
	b.badMu.Lock()
	b.bads = append(b.bads, bad)
	b.badMu.Unlock()
	b.stream.report(bad)
}

// blank makes the sample at a position one of zeros.
func (b *pendingBatch) blank(position int) error {
	b.Slot.blank(position, b.views)
	b.Slot.Indices[position] = int64(b.Indices[position])
	if fields := b.stream.cfg.Fields; fields.Len() > 0 {
		fields.blank(b.Slot, position)
	}
	return nil
}

// substitute serves another sample of the same class at a position, and returns its index, or -1 if no candidate can be served. It
// tries at most substitutesMax of the plan's alternatives, and returns how many.
func (b *pendingBatch) substitute(w *worker, position int) (by, tried int) {
	s, index, repetition := b.stream, b.Indices[position], b.Repetition(position)
	label, known := s.cfg.Dataset.Label(index)
	for candidate := range s.cfg.Plan.Alternatives(index, repetition) {
		if !known || tried == substitutesMax || s.ctx.Err() != nil {
			break
		}
		if other, ok := s.cfg.Dataset.Label(candidate); !ok || other != label {
			continue
		}
		tried++
		if w.make(&s.cfg, b.views, &b.Piece, position, candidate, reading{view: s.ahead.Paused(), next: -1}) == nil {
			return candidate, tried
		}
	}
	return -1, tried
}

// fail notes a sample that ends the stream. Of several in a batch the first counts.
func (b *pendingBatch) fail(position int, err *SampleError) {
	for n := b.first + int64(position); ; {
		if old := b.stream.lastWanted.Load(); n >= old || b.stream.lastWanted.CompareAndSwap(old, n) {
			break
		}
	}
	b.badMu.Lock()
	defer b.badMu.Unlock()
	if b.failure == nil || position < b.failure.position {
		b.failure = &failure{position, err}
	}
}

// release is called by each holder once, and gives the memory back to the stream after the last one.
func (b *pendingBatch) release() {
	if b.holders.Add(-1) == 0 {
		select {
		case b.stream.spare <- b:
		default: // remotes had more of them than usual
		}
	}
}

// chunkFor returns how many samples of a batch a worker takes at a time: few enough that all workers end together, enough
// that the counter does not travel between cores for each.
func chunkFor(batch, workers int) int {
	return min(max(batch/(max(workers, 1)*8), 1), 8)
}

// report says what became of a bad sample, to the log and to whoever wants to know.
func (s *Stream) report(bad BadSample) {
	if s.cfg.Bad != nil {
		s.cfg.Bad(bad)
	}
	if bad.By < 0 {
		s.cfg.Log.Warn("blank sample", "index", bad.Index, "key", bad.Key, "error", bad.Err)
		return
	}
	by, err := s.cfg.Dataset.Key(bad.By)
	if err != nil {
		by = ""
	}
	s.cfg.Log.Warn("substituted sample", "index", bad.Index, "key", bad.Key, "by", bad.By, "by_key", by, "error", bad.Err)
}
