package status

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/loader"
)

// Counts are what was delivered to clients.
type Counts struct {
	Images      int64 `json:"images"`
	Batches     int64 `json:"batches"`
	Bytes       int64 `json:"bytes"`       // bytes of arrays
	Blanks      int64 `json:"blanks"`      // samples replaced by zeros under on_error: blank
	Substitutes int64 `json:"substitutes"` // samples replaced by another one of their class

	SlotWait float64 `json:"slot_wait"` // time in which no slot was free
	Write    float64 `json:"write"`     // time of writes to the socket
}

// Add adds what e counts.
func (c *Counts) Add(e Counts) {
	c.Images += e.Images
	c.Batches += e.Batches
	c.Bytes += e.Bytes
	c.Blanks += e.Blanks
	c.Substitutes += e.Substitutes
	c.SlotWait += e.SlotWait
	c.Write += e.Write
}

// CountsOf returns the counts of a batch, which takes so many bytes. Of the waits it knows nothing yet.
func CountsOf(b loader.Batch, bytes int64) Counts {
	c := Counts{Images: int64(b.Count), Batches: 1, Bytes: bytes}
	for _, bad := range b.Bad {
		if bad.By < 0 {
			c.Blanks++
		} else {
			c.Substitutes++
		}
	}
	return c
}

// Totals are what a server has delivered since it started, and the last samples that it could not deliver.
//
// mu guards the rest and the counts of sessions. So those of a split are always the sum over its sessions, ended ones included. Any
// goroutine may call any method.
type Totals struct {
	mu     sync.Mutex
	splits map[string]*Counts // deliveries to the sessions of each split
	errors map[string]int64   // sent to clients, by kind
	bad    []SeenBadSample    // each sample once, ordered by time, badMax at most

	BatchWait, SlotHeld *prometheus.HistogramVec // histograms by split
}

// NewTotals returns totals of 0, also of these kinds of errors.
func NewTotals(errors ...string) *Totals {
	t := &Totals{
		splits: map[string]*Counts{}, errors: map[string]int64{},
		BatchWait: newHistogram("batch_wait_seconds",
			"How long a session waited for its next batch with a slot free for it: for the disk or the CPU."),
		SlotHeld: newHistogram("slot_held_seconds", "How long a client kept a batch in shared memory before it gave the slot back."),
	}
	for _, kind := range errors {
		t.errors[kind] = 0
	}
	return t
}

// newHistogram makes one of times, by split: a mean would hide the batch in a hundred that a training step waits for.
func newHistogram(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "imgfeed_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9), // up to 33 s
	}, []string{"split"})
}

// Add adds what was delivered to a session of a split, to its counts too. It is called twice for each batch, and adds a few numbers.
func (t *Totals) Add(split string, session *Counts, c Counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	session.Add(c)
	if t.splits[split] == nil {
		t.splits[split] = new(Counts)
	}
	t.splits[split].Add(c)
}

// AddError counts an error of a kind.
func (t *Totals) AddError(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors[kind]++
}

// AddBad notes a bad sample of a split, met at a moment. One that comes again in a later epoch moves to the end.
func (t *Totals) AddBad(moment float64, split string, e loader.BadSample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bad = slices.DeleteFunc(t.bad, func(old SeenBadSample) bool { return old.Split == split && old.Index == e.Index })
	t.bad = appendBounded(t.bad, SeenBadSample{Time: moment, Split: split, BadSample: NewBadSample(e)}, badMax)
}

// Of returns the counts of a session.
func (t *Totals) Of(session *Counts) Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *session
}

// Fill puts the totals into a status, as they are at one moment. It copies what may change.
func (t *Totals) Fill(st *Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	st.Splits, st.Errors, st.Bad = map[string]Counts{}, maps.Clone(t.errors), append([]SeenBadSample{}, t.bad...)
	slices.Reverse(st.Bad)
	for split, c := range t.splits {
		st.Splits[split] = *c
		st.Add(*c)
	}
}

// A BadSample is one that could not be served.
type BadSample struct {
	Index int    `json:"index"`
	Key   string `json:"key"`          // "" if it cannot be read either
	By    *int   `json:"by,omitempty"` // index of its substitute; absent if there is none
	Error string `json:"error"`
}

// NewBadSample describes a bad sample of a batch.
func NewBadSample(b loader.BadSample) BadSample {
	bad := BadSample{Index: b.Index, Key: b.Key, Error: termsafe.Message(b.Err.Error())}
	if b.By >= 0 {
		bad.By = &b.By
	}
	return bad
}

// A SeenBadSample is the last occurrence of a bad sample.
type SeenBadSample struct {
	Time  float64 `json:"time"` // seconds since 1970
	Split string  `json:"split"`
	BadSample
}

// badMax is how many bad samples are remembered.
const badMax = 100
