package loader

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/loader/plan"
)

// diskSet is a set on a disk that tests look at: what was asked for, and what was in memory.
type diskSet struct {
	*memorySet
	size  int64 // of each sample
	waits bool  // to ask may take as long as reading
	drops bool  // hints

	share  float64 // that the page cache has room for
	places int     // for reads past it; 0: there are none
	lost   int     // every lostth of those fails

	opening time.Duration // that Direct takes

	mu     sync.Mutex
	inside map[int]bool // in memory
	asked  []int        // by Prefetch, in order
	probed int          // calls of Resident
	copies bool
	direct []*fakeDirect // that were made
}

func newDiskSet(t *testing.T, samples int) *diskSet {
	return &diskSet{memorySet: newMemorySet(t, samples), size: 1 << 20, share: 1, inside: map[int]bool{}}
}

func (s *diskSet) Resident(i int) (resident, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probed++
	return s.inside[i], s.waits
}

func (s *diskSet) DropsHints() bool { return s.drops }

func (s *diskSet) Prefetch(i int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, i)
	return s.size
}

func (s *diskSet) Copy(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copies = on
}

func (s *diskSet) evict(inside bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.blobs {
		s.inside[i] = inside
	}
}

func (s *diskSet) state() (asked []int, copies bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked), s.copies
}

// eventually waits until something is true that a goroutine is about to bring about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%s did not come about", what)
		}
	}
}

// indices returns all samples of a plan.
func indices(p *plan.Plan) (all []int) {
	for b := range p.Batches() {
		all = append(all, p.Batch(b, nil)...)
	}
	return all
}

// TestAheadFollowsThePlan checks that what is read ahead is the plan's samples in its order, and then the next epoch's.
func TestAheadFollowsThePlan(t *testing.T) {
	set := newDiskSet(t, 100)
	pool := NewPool(PoolConfig{Threads: 2, ReadAheadBytes: 30 << 20})
	defer pool.Close()
	cfg := testStream(t, set, plan.Config{Samples: 100, BatchSize: 8, Shuffle: true, Seed: 3, Epoch: 4, Consumed: 16}, 3)
	want := indices(cfg.Plan)
	want = append(want, indices(mustPlan(t, plan.Config{Samples: 100, BatchSize: 8, Shuffle: true, Seed: 3, Epoch: 5}))...)
	stream, err := pool.NewStream(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for {
		b, err := stream.Next(context.Background())
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		cfg.Slots.Put(b.Slot)
	}
	ahead := func() []int { asked, _ := set.state(); return asked }
	// Those that workers have come to by themselves are passed over; at the end, 30 samples of the next epoch are asked for.
	eventually(t, "the next epoch's samples", func() bool { return slices.Contains(ahead(), want[84+25]) })
	at := 0
	for _, index := range ahead() {
		for want[at] != index {
			if at++; at == len(want) {
				t.Fatalf("%v is not in the order of %v", ahead(), want)
			}
		}
		at++
	}
	if at > 84+30 {
		t.Errorf("%d samples of the next epoch were asked for, and there is room for 30", at-84)
	}
}

// TestAheadIsBounded checks that no more is read ahead than there is memory for, by one stream and by several.
func TestAheadIsBounded(t *testing.T) {
	pool := NewPool(PoolConfig{Threads: 1, ReadAheadBytes: 32 << 20})
	defer pool.Close()
	open := func(gate chan struct{}) (*diskSet, *Stream) {
		set := newDiskSet(t, 1000)
		set.gate = gate
		stream, err := pool.NewStream(testStream(t, set, plan.Config{Samples: 1000, BatchSize: 10}, 2))
		if err != nil {
			t.Fatal(err)
		}
		return set, stream
	}
	gate := make(chan struct{})
	defer close(gate)
	set, stream := open(gate)
	count := func(s *diskSet) int { asked, _ := s.state(); return len(asked) }
	eventually(t, "32 MiB", func() bool { return count(set) >= 32 })
	set2, stream2 := open(gate)
	eventually(t, "16 MiB", func() bool { return count(set2) >= 16 })
	time.Sleep(10 * time.Millisecond)
	begun := int(stream.ahead.taken.Load() + stream2.ahead.taken.Load())
	if a, b := count(set), count(set2); a > 32+begun || b > 16+begun {
		t.Errorf("%d and %d samples of a MiB were asked for, of which workers have begun %d; there is room for 32, and for 16 beside another stream", a, b, begun)
	}
	// A worker waits at the gate; closing needs one token for the sample at hand.
	closed := make(chan struct{})
	go func() { stream.Close(); stream2.Close(); close(closed) }()
	for done := false; !done; {
		select {
		case gate <- struct{}{}:
		case <-closed:
			done = true
		}
	}
	if cold := pool.ahead.cold.Load(); cold != 0 {
		t.Errorf("%d streams hold a share after the last was closed", cold)
	}
}

// TestAheadRests checks that a set in memory is left alone, and that samples which have gone are noticed.
func TestAheadRests(t *testing.T) {
	for _, waits := range []bool{false, true} {
		set := newDiskSet(t, 2000)
		set.waits, set.size = waits, 1000
		set.evict(true)
		pool := newTestPool(t, 1)
		cfg := testStream(t, set, plan.Config{Samples: 2000, BatchSize: 100}, 1)
		stream, err := pool.NewStream(cfg)
		if err != nil {
			t.Fatal(err)
		}
		copies := func() bool { _, copies := set.state(); return copies }
		eventually(t, "warmth", func() bool { return !copies() })
		asked, _ := set.state()
		if !waits && len(asked) > 0 || set.probed > 300 {
			t.Errorf("waits %v: %d samples in memory were looked at and %d asked for", waits, set.probed, len(asked))
		}
		set.evict(false)
		next := func() {
			b, err := stream.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			cfg.Slots.Put(b.Slot)
		}
		next()
		next()
		eventually(t, "that samples are read again", func() bool { now, _ := set.state(); return copies() && len(now) > len(asked) })
		stream.Close()
	}
}

// TestAheadOfABadSample checks that reading ahead leaves it to the worker to say what is wrong with a sample.
func TestAheadOfABadSample(t *testing.T) {
	set := newDiskSet(t, 60)
	set.bad[33] = io.ErrUnexpectedEOF
	pool := newTestPool(t, 2)
	cfg := testStream(t, set, plan.Config{Samples: 60, BatchSize: 10}, 2)
	served, err := serve(t, pool, cfg)
	bad, ok := err.(*SampleError)
	if !ok || bad.Index != 33 {
		t.Errorf("%d batches, then %v; want an error of sample 33", len(served.batches), err)
	}
}

// TestShardSetReadsAhead gives the hints for every sample of a set, and for some that are not there.
func TestShardSetReadsAhead(t *testing.T) {
	set, served := openTestSet(t, writeSet(t, "jpeg", 5, 2, 20, 15))
	for i := range set.Len() {
		e, err := set.Entry(i)
		if err != nil {
			t.Fatal(err)
		}
		if n := served.Prefetch(i); n < int64(e.ImageLength) {
			t.Errorf("sample %d: %d bytes are asked for, the image has %d", i, n, e.ImageLength)
		}
		if resident, _ := served.Resident(i); !resident {
			t.Errorf("sample %d was just written, and is not in memory", i)
		}
	}
	for _, i := range []int{-1, set.Len()} {
		if n := served.Prefetch(i); n != 0 {
			t.Errorf("%d bytes of sample %d", n, i)
		}
		if resident, waits := served.Resident(i); !resident || waits {
			t.Errorf("sample %d is to be waited for", i)
		}
	}
	if _, _, err := served.Read(3, nil); err != nil {
		t.Error(err)
	}
	if n := testing.AllocsPerRun(100, func() { served.Prefetch(2); served.Resident(2) }); n > 0 && !poolsDrop {
		t.Errorf("a hint takes %v allocations", n)
	}
}
