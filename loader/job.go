package loader

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/loader/readahead"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// A job is work beside the streams, such as samples that somebody looks at. It has its turns as a stream has. Workers take numbers from
// next, each once. The first failure writes err and then moves next to the end, so that no worker takes another number; err is read when
// no worker is in the job any more.
type job struct {
	n    int
	do   func(w *worker, i int) error
	next atomic.Int64 // the first that no worker has taken
	done chan struct{}

	failed sync.Once
	err    error // the first, after which no more is done
}

// Do makes the workers call do for 0 to n-1, each with its own engine, in turn with the streams. Calls run at the same time. Do
// returns once all have ended, with the first error or that of the caller's context. It returns [ErrClosed] if the pool is closed.
func (p *Pool) Do(caller context.Context, n int, do func(engine *transform.Engine, i int) error) error {
	return p.do(caller, n, func(w *worker, i int) error { return do(w.engine, i) })
}

func (p *Pool) do(caller context.Context, n int, do func(w *worker, i int) error) error {
	if n == 0 {
		return caller.Err()
	}
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	q, err := p.scheduler.open(cancel, nil, false)
	if err != nil {
		return err
	}
	j := &job{n: n, do: do, done: make(chan struct{})}
	p.scheduler.publish(q, j)
	select {
	case <-j.done:
	case <-ctx.Done():
		if err = caller.Err(); err == nil {
			err = ErrClosed
		}
		j.fail(err)
	}
	p.scheduler.close(q) // no worker is in it any more
	return j.err
}

func (j *job) Exhausted() bool  { return j.next.Load() >= int64(j.n) }
func (j *job) AtHand() bool     { return !j.Exhausted() }
func (j *job) ForRemotes() bool { return false }
func (j *job) Want()            {}
func (j *job) release()         { close(j.done) }

func (j *job) work(w *worker, t *turn) {
	for !t.over() {
		i := int(j.next.Add(1)) - 1
		if i >= j.n {
			return
		}
		if err := j.call(w, i); err != nil {
			j.fail(err)
		}
	}
}

// call does one. A panic is its error.
func (j *job) call(w *worker, i int) error {
	err := shard.Guard(func() error { return j.do(w, i) })
	if panicked, ok := err.(*shard.PanicError); ok {
		err = fmt.Errorf("loader: %v", panicked.Value)
		w.engine = transform.NewEngine(w.level) // The state of the other one is unknown.
	}
	w.counted = w.engine.Times() // The job's time stays out of the streams' statistics.
	return err
}

// fail notes an error, and leaves the rest undone.
func (j *job) fail(err error) {
	j.failed.Do(func() {
		j.err = err
		j.next.Store(int64(j.n))
	})
}

// DecodeWhole makes the workers read and decode whole images over and over, a batch of the plan at a time, until ctx ends or one fails.
// It serves to measure decoding alone.
func (p *Pool) DecodeWhole(ctx context.Context, set *Dataset, order *plan.Plan) error {
	return p.do(ctx, math.MaxInt32, func(w *worker, k int) error {
		for _, index := range order.Batch(k%order.Batches(), nil) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			err := w.guard(set, index, func() error {
				if err := w.read(set, readahead.Sample{Index: index}, true); err != nil {
					return err
				}
				_, _, _, err := w.engine.DecodeFull(w.source(set))
				return err
			})
			if err != nil {
				return newSampleError(set, index, err)
			}
			w.publish()
		}
		return nil
	})
}
