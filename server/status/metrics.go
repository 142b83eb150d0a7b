package status

import (
	"cmp"

	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics returns what /metrics shows of a status beside Go's and the process's own metrics: a metric is added by a line here. The
// status has a store, feeders and feeding, empty ones if the server has none.
func metrics(st *Status) []metric {
	feeders := map[string]Feeder{}
	for _, f := range st.Feeders.Each {
		feeders[f.Address] = f
	}
	time := st.Seconds
	return []metric{
		{counter, "delivered_images_total", "Images delivered to clients.", "split",
			each(st.Splits, func(c Counts) int64 { return c.Images })},
		{counter, "delivered_batches_total", "Batches delivered to clients.", "split",
			each(st.Splits, func(c Counts) int64 { return c.Batches })},
		{counter, "delivered_bytes_total", "Bytes of arrays delivered to clients.", "split",
			each(st.Splits, func(c Counts) int64 { return c.Bytes })},
		{counter, "blank_images_total", "Images that could not be read and were delivered as zeros.", "split",
			each(st.Splits, func(c Counts) int64 { return c.Blanks })},
		{counter, "substituted_images_total", "Images that could not be read, and in whose place another one of their class was delivered.",
			"split", each(st.Splits, func(c Counts) int64 { return c.Substitutes })},
		{counter, "errors_total", "Errors sent to clients, by kind.", "kind", each(st.Errors, func(n int64) int64 { return n })},
		{counter, "thread_seconds_total", "Time of all decoding threads by stage; wait is time without work.", "stage",
			values{"read": time["read"], "decode": time["decode"], "resample": time["resample"], "wait": time["wait"]}},
		{counter, "session_seconds_total", "Time of all sessions by stage: slot_wait for the client to release a slot, write to " +
			"the socket.", "stage", values{"slot_wait": time["slot_wait"], "write": time["write"]}},
		{counter, "read_bytes_total", "Stored bytes read from shards.", "", one(st.ReadBytes)},
		{counter, "processed_images_total", "Images that went through the decoding threads, delivered or not.", "", one(st.Processed)},
		{gauge, "threads", "Decoding threads.", "", one(st.Threads)},
		{gauge, "connections", "Open connections.", "", one(st.Connections)},
		{gauge, "sessions", "Open sessions by what they wait for.", "waiting_for", st.sessionsWaiting()},
		{gauge, "slots", "Slots of all rings by state; in_flight are those being filled or waiting to be sent.", "state",
			st.slotsByState()},
		{gauge, "ring_bytes", "Memory of all rings.", "", one(st.RingBytes)},
		{gauge, "ring_limit_bytes", "Memory that all rings together may take.", "", one(st.RingLimitBytes)},
		{gauge, "build_info", "Always 1; the label is the version of the server.", "version", values{version.Get().String(): 1}},
		{gauge, "damaged", "Sets and partitions that are here but damaged, and not served; the status page names them.", "",
			one(len(st.Damaged))},
		{counter, "store_requests_total", "Requests to buckets and web servers.", "", one(st.Store.Requests)},
		{counter, "store_retries_total", "Requests to buckets and web servers that repeat one that failed.", "", one(st.Store.Retries)},
		{counter, "store_read_bytes_total", "Bytes that came from buckets and web servers.", "", one(st.Store.Bytes)},
		{gauge, "store_requests_under_way", "Requests to buckets and web servers under way.", "", one(st.Store.UnderWay)},
		{counter, "cache_hit_bytes_total", "Bytes that were read from the cache of buckets and web servers.", "", one(st.Store.HitBytes)},
		{gauge, "cache_bytes", "Bytes that the cache of buckets and web servers keeps.", "", one(st.Store.CacheUsed)},
		{gauge, "cache_limit_bytes", "Bytes that the cache of buckets and web servers may keep.", "", one(st.Store.CacheMax)},
		{counter, "feed_pieces_total", "Pieces of batches that imgfeed feed made for servers.", "", one(st.Feeding.Pieces)},
		{gauge, "feed_connections", "Connections of servers to imgfeed feed.", "", one(st.Feeding.Connections)},
		{counter, "feeder_samples_total", "Samples that came from feeders.", "feeder",
			each(feeders, func(f Feeder) int64 { return f.Samples })},
		{counter, "feeder_again_samples_total", "Samples that feeders were asked for and the server made.", "feeder",
			each(feeders, func(f Feeder) int64 { return f.Again })},
		{counter, "feeder_late_pieces_total", "Pieces that did not come from feeders in time.", "feeder",
			each(feeders, func(f Feeder) int64 { return f.Late })},
		{counter, "feeder_bytes_total", "Bytes that came from feeders.", "feeder", each(feeders, func(f Feeder) int64 { return f.Bytes })},
		{gauge, "feeder_connections", "Open connections to feeders; 0 where a feeder is not connected.", "feeder",
			each(feeders, func(f Feeder) int64 { return f.Connections })},
	}
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// A metric has a value for each value of its label, or with the label "" a single one.
type metric struct {
	kind              prometheus.ValueType
	name, help, label string
	values            values
}

// values are a metric's, by the value of its label; by "" for one without.
type values map[string]float64

// one is the only value of a metric without a label.
func one[N int | int64](n N) values { return values{"": float64(n)} }

// each takes a value of each of the things that the label names.
func each[T any](things map[string]T, of func(T) int64) values {
	v := values{}
	for name, thing := range things {
		v[name] = float64(of(thing))
	}
	return v
}

// labels returns the metric's labels, given the only one that it may have.
func (m *metric) labels(label string) []string {
	if m.label == "" {
		return nil
	}
	return []string{label}
}

func (m *metric) desc() *prometheus.Desc {
	return prometheus.NewDesc("imgfeed_"+m.name, m.help, m.labels(m.label), nil)
}

// Metrics is what /metrics shows of the status that it takes.
type Metrics func() Status

// Describe implements prometheus.Collector.
func (take Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range metrics(&Status{Store: &Store{}, Feeders: &Feeders{}, Feeding: &Feeding{}}) {
		ch <- m.desc()
	}
}

// Collect implements prometheus.Collector. All metrics are of one status.
func (take Metrics) Collect(ch chan<- prometheus.Metric) {
	st := take()
	st.Store, st.Feeders, st.Feeding = cmp.Or(st.Store, &Store{}), cmp.Or(st.Feeders, &Feeders{}), cmp.Or(st.Feeding, &Feeding{})
	for _, m := range metrics(&st) {
		desc := m.desc()
		for label, v := range m.values {
			ch <- prometheus.MustNewConstMetric(desc, m.kind, v, m.labels(label)...)
		}
	}
}

func (st *Status) sessionsWaiting() values {
	v := values{}
	for _, limit := range Waits {
		v[string(limit)] = 0
	}
	for _, sess := range st.Sessions {
		v[string(sess.WaitingFor)]++
	}
	return v
}

func (st *Status) slotsByState() values {
	free, lent, all := 0, 0, 0
	for _, sess := range st.Sessions {
		free += sess.SlotsFree
		lent += sess.SlotsLent
		all += sess.Slots
	}
	return values{"free": float64(free), "lent": float64(lent), "in_flight": float64(max(0, all-free-lent))}
}
