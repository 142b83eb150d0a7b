package loader

import (
	"cmp"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/loader/readahead"
	"github.com/imgfeed/imgfeed/transform"
)

// PoolConfig describes a pool. The zero value is ready to use.
type PoolConfig struct {
	// Threads is the number of workers: 0 means one for each processor that the process may use, [NoThreads] none.
	Threads int
	// ReadAheadBytes is how much all streams together have read before it is wanted, at most; 0 means 64 MiB.
	ReadAheadBytes int64
	// Reading, if not nil, is called when streams begin to read ahead into memory, with the processors of Go that this takes beside the
	// workers, and with 0 when the last one has ended.
	Reading func(processors int)
	// Level names the kernels; nil means transform.ActiveLevel().
	Level *transform.Level
}

// NoThreads is the number of threads, or any other below 0, that leaves all samples to remotes. A worker for each processor then makes
// those of streams that no remote takes.
const NoThreads = -1

// readAheadBytes is the default limit of the bytes that all streams of a pool together have read ahead.
const readAheadBytes = 64 << 20

// A Pool is a set of workers that decode for any number of streams, each stream in its turn. Safe for concurrent use.
type Pool struct {
	level     transform.Level
	reserve   bool        // there are no threads: workers make what no remote takes
	counters  []*counters // the workers'
	scheduler *scheduler
	running   sync.WaitGroup // the workers
	ahead     *readahead.Pool
}

// ErrClosed is returned by a stream or pool that was closed.
var ErrClosed = errors.New("loader: closed")

// NewPool starts the workers.
func NewPool(cfg PoolConfig) *Pool {
	p := &Pool{
		level: transform.ActiveLevel(), reserve: cfg.Threads < 0, scheduler: newScheduler(),
		ahead: readahead.NewPool(cmp.Or(max(0, cfg.ReadAheadBytes), readAheadBytes), cfg.Reading),
	}
	if cfg.Level != nil {
		p.level = *cfg.Level
	}
	var who localWorker
	if p.reserve {
		who.reserve = p.scheduler
	}
	for range cmp.Or(max(0, cfg.Threads), runtime.GOMAXPROCS(0)) {
		w := p.newWorker(new(counters))
		p.counters = append(p.counters, w.counters)
		p.running.Go(func() { p.run(w, who) })
	}
	return p
}

// Threads returns how many workers take every sample: none with [NoThreads].
func (p *Pool) Threads() int {
	if p.reserve {
		return 0
	}
	return len(p.counters)
}

// Close stops the workers once they have finished the samples that they have taken, and waits for them. Open streams fail with
// [ErrClosed]; they must be closed all the same.
func (p *Pool) Close() {
	p.scheduler.shutDown()
	p.running.Wait()
}

// run is a worker's life.
func (p *Pool) run(w *worker, who taker) {
	var t turn
	for {
		if t = p.scheduler.next(who, t, w.counters); t.work == nil {
			return
		}
		t.work.work(w, &t)
	}
}

// A worker is what one goroutine of the pool keeps from sample to sample.
type worker struct {
	sampler
	pending  Counters        // not yet published
	counted  transform.Times // the engine's times already in pending or published
	counters *counters
	samples  []readahead.Sample // samples taken and not finished
}

func (p *Pool) newWorker(c *counters) *worker {
	return &worker{sampler: newSampler(p.level), counters: c}
}

// make makes a sample of a piece. view says that its record may be viewed in a mapped file; next is the sample that the worker makes
// afterwards, or -1.
func (w *worker) make(cfg *StreamConfig, views transform.Views, p *Piece, s readahead.Sample, view bool, next int) error {
	engine, i, index := w.engine, s.Position, s.Index
	err := w.guard(cfg.Dataset, index, func() error {
		p.Slot.name(p.First+i, index, p.Repetition(i))
		if err := w.read(cfg.Dataset, s, view); err != nil {
			return err
		}
		source := w.source(cfg.Dataset)
		if view && next >= 0 {
			source.Prefetch = cfg.Dataset.Mapped(next)
		}
		source.NonTemporal = len(p.Slot.Labels)*views.OutputBytes() >= nonTemporalFrom
		return w.fill(cfg, views, p.Slot, p.First+i, source, DrawKey{p.Seed, p.Epoch, index, p.Repetition(i)})
	})
	if w.engine != engine { // it was replaced after a panic
		w.counted = transform.Times{}
	}
	return err
}

// errNotKept says that a cache has lost a sample since it was planned.
var errNotKept = errors.New("loader: the sample is kept no longer")

// read gets the record of a sample, and counts that.
func (w *worker) read(set sampleSet, s readahead.Sample, view bool) (err error) {
	started := time.Now()
	switch {
	case s.Lease != nil:
		w.record, err = s.Lease.Record()
	case s.Kept:
		kept := false
		if w.record, w.buf, kept = set.ReadKept(s.Index, w.buf); !kept {
			err = errNotKept
		}
	default:
		_, err = w.load(set, s.Index, view)
	}
	w.pending.Read += time.Since(started)
	w.pending.Images++
	if err == nil {
		w.pending.BytesRead += int64(len(w.record.Image) + len(w.record.Aux) + len(w.record.Fields))
	}
	return err
}

// nonTemporalFrom is the smallest batch, in bytes, that is written past the caches. A consumer has several batches
// on their way, so batches of this size have left the nearer caches before they are read. Copying batches of 2 to 40 MB out of the
// shared memory was as fast as if they had been written through the caches, and writing them a quarter faster.
const nonTemporalFrom = 2 << 20

// publish adds the counts since the last call to the counters that others read.
func (w *worker) publish() {
	times := w.engine.Times()
	w.pending.Decode += times.Decode - w.counted.Decode
	w.pending.Resample += times.Resample - w.counted.Resample
	w.counted = times
	w.counters.add(&w.pending)
	w.pending = Counters{}
}
