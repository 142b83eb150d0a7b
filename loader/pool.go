package loader

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/transform"
)

// PoolConfig describes a pool. The zero value is ready to use.
type PoolConfig struct {
	// Threads is the number of workers; 0 means one for each processor that the process may use.
	Threads int
	// ReadAheadBytes is how much all streams together have read before it is wanted, at most; 0 means 64 MiB.
	ReadAheadBytes int64
	// Reading, if there is one, is told when the first stream begins to read ahead into memory, and when the last of them has ended.
	Reading func(reading bool)
	// Level names the kernels; nil means transform.ActiveLevel().
	Level *transform.Level
}

// readAheadBytes is what all streams of a pool together have read ahead at most, unless they are told otherwise.
const readAheadBytes = 64 << 20

// A Pool is a set of workers that decode for any number of streams, each stream in its turn. Safe for concurrent use.
type Pool struct {
	workers   []*worker
	scheduler *scheduler
	running   sync.WaitGroup // the workers
	recent    recent
	memory    readMemory
}

// ErrClosed is returned by a stream or pool that was closed.
var ErrClosed = errors.New("loader: closed")

// NewPool starts the workers.
func NewPool(cfg PoolConfig) *Pool {
	threads := cfg.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	level := transform.ActiveLevel()
	if cfg.Level != nil {
		level = *cfg.Level
	}
	p := &Pool{scheduler: newScheduler(), memory: readMemory{max: cfg.ReadAheadBytes, reading: cfg.Reading}}
	if p.memory.max <= 0 {
		p.memory.max = readAheadBytes
	}
	p.recent.reset(time.Now())
	for range threads {
		p.workers = append(p.workers, newWorker(level))
	}
	for _, w := range p.workers {
		p.running.Go(func() { p.run(w) })
	}
	return p
}

// Threads returns the number of workers.
func (p *Pool) Threads() int { return len(p.workers) }

// Close stops the workers once they have finished the samples at hand and waits for them. Streams that are still open
// fail with [ErrClosed]; they must be closed all the same.
func (p *Pool) Close() {
	p.scheduler.shutDown()
	p.running.Wait()
}

// idlePoll is how often AwaitIdle looks.
const idlePoll = 5 * time.Millisecond

// AwaitIdle waits until a worker has nothing to do, no longer than most, so that who looks on does not take a processor from
// serving. The error is ctx's.
func (p *Pool) AwaitIdle(ctx context.Context, most time.Duration) error {
	until := time.After(most)
	tick := time.NewTicker(idlePoll)
	defer tick.Stop()
	for !p.scheduler.idle() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-until:
			return nil
		case <-tick.C:
		}
	}
	return ctx.Err()
}

// run is a worker's life.
func (p *Pool) run(w *worker) {
	debug.SetPanicOnFault(true) // a mapped file that is cut short costs its samples, not the process
	var t turn
	for {
		if t = p.scheduler.next(t, &w.counters.wait); t.batch == nil {
			return
		}
		t.samples = t.batch.work(w, t.samples)
	}
}
