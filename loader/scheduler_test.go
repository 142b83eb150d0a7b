package loader

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// pendingOf returns a batch of n samples for a queue, published.
func pendingOf(s *scheduler, q *streamQueue, n int) *pendingBatch {
	b := &pendingBatch{stream: &Stream{queue: q, spare: make(chan *pendingBatch, 1)}, Piece: Piece{Indices: make([]int, n)}}
	b.holders.Store(1) // the scheduler's alone
	s.publish(q, b)
	return b
}

// take takes the samples of a turn that the batch has, each of which takes so long.
func (t turn) take(cost time.Duration) (turn, int) {
	b := t.work.(*pendingBatch)
	already, _ := split(b.taken.Load())
	taken := min(t.samples, len(b.Indices)-already)
	b.taken.Add(uint64(taken))
	t.busy = time.Duration(taken) * cost
	t.samples -= taken
	return t, taken
}

// TestSchedulerTakesTurns deals batches of two queues, the oldest first, until their samples are taken. A sample takes an eighth of a turn.
func TestSchedulerTakesTurns(t *testing.T) {
	s := newScheduler()
	var queues [2]*streamQueue
	for i := range queues {
		var err error
		if queues[i], err = s.open(func() {}); err != nil {
			t.Fatal(err)
		}
		queues[i].cost = turnTime / 8
	}
	a1, a2, b1 := pendingOf(s, queues[0], 12), pendingOf(s, queues[0], 4), pendingOf(s, queues[1], 20)
	var waited atomic.Int64
	var last turn
	for i, want := range []struct {
		batch   *pendingBatch
		samples int
	}{{a1, 8}, {b1, 8}, {a1, 8}, {b1, 8}, {a2, 4}, {b1, 8}} {
		if last = s.next(localWorker{}, last, &waited); last.work != want.batch || last.samples != want.samples {
			t.Fatalf("turn %d is another one: %+v", i, last)
		}
		last, _ = last.take(turnTime / 8)
	}
	s.publish(queues[0], a2) // it is exhausted, so that the last turn is left and nothing is dealt
	s.mu.Lock()
	s.leaveLocked(last)
	s.mu.Unlock()
	if queues[0].account != 2*turnTime || queues[1].account != 20*turnTime/8 {
		t.Errorf("accounts of %v and %v", queues[0].account, queues[1].account)
	}
	if waited.Load() != 0 {
		t.Error("a worker waited although there was work")
	}
}

// TestSchedulerKeepsABatchThatIsWorkedOn has two workers in the batches of a queue.
func TestSchedulerKeepsABatchThatIsWorkedOn(t *testing.T) {
	s := newScheduler()
	l, err := s.open(func() {})
	if err != nil {
		t.Fatal(err)
	}
	a1, a2 := pendingOf(s, l, 20), pendingOf(s, l, 4)
	var waited atomic.Int64
	first := s.next(localWorker{}, turn{}, &waited)
	if first.work != a1 || first.samples != 20 {
		t.Fatalf("with a streamQueue alone: %+v", first)
	}
	first, _ = first.take(1) // its last sample is taken, its worker is still in it
	second := s.next(localWorker{}, turn{}, &waited)
	if second.work != a2 || len(a1.stream.spare) != 0 {
		t.Fatal("a batch is dropped while a worker is in it")
	}
	if got := s.next(localWorker{}, first, &waited); got.work != a2 || len(a1.stream.spare) != 1 {
		t.Errorf("after the first batch: dropped %d times, and not followed by the second", len(a1.stream.spare))
	}
}

// TestSchedulerDealsByTime has queues of different batches, whose samples take from 20 µs to 5 ms, of which some have no work now and
// then, and one comes late: each gets as much of the time.
func TestSchedulerDealsByTime(t *testing.T) {
	s := newScheduler()
	sizes := []int{1, 4, 4, 32, 128, 256}
	costs := []time.Duration{200 * time.Microsecond, 20 * time.Microsecond, 5 * time.Millisecond, 300 * time.Microsecond, time.Millisecond, 50 * time.Microsecond}
	queues, used := make([]*streamQueue, len(sizes)), make([]time.Duration, len(sizes))
	open := func(i int) {
		queues[i], _ = s.open(func() {})
		pendingOf(s, queues[i], sizes[i])
		pendingOf(s, queues[i], sizes[i])
	}
	for i := range sizes[1:] {
		open(i)
	}
	var waited atomic.Int64
	turns, late := 0, len(sizes)-1
	for last := (turn{}); turns < 60_000; turns++ {
		if turns == 30_000 {
			clear(used)
			open(late)
		}
		last = s.next(localWorker{}, last, &waited)
		at, taken := slices.Index(queues, last.work.queueOf()), 0
		last, taken = last.take(costs[at])
		used[at] += time.Duration(taken) * costs[at]
		if last.work.exhausted() && (turns%3 > 0 || queues[at].oldestLocked() == nil) { // its client is late at times
			pendingOf(s, queues[at], sizes[at])
		}
	}
	for i, n := range used {
		if mean := used[0]; math.Abs(float64(n-mean)) > 0.02*float64(mean) {
			t.Errorf("batches of %d samples of %v got %v, of %d samples of %v %v", sizes[i], costs[i], n, sizes[0], costs[0], mean)
		}
	}
}

// TestSchedulerOnABusyMachine has 16 queues. A quarter of the turns take a thousand times as long, as when the system runs others in between:
// each queue still gets about as many samples.
func TestSchedulerOnABusyMachine(t *testing.T) {
	s := newScheduler()
	queues, taken := make([]*streamQueue, 16), make([]int, 16)
	for i := range queues {
		queues[i], _ = s.open(func() {})
		pendingOf(s, queues[i], 1+i%8)
	}
	rng, last, waited := rand.New(rand.NewPCG(1, 2)), turn{}, atomic.Int64{}
	for range 20_000 {
		last = s.next(localWorker{}, last, &waited)
		at, n, cost := slices.Index(queues, last.work.queueOf()), 0, 200*time.Microsecond
		if rng.IntN(4) == 0 {
			cost *= 1000
		}
		last, n = last.take(cost)
		if taken[at] += n; last.work.exhausted() {
			pendingOf(s, queues[at], 1+at%8)
		}
	}
	if least, most := slices.Min(taken), slices.Max(taken); 4*most > 5*least {
		t.Errorf("the queues got %v samples", taken)
	}
}

// TestSchedulerBoundsCredit has a queue stand still for long: then it gets ahead of the others by no more than the credit.
func TestSchedulerBoundsCredit(t *testing.T) {
	s := newScheduler()
	busy, _ := s.open(func() {})
	still, _ := s.open(func() {})
	const cost = turnTime / 8
	busy.cost, still.cost = cost, cost
	var waited atomic.Int64
	var last turn
	for range 10_000 {
		if busy.oldestLocked() == nil {
			pendingOf(s, busy, 64)
		}
		last = s.next(localWorker{}, last, &waited)
		last, _ = last.take(cost)
	}
	pendingOf(s, still, 1<<20)
	pendingOf(s, busy, 1<<20)
	ahead := 0
	for ; ; ahead++ {
		if last = s.next(localWorker{}, last, &waited); last.work.queueOf() == busy {
			break
		}
		last, _ = last.take(cost)
	}
	if want := int(creditTime / turnTime); ahead < want || ahead > want+1 {
		t.Errorf("%d turns before the others', want %d", ahead, want)
	}
}

// TestSchedulerCloseWaits closes a queue with a worker in one of its batches.
func TestSchedulerCloseWaits(t *testing.T) {
	s := newScheduler()
	l, err := s.open(func() {})
	if err != nil {
		t.Fatal(err)
	}
	b := pendingOf(s, l, 9)
	var waited atomic.Int64
	got := s.next(localWorker{}, turn{}, &waited)
	if got.work != b {
		t.Fatal("another batch")
	}
	closed := make(chan struct{})
	go func() { s.close(l); close(closed) }()
	select {
	case <-closed:
		t.Fatal("close returned with a worker in the batch")
	case <-time.After(20 * time.Millisecond):
	}
	left := make(chan turn)
	go func() { left <- s.next(localWorker{}, got, &waited) }() // leaves, and waits for work that never comes
	within(t, "close", func() { <-closed })
	s.shutDown()
	within(t, "next", func() {
		if (<-left).work != nil {
			t.Error("a closed streamQueue's batch is dealt again")
		}
	})
	if waited.Load() <= 0 {
		t.Error("the time without work is not counted")
	}
}

func TestSchedulerShutDown(t *testing.T) {
	s, cancelled := newScheduler(), false
	l, err := s.open(func() { cancelled = true })
	if err != nil {
		t.Fatal(err)
	}
	pendingOf(s, l, 1)
	s.shutDown()
	if s.next(localWorker{}, turn{}, new(atomic.Int64)).work != nil || !cancelled {
		t.Error("workers go on, or the stream is not cancelled")
	}
	if _, err := s.open(func() {}); !errors.Is(err, ErrClosed) {
		t.Errorf("a stream after the end: %v", err)
	}
	s.close(l)
}
