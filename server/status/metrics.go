package status

import (
	"cmp"

	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what /metrics shows beside Go's and the process's own, as views of the status: a metric is added by a line here,
// or in deliveryCounters. All are taken from one status when somebody asks.
func metrics() []metric {
	list := []metric{
		{counter, "errors_total", "Errors sent to clients, by kind.", "kind", func(st *Status) values { return floats(st.Errors) }},
		{counter, "thread_seconds_total", "Time of all decoding threads by stage; wait is time without work.", "stage",
			func(st *Status) values {
				return values{"read": st.Seconds.Read, "decode": st.Seconds.Decode, "resample": st.Seconds.Resample,
					"wait": st.Seconds.Wait}
			}},
		{counter, "session_seconds_total", "Time of all sessions by stage: slot_wait for the client to release a slot, write to " +
			"the socket.", "stage", func(st *Status) values { return values{"slot_wait": st.Seconds.SlotWait, "write": st.Seconds.Write} }},
		{counter, "read_bytes_total", "Stored bytes read from shards.", "", func(st *Status) values { return one(st.ReadBytes) }},
		{counter, "processed_images_total", "Images that went through the decoding threads, delivered or not.", "",
			func(st *Status) values { return one(st.Processed) }},
		{gauge, "threads", "Decoding threads.", "", func(st *Status) values { return one(st.Threads) }},
		{gauge, "connections", "Open connections.", "", func(st *Status) values { return one(st.Connections) }},
		{gauge, "sessions", "Open sessions by what they wait for.", "waiting_for", (*Status).sessionsWaiting},
		{gauge, "slots", "Slots of all rings by state; in_flight are those being filled or waiting to be sent.",
			"state", (*Status).slotsByState},
		{gauge, "ring_bytes", "Memory of all rings.", "", func(st *Status) values { return one(st.RingBytes) }},
		{gauge, "ring_limit_bytes", "Memory that all rings together may take.", "",
			func(st *Status) values { return one(st.RingLimitBytes) }},
		{gauge, "build_info", "Always 1; the label is the version of the server.", "version",
			func(*Status) values { return values{version.Get().String(): 1} }},
		{gauge, "damaged", "Sets and partitions that are here but damaged, and not served; the status page names them.", "",
			func(st *Status) values { return one(len(st.Damaged)) }},
		{counter, "store_requests_total", "Requests to buckets and web servers.",
			"", func(st *Status) values { return one(st.Store.Requests) }},
		{counter, "store_retries_total", "Requests to buckets and web servers that repeat one that failed.",
			"", func(st *Status) values { return one(st.Store.Retries) }},
		{counter, "store_read_bytes_total", "Bytes that came from buckets and web servers.",
			"", func(st *Status) values { return one(st.Store.Bytes) }},
		{gauge, "store_requests_under_way", "Requests to buckets and web servers under way.",
			"", func(st *Status) values { return one(st.Store.UnderWay) }},
		{counter, "cache_hit_bytes_total", "Bytes that were read from the cache of buckets and web servers.",
			"", func(st *Status) values { return one(st.Store.HitBytes) }},
		{gauge, "cache_bytes", "Bytes that the cache of buckets and web servers keeps.",
			"", func(st *Status) values { return one(st.Store.CacheUsed) }},
		{gauge, "cache_limit_bytes", "Bytes that the cache of buckets and web servers may keep.",
			"", func(st *Status) values { return one(st.Store.CacheMax) }},
		{counter, "feed_pieces_total", "Pieces of batches that imgfeed feed made for servers.",
			"", func(st *Status) values { return one(st.Feeding.Pieces) }},
		{gauge, "feed_connections", "Connections of servers to imgfeed feed.",
			"", func(st *Status) values { return one(st.Feeding.Connections) }},
		{counter, "feeder_samples_total", "Samples that came from feeders.", "feeder", feeders(func(f *Feeder) int64 { return f.Samples })},
		{counter, "feeder_again_samples_total", "Samples that feeders were asked for and the server made.", "feeder",
			feeders(func(f *Feeder) int64 { return f.Again })},
		{counter, "feeder_late_pieces_total", "Pieces that did not come from feeders in time.", "feeder",
			feeders(func(f *Feeder) int64 { return f.Late })},
		{counter, "feeder_bytes_total", "Bytes that came from feeders.", "feeder", feeders(func(f *Feeder) int64 { return f.Bytes })},
		{gauge, "feeder_connections", "Open connections to feeders; 0 where a feeder is not connected.", "feeder",
			feeders(func(f *Feeder) int64 { return f.Connections })},
	}
	for _, c := range deliveryCounters {
		list = append(list, metric{counter, c.metric, c.help, "split", func(st *Status) values {
			v := values{}
			for split, counts := range st.Splits {
				v[split] = float64(*c.of(&counts))
			}
			return v
		}})
	}
	return list
}

// values are a metric's, by the value of its label; by "" for one without.
type values map[string]float64

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// A metric is a view of a status with a store, feeders and feeding, empty ones if the server has none.
type metric struct {
	kind              prometheus.ValueType
	name, help, label string // label is "" for a single value
	values            func(*Status) values
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

// A collector takes the status for all metrics at once.
type collector struct {
	take    func() Status
	metrics []metric
}

// Metrics returns what /metrics shows of the status that take takes.
func Metrics(take func() Status) prometheus.Collector { return collector{take, metrics()} }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc()
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	st := c.take()
	st.Store, st.Feeders, st.Feeding = cmp.Or(st.Store, &Store{}), cmp.Or(st.Feeders, &Feeders{}), cmp.Or(st.Feeding, &Feeding{})
	for _, m := range c.metrics {
		desc := m.desc()
		for label, v := range m.values(&st) {
			ch <- prometheus.MustNewConstMetric(desc, m.kind, v, m.labels(label)...)
		}
	}
}

// one is the only value of a metric without a label.
func one[N int | int64](n N) values { return values{"": float64(n)} }

// feeders are values by the feeder's address.
func feeders(of func(*Feeder) int64) func(*Status) values {
	return func(st *Status) values {
		v := values{}
		for i := range st.Feeders.Each {
			v[st.Feeders.Each[i].Address] = float64(of(&st.Feeders.Each[i]))
		}
		return v
	}
}

func floats(counts map[string]int64) values {
	v := values{}
	for name, n := range counts {
		v[name] = float64(n)
	}
	return v
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
