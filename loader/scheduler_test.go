package loader

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/transform"
)

// countedWork is n samples in memory.
type countedWork struct{ n, taken, released int }

func (w *countedWork) Exhausted() bool     { return w.taken == w.n }
func (w *countedWork) AtHand() bool        { return w.taken < w.n }
func (w *countedWork) ForRemotes() bool    { return w.taken < w.n }
func (w *countedWork) Want()               {}
func (w *countedWork) work(*worker, *turn) {}
func (w *countedWork) release()            { w.released++ }

// pendingOf returns a batch of n samples for a queue, published.
func pendingOf(s *scheduler, q *streamQueue, n int) *countedWork {
	b := &countedWork{n: n}
	s.publish(q, b)
	return b
}

// take takes up to so many samples of a turn's batch, each of which takes so long, and returns how many there were.
func (t turn) take(samples int, cost time.Duration) int {
	b := t.work.(*countedWork)
	taken := min(samples, b.n-b.taken)
	b.taken += taken
	time.Sleep(time.Duration(taken) * cost)
	return taken
}

// oldest returns the oldest batch of a queue with samples at hand, or nil.
func (q *streamQueue) oldest() work {
	for _, e := range q.entries {
		if e.work.AtHand() {
			return e.work
		}
	}
	return nil
}

// TestSchedulerTakesTurns deals batches of two queues, the oldest first, until their samples are taken. A sample takes an eighth of a turn.
func TestSchedulerTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler()
		first, _ := s.open(func() {}, nil, false)
		second, _ := s.open(func() {}, nil, false)
		a1, a2, b1 := pendingOf(s, first, 12), pendingOf(s, first, 4), pendingOf(s, second, 20)
		var c counters
		var last turn
		for i, want := range []*countedWork{a1, b1, a1, b1, a2, b1} {
			last = s.next(localWorker{}, last, &c)
			testenv.Require(t, last.work == want && !last.over(), "turn %d is another one: %+v", i, last)
			testenv.Check(t, last.take(8, turnTime/8) != 8 || last.over(), "turn %d is not over", i)
		}
		s.mu.Lock()
		s.leaveLocked(last)
		s.mu.Unlock()
		testenv.Check(t, first.account == 2*turnTime && second.account == 20*turnTime/8 && c.wait.Load() == 0,
			"accounts of %v and %v; a worker waited for %d ns", first.account, second.account, c.wait.Load())
	})
}

// TestSchedulerKeepsABatchThatIsWorkedOn has two workers in the batches of a queue, which has nobody to take turns with.
func TestSchedulerKeepsABatchThatIsWorkedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler()
		q, _ := s.open(func() {}, nil, false)
		a1, a2 := pendingOf(s, q, 20), pendingOf(s, q, 4)
		var c counters
		first := s.next(localWorker{}, turn{}, &c)
		first.take(20, turnTime)
		testenv.Require(t, first.work == a1 && !first.over(), "with a streamQueue alone: %+v", first)
		second := s.next(localWorker{}, turn{}, &c)
		testenv.Require(t, second.work == a2 && a1.released == 0, "a batch is dropped while a worker is in it")
		got := s.next(localWorker{}, first, &c)
		testenv.Check(t, got.work == a2 && a1.released == 1,
			"after the first batch: dropped %d times, and not followed by the second", a1.released)
	})
}

// TestSchedulerDealsByTime has queues of different batches, whose samples take from 20 µs to 5 ms, of which some have no work now and
// then, and one comes late: each gets as much of the time.
func TestSchedulerDealsByTime(t *testing.T) {
	sizes := []int{1, 4, 4, 32, 128, 256}
	costs := []time.Duration{200 * time.Microsecond, 20 * time.Microsecond, 5 * time.Millisecond, 300 * time.Microsecond, time.Millisecond, 50 * time.Microsecond}
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler()
		queues, used := make([]*streamQueue, len(sizes)), make([]time.Duration, len(sizes))
		open := func(i int) {
			queues[i], _ = s.open(func() {}, nil, false)
			pendingOf(s, queues[i], sizes[i])
			pendingOf(s, queues[i], sizes[i])
		}
		for i := range sizes[1:] {
			open(i)
		}
		var c counters
		turns, late := 0, len(sizes)-1
		for last := (turn{}); turns < 60_000; turns++ {
			if turns == 30_000 {
				clear(used)
				open(late)
			}
			last = s.next(localWorker{}, last, &c)
			at := slices.Index(queues, last.queue)
			used[at] += time.Duration(last.take(max(1, int(turnTime/costs[at])), costs[at])) * costs[at]
			if last.work.Exhausted() && (turns%3 > 0 || queues[at].oldest() == nil) { // its client is late at times
				pendingOf(s, queues[at], sizes[at])
			}
		}
		for i, n := range used {
			mean := used[0]
			testenv.Check(t, math.Abs(float64(n-mean)) <= 0.02*float64(mean),
				"batches of %d samples of %v got %v, of %d samples of %v %v", sizes[i], costs[i], n, sizes[0], costs[0], mean)
		}
	})
}

// TestSchedulerOnABusyMachine has 16 queues. A quarter of the turns take a thousand times as long, as when the system runs others in between:
// each queue still gets about as many samples.
func TestSchedulerOnABusyMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler()
		queues, taken := make([]*streamQueue, 16), make([]int, 16)
		for i := range queues {
			queues[i], _ = s.open(func() {}, nil, false)
			pendingOf(s, queues[i], 1+i%8)
		}
		rng, last, c := rand.New(rand.NewPCG(1, 2)), turn{}, counters{}
		for range 60_000 {
			last = s.next(localWorker{}, last, &c)
			at, cost := slices.Index(queues, last.queue), 200*time.Microsecond
			if rng.IntN(4) == 0 {
				cost *= 1000
			}
			if taken[at] += last.take(5, cost); last.work.Exhausted() {
				pendingOf(s, queues[at], 1+at%8)
			}
		}
		least, most := slices.Min(taken), slices.Max(taken)
		testenv.Check(t, 4*most <= 5*least, "the queues got %v samples", taken)
	})
}

// TestInterruptedTurnsCostNoMore has two queues. Every turn of one of them is interrupted for ten times as long as it works: both get as
// many turns.
func TestInterruptedTurnsCostNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler()
		quiet, _ := s.open(func() {}, nil, false)
		interrupted, _ := s.open(func() {}, nil, false)
		pendingOf(s, quiet, 1<<20)
		pendingOf(s, interrupted, 1<<20)
		turns, last, c := 0, turn{}, counters{}
		for range 1000 {
			last = s.next(localWorker{}, last, &c)
			last.take(8, turnTime/8)
			if last.queue == interrupted {
				turns++
				time.Sleep(10 * turnTime)
			}
			last.charge(turnTime, 0)
		}
		testenv.Check(t, turns == 500, "the queue with the interruptions got %d of 1000 turns", turns)
	})
}

// TestTurnCharge charges a turn of 10 ms.
func TestTurnCharge(t *testing.T) {
	for _, c := range []struct{ processor, reads, want time.Duration }{
		{3, 0, 3}, {3, 4, 7},
		{9, 9, 10},   // a read's processor time is in both
		{900, 0, 10}, // from the clock of another thread, as is the next one
		{-900, 4, 10},
		{0, 0, 10}, // no clock of the thread
	} {
		synctest.Test(t, func(t *testing.T) {
			turn := turn{began: time.Now()}
			time.Sleep(10 * time.Millisecond)
			turn.charge(c.processor*time.Millisecond, c.reads*time.Millisecond)
			testenv.Equal(t, turn.cost, c.want*time.Millisecond, "%d ms of the processor and %d ms of reads", c.processor, c.reads)
		})
	}
}

// TestSchedulerBoundsCredit has a queue stand still for long: then it gets ahead of the others by no more than the credit.
func TestSchedulerBoundsCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler()
		busy, _ := s.open(func() {}, nil, false)
		still, _ := s.open(func() {}, nil, false)
		var c counters
		var last turn
		for range 1_000 {
			if busy.oldest() == nil {
				pendingOf(s, busy, 64)
			}
			last = s.next(localWorker{}, last, &c)
			last.take(8, turnTime/8)
		}
		pendingOf(s, still, 1<<20)
		pendingOf(s, busy, 1<<20)
		ahead := 0
		for ; ; ahead++ {
			if last = s.next(localWorker{}, last, &c); last.queue == busy {
				break
			}
			last.take(8, turnTime/8)
		}
		want := int(creditTime / turnTime)
		testenv.Check(t, ahead >= want && ahead <= want+1, "%d turns before the others', want %d", ahead, want)
	})
}

// TestSchedulerCloseWaits closes a queue with a worker in one of its batches.
func TestSchedulerCloseWaits(t *testing.T) {
	s := newScheduler()
	l := testenv.Must(s.open(func() {}, nil, false))(t)
	b := pendingOf(s, l, 9)
	var c counters
	got := s.next(localWorker{}, turn{}, &c)
	testenv.Require(t, got.work == b, "another batch")
	closed := make(chan struct{})
	go func() { s.close(l); close(closed) }()
	select {
	case <-closed:
		t.Fatal("close returned with a worker in the batch")
	case <-time.After(20 * time.Millisecond):
	}
	left := make(chan turn)
	go func() { left <- s.next(localWorker{}, got, &c) }() // leaves, and waits for work that never comes
	<-closed
	s.shutDown()
	testenv.Check(t, (<-left).work == nil, "a closed streamQueue's batch is dealt again")
	testenv.Check(t, c.wait.Load() > 0, "the time without work is not counted")
}

func TestSchedulerShutDown(t *testing.T) {
	s, cancelled := newScheduler(), false
	l := testenv.Must(s.open(func() { cancelled = true }, nil, false))(t)
	pendingOf(s, l, 1)
	s.shutDown()
	testenv.Check(t, s.next(localWorker{}, turn{}, new(counters)).work == nil && cancelled, "workers go on, or the stream is not cancelled")
	testenv.Fails(s.open(func() {}, nil, false))(t, ErrClosed, "a stream after the end")
	s.close(l)
}

// TestStreamsShareByTime runs streams of small batches beside streams of large ones, whose samples take as long: each gets about as
// many images. The clock is synctest's, so that it shows the scheduler's account and not the machine's other work.
func TestStreamsShareByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, 16)
		sizes := []int{1, 4, 4, 4, 4, 128, 128, 128, 128, 256}
		sets := make([]*memorySet, len(sizes))
		for i, size := range sizes {
			// An epoch that does not end before the test: repetitions of few samples.
			selection := testenv.Must(plan.NewSelection(plan.SelectionConfig{Samples: 64, Repeats: 1 << 14, Positions: 1 << 20}))(t)
			sets[i] = newMemorySet(t, 64)
			sets[i].delay = 200 * time.Microsecond
			slots := min(max(1<<9/size, 3), 16) // as the server does
			cfg := testStream(t, sets[i], plan.Config{Samples: 64, Partitions: 1, World: 1, BatchSize: size, Selection: selection}, slots)
			stream := openStream(t, p, cfg)
			go func() {
				for {
					b, err := stream.Next(t.Context())
					if err != nil {
						return
					}
					cfg.Slots.Put(b.Slot)
				}
			}()
		}
		taken := func() []float64 {
			n := make([]float64, len(sets))
			for i, set := range sets {
				n[i] = float64(set.reads.Load())
			}
			return n
		}
		time.Sleep(100 * time.Millisecond) // until all run
		before := taken()
		time.Sleep(500 * time.Millisecond)
		got, mean := taken(), 0.0
		for i := range got {
			got[i] -= before[i]
			mean += got[i] / float64(len(got))
		}
		for i, n := range got {
			testenv.Check(t, math.Abs(n-mean) <= 0.1*mean, "batches of %d got %.0f images, the mean is %.0f", sizes[i], n, mean)
		}
	})
}

// TestDo has the workers do jobs beside a stream: all of each, or up to the first error.
func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
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
