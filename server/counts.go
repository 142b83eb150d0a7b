package server

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/status"
)

// countsOf describes a batch, which takes so many bytes.
func countsOf(b loader.Batch, bytes int64) status.Counts {
	c := status.Counts{Images: int64(b.Count), Batches: 1, Bytes: bytes}
	for _, bad := range b.Bad {
		if bad.By < 0 {
			c.Blanks++
		} else {
			c.Substitutes++
		}
	}
	return c
}

// totals are what the server has done since it started. Its lock also guards the counts of sessions.
type totals struct {
	mu     sync.Mutex
	splits map[string]*status.Counts // deliveries to the sessions of each split
	errors map[string]int64          // sent to clients, by kind

	batchWait, slotHeld *prometheus.HistogramVec // histograms by split
}

func newTotals() *totals {
	return &totals{
		splits: map[string]*status.Counts{},
		errors: map[string]int64{kindBadRequest: 0, kindCorrupt: 0, kindUnsupported: 0, kindMissing: 0, kindInternal: 0},
		batchWait: newHistogram("batch_wait_seconds",
			"How long a session waited for its next batch with a slot free for it: for the disk or the CPU."),
		slotHeld: newHistogram("slot_held_seconds", "How long a client kept a batch in shared memory before it gave the slot back."),
	}
}

// newHistogram makes one of times, by split: a mean would hide the batch in a hundred that a training step waits for.
func newHistogram(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "imgfeed_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9), // up to 33 s
	}, []string{"split"})
}

// count notes what was delivered.
func (s *session) count(c status.Counts) {
	t := s.server.totals
	t.mu.Lock()
	defer t.mu.Unlock()
	s.counts.Add(c)
	if t.splits[s.Split] == nil {
		t.splits[s.Split] = new(status.Counts)
	}
	t.splits[s.Split].Add(c)
}

// counted returns what was delivered to the session.
func (s *session) counted() status.Counts {
	s.server.totals.mu.Lock()
	defer s.server.totals.mu.Unlock()
	return s.counts
}

func (t *totals) countError(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors[kind]++
}

// load returns what was delivered to the sessions of each split, and how many errors of each kind were sent.
func (t *totals) load() (splits map[string]status.Counts, errors map[string]int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	splits = map[string]status.Counts{}
	for split, c := range t.splits {
		splits[split] = *c
	}
	return splits, maps.Clone(t.errors)
}
