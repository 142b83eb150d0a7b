package loader

import (
	"sync"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
)

// TestPreviewersKnowTheirBatch looks at a stream whose batches are handed out meanwhile, each with a bad sample: who looks at a batch knows
// the bad samples of that one.
func TestPreviewersKnowTheirBatch(t *testing.T) {
	const batches = 2000
	s := &Stream{cfg: testStream(t, newMemorySet(t, batches), plan.Config{Samples: batches, BatchSize: 1}, 1)}
	var consumer sync.WaitGroup
	consumer.Go(func() {
		for n := range batches {
			b := &pendingBatch{stream: s, number: n, bads: []BadSample{{By: n}}}
			b.holders.Store(2)
			s.head = b
			s.handOut()
		}
	})
	for last := -1; last < batches-1; {
		p := s.Previewer()
		if p == nil {
			continue
		}
		last = p.Batch()
		testenv.Require(t, len(p.bad) == 1 && p.bad[0].By == last, "batch %d has the bad samples %+v", last, p.bad)
	}
	consumer.Wait()
	testenv.Equal(t, s.Stats().Batches, batches, "batches that are counted")
}
