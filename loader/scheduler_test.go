package loader

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// pendingOf returns a batch of n samples for a queue, published.
func pendingOf(s *scheduler, q *streamQueue, n int) *pendingBatch {
	b := &pendingBatch{stream: &Stream{queue: q, spare: make(chan *pendingBatch, 1)}, indices: make([]int, n)}
	b.holders.Store(1) // the scheduler's alone
	s.publish(q, b)
	return b
}

// take takes the samples of a turn, but for some.
func (t turn) take(left int) turn {
	t.batch.next.Add(int64(t.samples - left))
	return turn{t.batch, left}
}

// TestSchedulerTakesTurns deals batches of two queues, the oldest first, until their samples are taken.
func TestSchedulerTakesTurns(t *testing.T) {
	s := newScheduler()
	var queues [2]*streamQueue
	for i := range queues {
		var err error
		if queues[i], err = s.open(func() {}); err != nil {
			t.Fatal(err)
		}
	}
	a1, a2, b1 := pendingOf(s, queues[0], 12), pendingOf(s, queues[0], 4), pendingOf(s, queues[1], 20)
	var waited atomic.Int64
	var last turn
	for i, want := range []turn{{a1, 8}, {b1, 8}, {a1, 8}, {b1, 8}, {a2, 4}, {b1, 8}} {
		if last = s.next(last, &waited); last != want {
			t.Fatalf("turn %d is another one: %+v", i, last)
		}
		left := 0
		if i == 2 {
			left = 4 // a1 had no more
		}
		last = last.take(left)
	}
	if queues[0].account != 16 || queues[1].account != 24 {
		t.Errorf("%d and %d samples were dealt", queues[0].account, queues[1].account)
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
	if got := s.next(turn{}, &waited); got != (turn{a1, 20}) {
		t.Fatalf("with a streamQueue alone: %+v", got)
	}
	a1.next.Store(20) // its last sample is taken, its worker is still in it
	second := s.next(turn{}, &waited)
	if second.batch != a2 || len(a1.stream.spare) != 0 {
		t.Fatal("a batch is dropped while a worker is in it")
	}
	if got := s.next(turn{a1, 0}, &waited); got.batch != a2 || len(a1.stream.spare) != 1 {
		t.Errorf("after the first batch: dropped %d times, and not followed by the second", len(a1.stream.spare))
	}
}

// TestSchedulerDealsByImage has queues of different batches, of which some have no work now and then, and one comes late.
func TestSchedulerDealsByImage(t *testing.T) {
	s := newScheduler()
	sizes := []int{1, 4, 4, 32, 128, 256}
	queues, dealt := make([]*streamQueue, len(sizes)), make([]int, len(sizes))
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
	for last := (turn{}); turns < 40_000; turns++ {
		if turns == 20_000 {
			clear(dealt)
			open(late)
		}
		last = s.next(last, &waited)
		taken := min(last.samples, len(last.batch.indices)-int(last.batch.next.Load()))
		at := slices.Index(queues, last.batch.stream.queue)
		dealt[at] += taken
		last = last.take(last.samples - taken)
		if last.batch.exhausted() && (turns%3 > 0 || queues[at].oldestLocked() == nil) { // its client is late at times
			pendingOf(s, queues[at], sizes[at])
		}
	}
	for i, n := range dealt {
		if mean := dealt[0]; math.Abs(float64(n-mean)) > 0.02*float64(mean) {
			t.Errorf("batches of %d got %d samples, of %d %d", sizes[i], n, sizes[0], mean)
		}
	}
}

// TestSchedulerBoundsCredit has a queue stand still for long: then it gets ahead of the others by no more than the credit.
func TestSchedulerBoundsCredit(t *testing.T) {
	s := newScheduler()
	busy, _ := s.open(func() {})
	still, _ := s.open(func() {})
	var waited atomic.Int64
	var last turn
	for range 10_000 {
		if busy.oldestLocked() == nil {
			pendingOf(s, busy, 64)
		}
		last = s.next(last, &waited)
		last = last.take(0)
	}
	pendingOf(s, still, 1<<20)
	pendingOf(s, busy, 1<<20)
	ahead := 0
	for ; ; ahead++ {
		if last = s.next(last, &waited); last.batch.stream.queue == busy {
			break
		}
		last = last.take(0)
	}
	if want := creditSamples / turnSamples; ahead < want || ahead > want+1 {
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
	got := s.next(turn{}, &waited)
	if got.batch != b {
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
	go func() { left <- s.next(got, &waited) }() // leaves, and waits for work that never comes
	within(t, "close", func() { <-closed })
	s.shutDown()
	within(t, "next", func() {
		if (<-left).batch != nil {
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
	if s.next(turn{}, new(atomic.Int64)).batch != nil || !cancelled {
		t.Error("workers go on, or the stream is not cancelled")
	}
	if _, err := s.open(func() {}); !errors.Is(err, ErrClosed) {
		t.Errorf("a stream after the end: %v", err)
	}
	s.close(l)
}
