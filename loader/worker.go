package loader

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// A worker is what one goroutine of the pool keeps from sample to sample.
type worker struct {
	level    transform.Level
	engine   *transform.Engine
	views    []transform.View // of the sample at hand
	buf      []byte           // the stored sample
	values   [][]byte         // of its fields
	pending  Counters         // not yet published
	counted  transform.Times  // of the engine, in pending or published
	counters counters
}

func newWorker(level transform.Level) *worker {
	return &worker{level: level, engine: transform.NewEngine(level)}
}

// process serves a sample at a position of a batch: the plan's, or what stands in its place. A panic below it is a bug of ours, and yet must not take the other
// samples along: it becomes an error, and the engine, whose state is unknown then, is replaced.
// next is the position that this worker comes to afterwards, or position again if it does not know.
func (w *worker) process(b *pendingBatch, position, index, next int) (err error) {
	cfg, slot := &b.stream.cfg, b.slot
	prefetcher, n := b.stream.prefetcher, b.first+int64(position)
	var record shard.Record
	var held bool
	defer func() {
		if held {
			prefetcher.release(n)
		}
		if p := recover(); p != nil {
			if err = shard.FaultError(p, record.Image); err == nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			} else {
				err = cfg.Dataset.Corrupt(index, err)
			}
			w.engine, w.buf, w.counted = transform.NewEngine(w.level), nil, transform.Times{}
		}
	}()
	slot.Indices[position] = int64(index)
	if slot.Repetitions != nil {
		slot.Repetitions[position] = int64(b.repetition(position))
	}

	started := time.Now()
	from := Access{Buf: w.buf, View: prefetcher.resting.Load()}
	if index == b.indices[position] {
		from.Bytes, held = prefetcher.take(n)
	}
	record, w.buf, err = cfg.Dataset.Read(index, from)
	if err != nil && from.Bytes != nil { // what is wrong with it is said by reading it again
		from.Bytes = nil
		record, w.buf, err = cfg.Dataset.Read(index, from)
	}
	w.keep(w.buf)
	w.pending.Read += time.Since(started)
	w.pending.Images++
	if err != nil {
		return err
	}
	w.pending.BytesRead += int64(len(record.Image) + len(record.Aux) + len(record.Fields))

	source := sourceOf(cfg.Dataset, &record)
	if next != position && from.View {
		source.Prefetch = cfg.Dataset.Mapped(b.indices[next])
	}
	source.NonTemporal = len(slot.Labels)*cfg.Views.OutputBytes() >= nonTemporalFrom
	w.views = w.views[:0]
	for v, spec := range cfg.Views {
		size := spec.OutputBytes()
		w.views = append(w.views, transform.View{
			Spec: spec, Dst: transform.Output{Pix: slot.Images[v][position*size : (position+1)*size : (position+1)*size], Layout: cfg.Layout},
			RNG: cfg.Views.RNG(b.stream.seed, b.stream.epoch, index, b.repetition(position), v),
		})
	}
	if err := w.engine.ApplyViews(source, w.views); err != nil {
		return err
	}
	if cfg.Fields.Len() > 0 {
		if w.values, err = cfg.Fields.put(slot, position, record.Fields, w.values); err != nil {
			return cfg.Dataset.Corrupt(index, err)
		}
	}
	slot.Labels[position] = int64(record.Label)
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

// keepBytesMax bounds the read buffer that is kept from sample to sample.
const keepBytesMax = 16 << 20

// keep remembers a buffer for the next read, unless an unusually large record has made it.
func (w *worker) keep(buf []byte) {
	if w.buf = buf; cap(buf) > keepBytesMax {
		w.buf = nil
	}
}

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

// sourceOf returns a record as the engine takes it.
func sourceOf(set Dataset, record *shard.Record) transform.Source {
	return transform.Source{Format: record.Format, Image: record.Image, Aux: record.Aux, Encoding: set.Encoding()}
}
