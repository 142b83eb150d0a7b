package loader

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/loader/plan"
)

// TestStreamsShareByTime runs streams of small batches beside streams of large ones, whose samples take as long: each gets about as
// many images. How long a sample takes is measured, on a machine that may have other work.
func TestStreamsShareByTime(t *testing.T) {
	p := newTestPool(t, 16)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sizes := []int{1, 4, 4, 4, 4, 128, 128, 128, 128, 256}
	sets := make([]*memorySet, len(sizes))
	var consumers sync.WaitGroup
	defer consumers.Wait()
	defer stop()
	for i, size := range sizes {
		// An epoch that does not end before the test: repetitions of few samples.
		selection, err := plan.NewSelection(plan.SelectionConfig{Samples: 64, Repeats: 1 << 14, Positions: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		sets[i] = newMemorySet(t, 64)
		sets[i].delay = 200 * time.Microsecond
		slots := min(max(1<<9/size, 3), 16) // as the server does
		cfg := testStream(t, sets[i], plan.Config{Samples: 64, Partitions: 1, World: 1, BatchSize: size, Selection: selection}, slots)
		stream, err := p.NewStream(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		consumers.Go(func() {
			for {
				b, err := stream.Next(ctx)
				if err != nil {
					return
				}
				cfg.Slots.Put(b.Slot)
			}
		})
	}
	taken := func() []int64 {
		n := make([]int64, len(sets))
		for i, set := range sets {
			n[i] = set.reads.Load()
		}
		return n
	}
	for slices.Min(taken()) < 100 { // until all run
		time.Sleep(time.Millisecond)
	}
	before, now, mean := taken(), taken(), 0.0
	for mean < 4000 {
		time.Sleep(20 * time.Millisecond)
		mean = 0
		now = taken()
		for i, n := range now {
			mean += float64(n-before[i]) / float64(len(sizes))
		}
	}
	for i, n := range now {
		if got := float64(n - before[i]); math.Abs(got-mean) > 0.5*mean {
			t.Errorf("batches of %d got %.0f images, the mean is %.0f", sizes[i], got, mean)
		}
	}
}
