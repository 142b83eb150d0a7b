package server

import (
	"maps"
	"sync"
	"time"

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

// A delivery is what was delivered, and the time that it took.
type delivery struct {
	status.Counts
	slotWait time.Duration // time that streams waited for a free slot
	write    time.Duration // time of writes to the socket
}

func (d *delivery) add(e delivery) {
	d.Counts.Add(e.Counts)
	d.slotWait += e.slotWait
	d.write += e.write
}

// A tally is the sum of a session's or a split's deliveries.
type tally struct {
	mu  sync.Mutex
	sum delivery
}

func (t *tally) add(d delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.add(d)
}

func (t *tally) load() delivery {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum
}

// A splitTally is what the sessions of a split were delivered since the server started.
type splitTally struct {
	tally
	batchWait, slotHeld prometheus.Observer
}

// totals are what the server has done since it started.
type totals struct {
	mu     sync.Mutex
	splits map[string]*splitTally
	errors map[string]int64 // sent to clients, by kind

	batchWait, slotHeld *prometheus.HistogramVec // histograms by split
}

func newTotals() *totals {
	return &totals{
		splits: map[string]*splitTally{},
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

// ofSplit returns the tally of a split, which may be new.
func (t *totals) ofSplit(split string) *splitTally {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.splits[split] == nil {
		t.splits[split] = &splitTally{batchWait: t.batchWait.WithLabelValues(split), slotHeld: t.slotHeld.WithLabelValues(split)}
	}
	return t.splits[split]
}

// all returns the sum over all splits.
func (t *totals) all() (sum delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range t.splits {
		sum.add(of.load())
	}
	return sum
}

func (t *totals) countError(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors[kind]++
}

// errorsByKind returns how many errors were sent to clients.
func (t *totals) errorsByKind() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.errors)
}
