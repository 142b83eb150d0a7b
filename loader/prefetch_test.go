package loader

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/loader/plan"
)

// prefetchedSet notes which samples it is asked to prefetch.
type prefetchedSet struct {
	*memorySet
	mu         sync.Mutex
	prefetched []int
}

func (s *prefetchedSet) Prefetch(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prefetched = append(s.prefetched, i)
}

// TestPrefetch checks that slow reads make the stream prefetch, in order, and fast ones do not.
func TestPrefetch(t *testing.T) {
	for _, slow := range []bool{true, false} {
		set, samples := &prefetchedSet{memorySet: newMemorySet(t, 200)}, 200
		if slow {
			set.delay = time.Millisecond
		} else { // so many that a processor that is taken away in the middle of some reads does not make them slow in the mean
			samples = 10_000
			set.blobs = slices.Repeat(set.blobs, samples/200)
		}
		pool := newTestPool(t, 2)
		cfg := testStream(t, set, plan.Config{Samples: samples, BatchSize: 10}, 3)
		if _, err := serve(t, pool, cfg); err != nil {
			t.Fatal(err)
		}
		if slow && !slices.Equal(set.prefetched, indices(cfg.Plan)) {
			t.Errorf("slow reads: %v was prefetched", set.prefetched)
		}
		if !slow && len(set.prefetched) > samples/2 {
			t.Errorf("fast reads: %d samples were prefetched", len(set.prefetched))
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

// TestShardSetPrefetches gives the hint for every sample of a set, and for one that is not there.
func TestShardSetPrefetches(t *testing.T) {
	set, served := openTestSet(t, writeSet(t, "jpeg", 5, 2, 20, 15))
	for i := -1; i <= set.Len(); i++ {
		served.Prefetch(i)
	}
	if _, _, err := served.Read(3, nil); err != nil {
		t.Error(err)
	}
}
