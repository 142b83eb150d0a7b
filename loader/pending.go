package loader

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/imgfeed/imgfeed/loader/readahead"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/transform"
)

// A pendingBatch is a batch from the moment that it has a slot until it is handed out. Its stream fills it in, workers and remotes take
// its samples from readahead and fill its slot, and Next waits for it. Its memory is used again for a later batch of the stream.
type pendingBatch struct {
	Piece // all of the batch
	*readahead.Batch
	stream *Stream
	number int // the batch's number in the plan
	views  transform.Views
	first  int64 // the number in the stream of the batch's first sample
	chunk  int   // samples that a worker takes at a time

	unfinished atomic.Int64  // samples
	done       chan struct{} // holds one token once all samples are finished

	badMu   sync.Mutex
	bads    []BadSample // so far, without the failure
	failure *failure    // optional
	trials  map[int]*trial

	holders atomic.Int32 // number of holders: the scheduler and the stream
}

// A failure is the first bad sample of a batch, by position.
type failure struct {
	position int
	err      *SampleError
}

// A trial is the search for a substitute of a sample, by position.
type trial struct {
	err   error // why the sample can't be served
	tried int
}

// work implements the interface of this name. It ends early if no sample is at hand, and once the stream is cancelled.
func (b *pendingBatch) work(w *worker, t *turn) {
	processor, reads, made := threadTime(), w.counters.read.Load(), 0
	view, chunk := b.stream.ahead.Paused() || b.stream.cfg.OnError == leave, b.chunk // a piece is too short for a pause
	if t.limited {
		chunk = 1
	}
	for b.stream.ctx.Err() == nil && !t.over() {
		if w.samples = b.Take(chunk, w.samples); len(w.samples) == 0 {
			break
		}
		for i := range w.samples {
			next := -1
			if i+1 < len(w.samples) {
				next = w.samples[i+1].Index
			}
			if b.make(w, &w.samples[i], view, next) {
				made++
			}
		}
		w.publish()
	}
	w.samples = b.Take(0, w.samples)
	t.charge(threadTime()-processor, time.Duration(w.counters.read.Load()-reads))
	if made > 0 {
		b.finish(made) // Waking the consumer is not charged.
	}
}

// make makes a sample that was taken, or deals with what is wrong with it. It returns false if the sample comes again, or is finished
// later. Nobody waits for what comes after the sample that ends the stream.
func (b *pendingBatch) make(w *worker, s *readahead.Sample, view bool, next int) (done bool) {
	if b.first+int64(s.Position) > b.stream.lastWanted.Load() {
		return true
	}
	err := w.make(&b.stream.cfg, b.views, &b.Piece, *s, view, next)
	switch {
	case err != nil && b.stream.ctx.Err() == nil:
		return b.bad(s, err)
	case err == nil && s.Index != b.Indices[s.Position]:
		return b.note(s.Position, b.trial(s.Position, nil).err, s.Index)
	}
	return true
}

// finish notes that so many of the samples are finished.
func (b *pendingBatch) finish(samples int) {
	if b.unfinished.Add(-int64(samples)) > 0 {
		return
	}
	b.Finish()
	if b.stream.unfinished.Add(-1) == 0 {
		b.stream.cfg.Slots.idle.set(true)
	}
	b.done <- struct{}{}
	// Whoever waits for the batch runs now, on this processor. When all are taken by workers, it would otherwise
	// wait until Go's scheduler interrupts one, which it does every 10 ms: four batches of a pixels set.
	runtime.Gosched()
}

// bad deals with a sample that could not be served. It returns false if the sample, or a substitute, comes again, or if it is finished
// later.
func (b *pendingBatch) bad(s *readahead.Sample, err error) (done bool) {
	cfg := &b.stream.cfg
	switch {
	case s.Lease.Wrong(), err == errNotKept:
		b.Again(s, s.Index)
		return false
	case cfg.OnError == leave:
		return b.note(s.Position, err, -1)
	case storage.IsDown(err) || cfg.OnError == Fail: // Storage that is down is not a fault of the sample.
		return b.fail(s.Position, err)
	case cfg.OnError == Substitute:
		return b.substitute(s, err)
	}
	if blankErr := shard.Guard(func() error { return b.blank(s.Position) }); blankErr != nil {
		return b.fail(s.Position, blankErr)
	}
	return b.note(s.Position, err, -1)
}

// name makes an error one of the sample at a position, and gives it to use. It returns false if it does so beside the workers, as it may
// have to read the sample's key, and finishes the sample then.
func (b *pendingBatch) name(position int, err error, use func(*SampleError)) (done bool) {
	index := b.Indices[position]
	switch set := b.stream.cfg.Dataset; {
	case b.stream.cfg.OnError == leave:
		use(&SampleError{Index: index, Err: err})
	case set.MayHang() && !storage.IsDown(err):
		go func() {
			use(newSampleError(set, index, err))
			b.finish(1)
		}()
		return false
	default:
		use(newSampleError(set, index, err))
	}
	return true
}

// note notes what replaces a bad sample: the sample by, or nothing if that is -1.
func (b *pendingBatch) note(position int, err error, by int) (done bool) {
	return b.name(position, err, func(err *SampleError) {
		bad := BadSample{err, position, by}
		if b.stream.cfg.OnError != leave {
			b.stream.report(bad)
		}
		b.badMu.Lock()
		defer b.badMu.Unlock()
		b.bads = append(b.bads, bad)
	})
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

// trial returns the search for a substitute of the sample at a position, and begins it if that is new.
func (b *pendingBatch) trial(position int, err error) *trial {
	b.badMu.Lock()
	defer b.badMu.Unlock()
	if b.trials == nil {
		b.trials = map[int]*trial{}
	}
	t := b.trials[position]
	if t == nil {
		t = &trial{err: err}
		b.trials[position] = t
	}
	return t
}

// substitute has another sample of the same class read for a position, and returns false. If no candidate can be served, it ends the
// stream. It tries at most substitutesMax of the plan's alternatives.
func (b *pendingBatch) substitute(s *readahead.Sample, err error) (done bool) {
	set, index, t, seen := b.stream.cfg.Dataset, b.Indices[s.Position], b.trial(s.Position, err), 0
	label, unknown := set.Label(index)
	for candidate := range b.stream.cfg.Plan.Alternatives(index, b.Repetition(s.Position)) {
		if unknown != nil || seen == substitutesMax {
			break
		}
		if other, err := set.Label(candidate); err != nil || other != label {
			continue
		}
		if seen++; seen > t.tried {
			t.tried = seen
			b.Again(s, candidate)
			return false
		}
	}
	return b.fail(s.Position,
		fmt.Errorf("%w; no other sample of its class could replace it (%d were tried)", t.err, t.tried))
}

// fail notes a sample that ends the stream. Of several in a batch the first counts.
func (b *pendingBatch) fail(position int, err error) (done bool) {
	return b.name(position, err, func(err *SampleError) {
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
	})
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
