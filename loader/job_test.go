package loader

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/transform"
)

// TestDo has the workers do jobs beside a stream: all of each, or up to the first error.
func TestDo(t *testing.T) {
	onTestClock(t, func(t *testing.T) {
		p := newTestPool(t, 3)
		set := newMemorySet(t, 32)
		openStream(t, p, testStream(t, set, plan.Config{Samples: 32, Partitions: 1, World: 1, BatchSize: 4}, 3))
		var done [100]atomic.Int32
		testenv.OK(t, p.Do(t.Context(), len(done), func(engine *transform.Engine, i int) error {
			if engine == nil {
				return errors.New("no engine")
			}
			done[i].Add(1)
			return nil
		}))
		for i := range done {
			testenv.Equal(t, done[i].Load(), 1, "times that %d was done", i)
		}
		bad := errors.New("bad")
		calls := atomic.Int32{}
		err := p.Do(t.Context(), 1000, func(_ *transform.Engine, i int) error {
			calls.Add(1)
			if time.Sleep(time.Millisecond); i == 5 {
				return bad
			}
			return nil
		})
		testenv.Check(t, err == bad && calls.Load() <= 5+3+3, "%v, after %d calls", err, calls.Load())
		testenv.Equal(t, p.Do(t.Context(), 1, func(*transform.Engine, int) error { panic("broken") }).Error(), "loader: broken", "a panic")
		testenv.OK(t, p.Do(t.Context(), 0, nil))
		sleep := func(*transform.Engine, int) error { time.Sleep(time.Millisecond); return nil }
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		testenv.Check(t, errors.Is(p.Do(ctx, 1<<20, sleep), context.DeadlineExceeded), "Do outlives its context")
		time.AfterFunc(20*time.Millisecond, p.Close)
		testenv.Check(t, errors.Is(p.Do(t.Context(), 1<<20, sleep), ErrClosed), "Do outlives its pool")
		testenv.Check(t, errors.Is(p.Do(t.Context(), 1, sleep), ErrClosed), "a closed pool does jobs")
	})
}

// TestStopwatch reads a wait that lasts and one that is over. What does not hold cannot end.
func TestStopwatch(t *testing.T) {
	onTestClock(t, func(t *testing.T) {
		var slots SlotPool
		check := func(want Waits) {
			t.Helper()
			testenv.Equal(t, slots.Waits(), want, "waits")
		}
		check(Waits{})
		slots.idle.set(true)
		time.Sleep(2 * time.Second)
		check(Waits{Client: 2 * time.Second, ClientNow: true})
		slots.idle.set(false)
		time.Sleep(time.Second)
		slots.idle.set(false)
		slots.reads.set(true)
		check(Waits{Client: 2 * time.Second, ReadsNow: true})
		time.Sleep(time.Second)
		slots.reads.set(false)
		slots.idle.set(true)
		time.Sleep(time.Second)
		check(Waits{Client: 3 * time.Second, Reads: time.Second, ClientNow: true})
	})
}
