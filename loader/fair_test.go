package loader

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
)

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
			stream := testenv.Must(p.NewStream(cfg))(t)
			defer stream.Close()
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
			if math.Abs(n-mean) > 0.1*mean {
				t.Errorf("batches of %d got %.0f images, the mean is %.0f", sizes[i], n, mean)
			}
		}
	})
}
