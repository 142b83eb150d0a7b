package loader

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// PoolConfig describes a pool. The zero value is ready to use.
type PoolConfig struct {
	// Threads is the number of workers; 0 means one for each processor that the process may use.
	Threads int
	// Level names the kernels; nil means kernel.Active().
	Level *kernel.Level
}

// A Pool is a set of workers that decode for any number of streams, each stream in turn. Safe for concurrent use.
type Pool struct {
	workers []*worker
	done    sync.WaitGroup
	recent  recent

	mu      sync.Mutex
	work    sync.Cond // there may be work, or the pool closes
	idle    sync.Cond // a worker left a batch
	streams []*Stream
	turn    int // the stream that is asked first
	closed  bool
}

// ErrClosed is returned by a stream or pool that was closed.
var ErrClosed = errors.New("loader: closed")

// NewPool starts the workers.
func NewPool(cfg PoolConfig) *Pool {
	threads := cfg.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	level := kernel.Active()
	if cfg.Level != nil {
		level = *cfg.Level
	}
	p := &Pool{}
	p.work.L, p.idle.L = &p.mu, &p.mu
	p.recent.reset(time.Now())
	for range threads {
		p.workers = append(p.workers, newWorker(level))
	}
	for _, w := range p.workers {
		p.done.Go(func() { p.run(w) })
	}
	return p
}

// Threads returns the number of workers.
func (p *Pool) Threads() int { return len(p.workers) }

// Close stops the workers once they have finished the samples at hand and waits for them. Streams that are still open
// fail with [ErrClosed]; they must be closed all the same.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.streams {
		s.cancel()
	}
	p.work.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
}

// run is a worker's life.
func (p *Pool) run(w *worker) {
	debug.SetPanicOnFault(true) // a mapped file that is cut short costs its samples, not the process
	var j *job
	for {
		if j = p.take(j, w); j == nil {
			return
		}
		j.run(w)
	}
}

// take leaves the batch before (nil at first) and joins the next one that has samples left, waiting for it if need be.
// It returns nil when the pool closes.
func (p *Pool) take(before *job, w *worker) *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before != nil {
		before.active--
		if before.active == 0 {
			p.idle.Broadcast()
		}
	}
	for !p.closed {
		if j := p.findLocked(); j != nil {
			j.active++
			return j
		}
		started := time.Now()
		p.work.Wait()
		w.counters.wait.Add(int64(time.Since(started)))
	}
	return nil
}

// findLocked returns the oldest batch with samples left of the stream whose turn it is, and lets the next stream be
// asked first the next time.
func (p *Pool) findLocked() *job {
	for k := range p.streams {
		at := (p.turn + k) % len(p.streams)
		s := p.streams[at]
		s.pruneLocked()
		if len(s.queue) > 0 {
			p.turn = at + 1
			return s.queue[0]
		}
	}
	return nil
}

// add makes a stream known to the workers.
func (p *Pool) add(s *Stream) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	p.streams = append(p.streams, s)
	return nil
}

// publish gives a batch to the workers.
func (p *Pool) publish(j *job) {
	p.mu.Lock()
	j.stream.queue = append(j.stream.queue, j)
	p.work.Broadcast()
	p.mu.Unlock()
}

// remove takes a stream from the workers and waits until none of them touches its slots any more. The stream is
// cancelled, so that takes at most the time of one sample.
func (p *Pool) remove(s *Stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.streams {
		if other == s {
			p.streams = append(p.streams[:i:i], p.streams[i+1:]...)
			break
		}
	}
	s.queue = nil
	for s.busyLocked() {
		p.idle.Wait()
	}
}
