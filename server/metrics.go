package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/imgfeed/imgfeed/loader"
)

// metrics are what /metrics shows beside Go's and the process's own. A metric is added by a line here. Most are counted in atomics
// anyway, and turned into metrics only when somebody asks; a histogram is one of totals.
func (s *Server) metrics() []prometheus.Collector {
	return []prometheus.Collector{
		counter("delivered_images_total", "Images delivered to clients.", "split", s.bySplit(func(t *splitTotals) int64 { return t.images.Load() })),
		counter("delivered_batches_total", "Batches delivered to clients.", "split", s.bySplit(func(t *splitTotals) int64 { return t.batches.Load() })),
		counter("delivered_bytes_total", "Bytes of arrays delivered to clients.", "split", s.bySplit(func(t *splitTotals) int64 { return t.bytes.Load() })),
		counter("blank_images_total", "Images that could not be read and were delivered as zeros.", "split", s.bySplit(func(t *splitTotals) int64 { return t.blanks.Load() })),
		counter("substituted_images_total", "Images that could not be read, and in whose place another one of their class was delivered.", "split", s.bySplit(func(t *splitTotals) int64 { return t.substitutes.Load() })),
		counter("errors_total", "Errors sent to clients, by kind.", "kind", s.errorsByKind),
		counter("thread_seconds_total", "Time of all decoding threads by stage; wait is time without work.", "stage", s.threadSeconds),
		counter("session_seconds_total", "Time of all sessions by stage: slot_wait for the client to release a slot, write to the socket.", "stage", s.sessionSeconds),
		counter("read_bytes_total", "Stored bytes read from shards.", "", one(func() int64 { return s.pool.Counters().BytesRead })),
		counter("processed_images_total", "Images that went through the decoding threads, delivered or not.", "", one(func() int64 { return s.pool.Counters().Images })),
		gauge("threads", "Decoding threads.", "", one(s.pool.Threads)),
		gauge("connections", "Open connections.", "", one(func() int { return len(s.list()) })),
		gauge("sessions", "Open sessions by what they wait for.", "waiting_for", s.sessionsWaiting),
		gauge("batches_in_flight", "Batches that are finished or under way and not yet sent.", "split", s.batchesInFlight),
		gauge("slots", "Slots of all rings by state; in_flight are those being filled or waiting to be sent.", "state", s.slotsByState),
		gauge("ring_bytes", "Memory of all rings.", "", one(s.memory.inUse)),
		gauge("ring_limit_bytes", "Memory that all rings together may take.", "", one(func() int64 { return s.memory.max })),
		s.totals.batchWait,
		s.totals.slotHeld,
		gauge("damaged", "Sets and partitions that are here but damaged, and not served; the status page names them.", "", one(func() int { return len(s.catalog.Load().problems()) })),
	}
}

// values are a metric's, by the value of its label; by "" for one without.
type values map[string]float64

// A metric is asked for its values when somebody wants to know.
type metric struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	label  string
	values func() values
}

func counter(name, help, label string, values func() values) metric {
	return newMetric(prometheus.CounterValue, name, help, label, values)
}

func gauge(name, help, label string, values func() values) metric {
	return newMetric(prometheus.GaugeValue, name, help, label, values)
}

func newMetric(kind prometheus.ValueType, name, help, label string, values func() values) metric {
	var labels []string
	if label != "" {
		labels = []string{label}
	}
	return metric{prometheus.NewDesc("imgfeed_"+name, help, labels, nil), kind, label, values}
}

// Describe implements prometheus.Collector.
func (m metric) Describe(ch chan<- *prometheus.Desc) { ch <- m.desc }

// Collect implements prometheus.Collector.
func (m metric) Collect(ch chan<- prometheus.Metric) {
	for value, v := range m.values() {
		if m.label == "" {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v)
		} else {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, value)
		}
	}
}

// one is the only value of a metric without a label.
func one[N int | int64](value func() N) func() values {
	return func() values { return values{"": float64(value())} }
}

// totals count what the server has delivered since it started.
type totals struct {
	mu     sync.Mutex
	splits map[string]*splitTotals
	errors map[string]*atomic.Int64 // by kind

	slotWait, writeTime atomic.Int64 // ns, of all sessions

	batchWait, slotHeld *prometheus.HistogramVec // by split
}

// newHistogram makes one of times, by split: a mean would hide the batch in a hundred that a training step waits for.
func newHistogram(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "imgfeed_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9), // to 33 s
	}, []string{"split"})
}

type splitTotals struct {
	images, batches, bytes, blanks, substitutes atomic.Int64
	batchWait, slotHeld                         prometheus.Observer
}

func newTotals() *totals {
	t := &totals{
		splits: map[string]*splitTotals{}, errors: map[string]*atomic.Int64{},
		batchWait: newHistogram("batch_wait_seconds", "How long a session waited for its next batch with a slot free for it: for the disk or the CPU."),
		slotHeld:  newHistogram("slot_held_seconds", "How long a client kept a batch in shared memory before it gave the slot back."),
	}
	for _, kind := range []string{kindBadRequest, kindCorrupt, kindUnsupported, kindMissing, kindInternal} {
		t.errors[kind] = new(atomic.Int64)
	}
	return t
}

// delivered is what went to clients.
type delivered struct{ images, batches, bytes, blanks, substitutes int64 }

// deliveredBy describes a batch, which takes so many bytes.
func deliveredBy(b loader.Batch, bytes int64) delivered {
	d := delivered{images: int64(b.Count), batches: 1, bytes: bytes}
	for _, bad := range b.Bad {
		if bad.By < 0 {
			d.blanks++
		} else {
			d.substitutes++
		}
	}
	return d
}

func (t *splitTotals) add(d delivered) {
	t.images.Add(d.images)
	t.batches.Add(d.batches)
	t.bytes.Add(d.bytes)
	t.blanks.Add(d.blanks)
	t.substitutes.Add(d.substitutes)
}

// ofSplit returns the counts of a split, which may be new.
func (t *totals) ofSplit(split string) *splitTotals {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.splits[split] == nil {
		t.splits[split] = &splitTotals{batchWait: t.batchWait.WithLabelValues(split), slotHeld: t.slotHeld.WithLabelValues(split)}
	}
	return t.splits[split]
}

// all returns the sums over all splits.
func (t *totals) all() (sum delivered) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range t.splits {
		sum.images += of.images.Load()
		sum.batches += of.batches.Load()
		sum.bytes += of.bytes.Load()
		sum.blanks += of.blanks.Load()
		sum.substitutes += of.substitutes.Load()
	}
	return sum
}

func (t *totals) countError(kind string) { t.errors[kind].Add(1) }

func (s *Server) bySplit(count func(*splitTotals) int64) func() values {
	return func() values {
		v := values{}
		for _, split := range s.catalog.Load().splits {
			v[split] = float64(count(s.totals.ofSplit(split)))
		}
		return v
	}
}

func (s *Server) errorsByKind() values {
	v := values{}
	for kind, n := range s.totals.errors {
		v[kind] = float64(n.Load())
	}
	return v
}

func (s *Server) threadSeconds() values {
	c := s.pool.Counters()
	return values{"read": c.Read.Seconds(), "decode": c.Decode.Seconds(), "resample": c.Resample.Seconds(), "wait": c.Wait.Seconds()}
}

func (s *Server) sessionSeconds() values {
	return values{
		"slot_wait": time.Duration(s.totals.slotWait.Load()).Seconds(),
		"write":     time.Duration(s.totals.writeTime.Load()).Seconds(),
	}
}

func (s *Server) sessionsWaiting() values {
	v := values{string(loader.Disk): 0, string(loader.CPU): 0, string(loader.Client): 0, string(loader.Idle): 0}
	for _, sess := range s.openSessions() {
		waiting, _ := sess.verdict()
		v[string(waiting)]++
	}
	return v
}

func (s *Server) batchesInFlight() values {
	v := values{}
	for _, split := range s.catalog.Load().splits {
		v[split] = 0
	}
	for _, sess := range s.openSessions() {
		if st := sess.stream.Load(); st != nil {
			v[sess.split] += float64(st.Stats().InFlight)
		}
	}
	return v
}

func (s *Server) slotsByState() values {
	free, lent, all := 0, 0, 0
	for _, sess := range s.openSessions() {
		free += sess.slotPool.Free()
		lent += sess.ring.Lent()
		all += sess.ring.Usable()
	}
	return values{"free": float64(free), "lent": float64(lent), "in_flight": float64(max(0, all-free-lent))}
}
