package loader

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// pendingOf returns a batch of n samples for a lane, published.
func pendingOf(s *scheduler, l *lane, n int) *pendingBatch {
	b := &pendingBatch{stream: &Stream{lane: l, spare: make(chan *pendingBatch, 1)}, indices: make([]int, n)}
	b.holders.Store(1) // the scheduler's alone
	s.publish(l, b)
	return b
}

// TestSchedulerTakesTurns deals batches of two lanes, the oldest first, until their samples are taken.
func TestSchedulerTakesTurns(t *testing.T) {
	s := newScheduler()
	var lanes [2]*lane
	for i := range lanes {
		var err error
		if lanes[i], err = s.open(func() {}); err != nil {
			t.Fatal(err)
		}
	}
	a1, a2, b1 := pendingOf(s, lanes[0], 2), pendingOf(s, lanes[0], 2), pendingOf(s, lanes[1], 2)
	var waited atomic.Int64
	var last *pendingBatch
	for i, want := range []*pendingBatch{a1, b1, a1, b1, a1} {
		if last = s.next(last, &waited); last != want {
			t.Fatalf("turn %d is another batch's", i)
		}
	}
	a1.next.Store(2) // its last sample is taken, its worker is still in it
	if got := s.next(nil, &waited); got != b1 {
		t.Fatal("the second worker is not sent to the other lane")
	}
	if len(a1.stream.spare) != 0 {
		t.Fatal("a batch is dropped while a worker is in it")
	}
	if got := s.next(a1, &waited); got != a2 || len(a1.stream.spare) != 1 {
		t.Errorf("after the first batch: dropped %d times, and not followed by the second", len(a1.stream.spare))
	}
	if waited.Load() != 0 {
		t.Error("a worker waited although there was work")
	}
}

// TestSchedulerCloseWaits closes a lane with a worker in one of its batches.
func TestSchedulerCloseWaits(t *testing.T) {
	s := newScheduler()
	l, err := s.open(func() {})
	if err != nil {
		t.Fatal(err)
	}
	b := pendingOf(s, l, 9)
	var waited atomic.Int64
	if s.next(nil, &waited) != b {
		t.Fatal("another batch")
	}
	closed := make(chan struct{})
	go func() { s.close(l); close(closed) }()
	select {
	case <-closed:
		t.Fatal("close returned with a worker in the batch")
	case <-time.After(20 * time.Millisecond):
	}
	left := make(chan *pendingBatch)
	go func() { left <- s.next(b, &waited) }() // leaves, and waits for work that never comes
	within(t, "close", func() { <-closed })
	s.shutDown()
	within(t, "next", func() {
		if <-left != nil {
			t.Error("a closed lane's batch is dealt again")
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
	if s.next(nil, new(atomic.Int64)) != nil || !cancelled {
		t.Error("workers go on, or the stream is not cancelled")
	}
	if _, err := s.open(func() {}); !errors.Is(err, ErrClosed) {
		t.Errorf("a stream after the end: %v", err)
	}
	s.close(l)
}
