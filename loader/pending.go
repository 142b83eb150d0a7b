package loader

import (
	"runtime"
	"sync/atomic"
)

// A pendingBatch is a batch from the moment that it has a slot until it is handed out. Its stream fills it in, workers fill its
// slot, and Next waits for it. Its memory is used again for a later batch of the stream.
type pendingBatch struct {
	stream  *Stream
	number  int // the batch's number in the plan
	slot    *Slot
	indices []int
	again   []int // the plan's repetitions
	chunk   int   // samples that a worker takes at a time

	next    atomic.Int64 // the first sample that no worker has taken
	left    atomic.Int64 // samples that are not finished
	blank   atomic.Int64 // bad samples so far
	failure atomic.Pointer[failure]
	done    chan struct{} // holds one token once all samples are finished

	holders atomic.Int32 // who may still look at it: the scheduler, the stream
}

// A failure is the first bad sample of a batch, by position.
type failure struct {
	position int
	err      *SampleError
}

// repetition returns which one of its sample's a position is.
func (b *pendingBatch) repetition(position int) int {
	if len(b.again) == 0 {
		return 0
	}
	return b.again[position]
}

// exhausted reports whether every sample has been taken by a worker.
func (b *pendingBatch) exhausted() bool { return b.next.Load() >= int64(len(b.indices)) }

// work takes and finishes as many samples as it may, until none is left to take or the stream is cancelled. It returns how many
// it has not taken of those that it might have.
func (b *pendingBatch) work(w *worker, most int) int {
	n := len(b.indices)
	for most > 0 && b.stream.ctx.Err() == nil {
		chunk := min(b.chunk, most)
		first := int(b.next.Add(int64(chunk))) - chunk
		if first >= n {
			break
		}
		end := min(first+chunk, n)
		b.stream.ahead.begun(end - first)
		most -= end - first
		for i := first; i < end; i++ {
			if err := w.process(b, i, min(i+1, end-1)); err != nil {
				b.bad(i, err)
			}
		}
		w.publish()
		if b.left.Add(int64(first-end)) == 0 {
			b.stream.unfinished.Add(-1)
			b.done <- struct{}{}
			// Whoever waits for the batch runs now, on this processor. When all are taken by workers, it would otherwise
			// wait until Go's scheduler interrupts one, which it does every 10 ms: four batches of a pixels set.
			runtime.Gosched()
		}
	}
	return most
}

// bad deals with a sample that could not be served.
func (b *pendingBatch) bad(position int, err error) {
	s := b.stream
	bad := newSampleError(s.cfg.Set, b.indices[position], err)
	if s.cfg.OnError == Fail {
		f := &failure{position, bad}
		for {
			old := b.failure.Load()
			if old != nil && old.position < position || b.failure.CompareAndSwap(old, f) {
				return
			}
		}
	}
	b.slot.blank(position, s.cfg.Views)
	if s.cfg.Fields.Len() > 0 {
		s.cfg.Fields.blank(b.slot, position)
	}
	b.blank.Add(1)
	if s.cfg.Bad != nil {
		s.cfg.Bad(bad)
	}
	s.log.Warn("blank sample", "index", bad.Index, "key", bad.Key, "error", bad.Err)
}

// release is called by each holder once, and gives the memory back to the stream after the last one.
func (b *pendingBatch) release() {
	if b.holders.Add(-1) == 0 {
		b.stream.spare <- b // has room for every batch
	}
}

// chunkFor returns how many samples of a batch a worker takes at a time: few enough that all workers end together, enough
// that the counter does not travel between cores for each.
func chunkFor(batch, workers int) int {
	return min(max(batch/(workers*8), 1), 8)
}
