package loader

import (
	"runtime"
	"sync/atomic"
)

// A job is one batch on its way through the workers. It is used again for a later batch of its stream once the batch was
// handed out and no worker is in it.
type job struct {
	stream  *Stream
	number  int // the batch's number in the plan
	slot    *Slot
	indices []int
	chunk   int // samples that a worker takes at a time

	next  atomic.Int64 // the first sample that no worker has taken
	left  atomic.Int64 // samples that are not finished
	blank atomic.Int64 // bad samples so far
	fail  atomic.Pointer[failure]
	done  chan struct{} // holds one token once all samples are finished

	active int  // workers inside; guarded by Pool.mu
	inUse  bool // not yet handed out; guarded by Pool.mu
}

// A failure is the first bad sample of a batch, by position.
type failure struct {
	position int
	err      *SampleError
}

// exhausted reports whether every sample has been taken by a worker.
func (j *job) exhausted() bool { return j.next.Load() >= int64(len(j.indices)) }

// run works on the batch until no sample is left to take or the stream is cancelled.
func (j *job) run(w *worker) {
	n := len(j.indices)
	for !j.stream.cancelled.Load() {
		first := int(j.next.Add(int64(j.chunk))) - j.chunk
		if first >= n {
			return
		}
		end := min(first+j.chunk, n)
		for i := first; i < end; i++ {
			if err := w.process(j, i, min(i+1, end-1)); err != nil {
				j.bad(i, err)
			}
		}
		w.publish()
		if j.left.Add(int64(first-end)) == 0 {
			j.stream.unfinished.Add(-1)
			j.done <- struct{}{}
			// Whoever waits for the batch runs now, on this processor. When all are taken by workers, it would otherwise
			// wait until the scheduler interrupts one, which it does every 10 ms: four batches of a pixels set.
			runtime.Gosched()
		}
	}
}

// bad deals with a sample that could not be served.
func (j *job) bad(position int, err error) {
	s := j.stream
	bad := newSampleError(s.cfg.Set, j.indices[position], err)
	if s.cfg.OnError == Fail {
		f := &failure{position, bad}
		for {
			old := j.fail.Load()
			if old != nil && old.position < position || j.fail.CompareAndSwap(old, f) {
				return
			}
		}
	}
	size := s.cfg.Spec.OutputBytes()
	clear(j.slot.Images[position*size:][:size])
	j.slot.Labels[position] = BlankLabel
	if j.slot.Params != nil {
		clear(j.slot.Params[position*paramsPerSample:][:paramsPerSample])
	}
	j.blank.Add(1)
	s.log.Warn("blank sample", "index", bad.Index, "key", bad.Key, "error", bad.Err)
}

// chunkFor returns how many samples of a batch a worker takes at a time: few enough that all workers end together, enough
// that the counter does not travel between cores for each.
func chunkFor(batch, workers int) int {
	return min(max(batch/(workers*8), 1), 8)
}
