package loader

import (
	"time"

	"github.com/imgfeed/imgfeed/transform"
)

// A worker is what one goroutine of the pool keeps from sample to sample.
type worker struct {
	sampler
	values   [][]byte        // of the sample's fields
	pending  Counters        // not yet published
	counted  transform.Times // of the engine, in pending or published
	counters counters
}

func newWorker(level transform.Level) *worker { return &worker{sampler: newSampler(level)} }

// process serves a sample at a position of a batch: the plan's, or what stands in its place.
// next is the position that this worker comes to afterwards, or position again if it does not know.
func (w *worker) process(b *pendingBatch, position, index, next int) (err error) {
	cfg, slot := &b.stream.cfg, b.slot
	prefetcher, n := b.stream.prefetcher, b.first+int64(position)
	held := false
	defer func() {
		if p := recover(); p != nil {
			err = w.failure(cfg.Dataset, index, p)
			w.counted = transform.Times{}
		}
		if held {
			prefetcher.release(n)
		}
	}()
	slot.Indices[position] = int64(index)
	if slot.Repetitions != nil {
		slot.Repetitions[position] = int64(b.repetition(position))
	}

	started := time.Now()
	from := Access{View: prefetcher.resting.Load()}
	if index == b.indices[position] {
		from.Bytes, held = prefetcher.take(n)
	}
	source, err := w.load(cfg.Dataset, index, from)
	w.pending.Read += time.Since(started)
	w.pending.Images++
	if err != nil {
		return err
	}
	w.pending.BytesRead += w.stored()

	if next != position && from.View {
		source.Prefetch = cfg.Dataset.Mapped(b.indices[next])
	}
	source.NonTemporal = len(slot.Labels)*cfg.Views.OutputBytes() >= nonTemporalFrom
	w.aim(cfg.Views, cfg.Layout, slot.Images, position, drawKey{b.stream.seed, b.stream.epoch, index, b.repetition(position)})
	if err := w.engine.ApplyViews(source, w.views); err != nil {
		return err
	}
	if cfg.Fields.Len() > 0 {
		if w.values, err = cfg.Fields.put(slot, position, w.record.Fields, w.values); err != nil {
			return cfg.Dataset.Corrupt(index, err)
		}
	}
	slot.Labels[position] = int64(w.record.Label)
	for v := range slot.Params {
		drawn := w.views[v].Params.Int32s()
		copy(slot.Params[v][position*paramsPerSample:], drawn[:])
	}
	return nil
}

// substitute serves another sample of the class of the plan's at a position, and returns its index, or -1 if none of those
// that it tried can be served, and how many these were.
func (w *worker) substitute(b *pendingBatch, position int) (by, tried int) {
	s, index := b.stream, b.indices[position]
	for candidate := range s.alike(index, b.repetition(position)) {
		if s.ctx.Err() != nil {
			break
		}
		tried++
		if w.process(b, position, candidate, position) == nil {
			return candidate, tried
		}
	}
	return -1, tried
}

// nonTemporalFrom is the size of a batch, in bytes, from which its images are written past the caches. A consumer has several batches
// on their way, so those of this size have left the nearer caches before they are read. Copying batches of 2 to 40 MB out of
// the shared memory was as fast as if they had been written through the caches, and writing them a quarter faster.
const nonTemporalFrom = 2 << 20

// publish adds what was counted since the last call to the counters that others read, and returns it.
func (w *worker) publish() Counters {
	times := w.engine.Times()
	w.pending.Decode += times.Decode - w.counted.Decode
	w.pending.Resample += times.Resample - w.counted.Resample
	w.counted = times
	w.counters.add(&w.pending)
	done := w.pending
	w.pending = Counters{}
	return done
}
