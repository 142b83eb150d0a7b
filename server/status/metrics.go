package status

import (
	"cmp"

	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// Metrics is what /metrics shows of the status that it takes, beside Go's and the process's own metrics.
type Metrics func() Status

// Describe implements prometheus.Collector. It announces nothing: only Collect knows the metrics.
func (take Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. All metrics are of one status. A metric is added by a line here, or in a function that it calls.
func (take Metrics) Collect(to chan<- prometheus.Metric) {
	st := take()
	for split, c := range st.Splits {
		send(to, counter, "delivered_images_total", "Images delivered to clients.", c.Images, "split", split)
		send(to, counter, "delivered_batches_total", "Batches delivered to clients.", c.Batches, "split", split)
		send(to, counter, "delivered_bytes_total", "Bytes of arrays delivered to clients.", c.Bytes, "split", split)
		send(to, counter, "blank_images_total", "Images that could not be read and were delivered as zeros.", c.Blanks, "split", split)
		send(to, counter, "substituted_images_total", "Images that could not be read, and in whose place another one of their class was "+
			"delivered.", c.Substitutes, "split", split)
	}
	for kind, n := range st.Errors {
		send(to, counter, "errors_total", "Errors sent to clients, by kind.", n, "kind", kind)
	}
	for stage, seconds := range st.Seconds {
		if stage == "slot_wait" || stage == "write" {
			send(to, counter, "session_seconds_total", "Time of all sessions by stage: slot_wait for the client to release a slot, write "+
				"to the socket.", seconds, "stage", stage)
		} else {
			send(to, counter, "thread_seconds_total", "Time of all decoding threads by stage; wait is time without work.", seconds,
				"stage", stage)
		}
	}
	send(to, counter, "read_bytes_total", "Stored bytes read from shards.", st.ReadBytes)
	send(to, counter, "processed_images_total", "Images that went through the decoding threads, delivered or not.", st.Processed)
	send(to, gauge, "threads", "Decoding threads.", st.Threads)
	send(to, gauge, "connections", "Open connections.", st.Connections)
	send(to, gauge, "ring_bytes", "Memory of all rings.", st.RingBytes)
	send(to, gauge, "ring_limit_bytes", "Memory that all rings together may take.", st.RingLimitBytes)
	send(to, gauge, "build_info", "Always 1; the label is the version of the server.", 1, "version", version.Get().String())
	send(to, gauge, "damaged", "Sets and partitions that are here but damaged, and not served; the status page names them.",
		len(st.Damaged))
	st.sendSessions(to)
	cmp.Or(st.Store, &Store{}).send(to)
	feeding := cmp.Or(st.Feeding, &Feeding{})
	send(to, counter, "feed_pieces_total", "Pieces of batches that imgfeed feed made for servers.", feeding.Pieces)
	send(to, gauge, "feed_connections", "Connections of servers to imgfeed feed.", feeding.Connections)
	for _, f := range cmp.Or(st.Feeders, &Feeders{}).Each {
		f.send(to)
	}
}

func (st *Status) sendSessions(to chan<- prometheus.Metric) {
	waiting, slots := map[WaitingFor]int{}, map[string]int{"free": 0, "lent": 0, "in_flight": 0}
	for i := range st.Sessions {
		s := &st.Sessions[i]
		waiting[s.WaitingFor]++
		slots["free"] += s.SlotsFree
		slots["lent"] += s.SlotsLent
		slots["in_flight"] += s.Slots - s.SlotsFree - s.SlotsLent
	}
	for _, limit := range Waits {
		send(to, gauge, "sessions", "Open sessions by what they wait for.", waiting[limit], "waiting_for", string(limit))
	}
	for state, n := range slots { // free and lent are read one after the other
		send(to, gauge, "slots", "Slots of all rings by state; in_flight are those being filled or waiting to be sent.", max(0, n),
			"state", state)
	}
}

func (s *Store) send(to chan<- prometheus.Metric) {
	send(to, counter, "store_requests_total", "Requests to buckets and web servers.", s.Requests)
	send(to, counter, "store_retries_total", "Requests to buckets and web servers that repeat one that failed.", s.Retries)
	send(to, counter, "store_read_bytes_total", "Bytes that came from buckets and web servers.", s.Bytes)
	send(to, gauge, "store_requests_under_way", "Requests to buckets and web servers under way.", s.UnderWay)
	send(to, counter, "cache_hit_bytes_total", "Bytes that were read from the cache of buckets and web servers.", s.HitBytes)
	send(to, gauge, "cache_bytes", "Bytes that the cache of buckets and web servers keeps.", s.CacheUsed)
	send(to, gauge, "cache_limit_bytes", "Bytes that the cache of buckets and web servers may keep.", s.CacheMax)
}

func (f *Feeder) send(to chan<- prometheus.Metric) {
	send(to, counter, "feeder_samples_total", "Samples that came from feeders.", f.Samples, "feeder", f.Address)
	send(to, counter, "feeder_again_samples_total", "Samples that feeders were asked for and the server made.", f.Again,
		"feeder", f.Address)
	send(to, counter, "feeder_late_pieces_total", "Pieces that did not come from feeders in time.", f.Late, "feeder", f.Address)
	send(to, counter, "feeder_bytes_total", "Bytes that came from feeders.", f.Bytes, "feeder", f.Address)
	send(to, gauge, "feeder_connections", "Open connections to feeders; 0 where a feeder is not connected.", f.Connections,
		"feeder", f.Address)
}

// send sends a metric, without a label or with a label's name and value.
func send[N int | int64 | float64](
	to chan<- prometheus.Metric, kind prometheus.ValueType, name, help string, value N, label ...string,
) {
	half := len(label) / 2
	desc := prometheus.NewDesc("imgfeed_"+name, help, label[:half], nil)
	to <- prometheus.MustNewConstMetric(desc, kind, float64(value), label[half:]...)
}
