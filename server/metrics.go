package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/imgfeed/imgfeed/internal/wire"
)

// totals count what the server has delivered since it started.
type totals struct {
	splits map[string]*splitTotals
	errors map[string]*atomic.Int64 // by kind

	slotWait, writeTime atomic.Int64 // ns, of all sessions
}

type splitTotals struct{ images, batches, bytes, blanks atomic.Int64 }

func newTotals(splits []string) *totals {
	t := &totals{splits: map[string]*splitTotals{}, errors: map[string]*atomic.Int64{}}
	for _, split := range splits {
		t.splits[split] = new(splitTotals)
	}
	for _, kind := range []string{wire.KindBadRequest, wire.KindCorrupt, wire.KindUnsupported, wire.KindMissing, wire.KindInternal} {
		t.errors[kind] = new(atomic.Int64)
	}
	return t
}

func (t *splitTotals) add(images, bytes, blanks int64) {
	t.images.Add(images)
	t.batches.Add(1)
	t.bytes.Add(bytes)
	t.blanks.Add(blanks)
}

func (t *totals) countError(kind string) { t.errors[kind].Add(1) }

// The metrics. Everything is counted in atomics anyway, and turned into metrics only when somebody asks.
var (
	descImages        = desc("images_total", "Images delivered to clients.", "split")
	descBatches       = desc("batches_total", "Batches delivered to clients.", "split")
	descBytes         = desc("bytes_total", "Bytes of arrays delivered to clients.", "split")
	descBlanks        = desc("blank_images_total", "Images that could not be read and were delivered as zeros.", "split")
	descErrors        = desc("errors_total", "Errors sent to clients, by kind.", "kind")
	descStages        = desc("stage_seconds_total", "Time of all workers by stage; wait is time without work.", "stage")
	descSessionStages = desc("session_seconds_total", "Time of all sessions by stage: slot_wait for the client to release a slot, write to the socket.", "stage")
	descRead          = desc("read_bytes_total", "Stored bytes read from shards.")
	descDecoded       = desc("processed_images_total", "Images that went through the workers, delivered or not.")
	descThreads       = desc("threads", "Decoding workers.")
	descSession       = desc("sessions", "Open connections.")
	descQueue         = desc("queue_depth", "Batches that are finished or under way and not yet sent.", "split")
	descSlots         = desc("slots", "Slots of all rings by state; work are those being filled or waiting to be sent.", "state")
	descWaiting       = desc("sessions_waiting", "Sessions by what they wait for.", "for")
	descMemory        = desc("ring_bytes", "Memory of all rings.")
	descDamaged       = desc("damaged", "Sets and partitions that are here but damaged, and not served; the status page names them.")
	descLimit         = desc("ring_bytes_max", "Memory that all rings together may take.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("imgfeed_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect implements prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for split, t := range s.totals.splits {
		counter(descImages, float64(t.images.Load()), split)
		counter(descBatches, float64(t.batches.Load()), split)
		counter(descBytes, float64(t.bytes.Load()), split)
		counter(descBlanks, float64(t.blanks.Load()), split)
	}
	for kind, n := range s.totals.errors {
		counter(descErrors, float64(n.Load()), kind)
	}
	c := s.pool.Counters()
	counter(descStages, c.Read.Seconds(), "read")
	counter(descStages, c.Decode.Seconds(), "decode")
	counter(descStages, c.Resample.Seconds(), "resample")
	counter(descStages, c.Wait.Seconds(), "wait")
	counter(descSessionStages, time.Duration(s.totals.slotWait.Load()).Seconds(), "slot_wait")
	counter(descSessionStages, time.Duration(s.totals.writeTime.Load()).Seconds(), "write")
	counter(descRead, float64(c.BytesRead))
	counter(descDecoded, float64(c.Images))
	gauge(descThreads, float64(s.pool.Threads()))
	gauge(descMemory, float64(s.memory.inUse()))
	gauge(descDamaged, float64(len(s.problems())))
	gauge(descLimit, float64(s.memory.max))
	s.collectSessions(gauge)
}

func (s *Server) collectSessions(gauge func(*prometheus.Desc, float64, ...string)) {
	queue := map[string]int{}
	for _, split := range s.splits {
		queue[split] = 0
	}
	waiting := map[string]int{wire.WaitingDisk: 0, wire.WaitingCPU: 0, wire.WaitingClient: 0, wire.WaitingIdle: 0}
	free, lent, all := 0, 0, 0
	sessions := s.list()
	for _, sess := range sessions {
		f := sess.feed.Load()
		if f == nil {
			continue
		}
		word, _ := f.status()
		waiting[word]++
		free += f.supply.Free()
		lent += f.ring.Lent()
		all += f.ring.Slots()
		if st := f.stream.Load(); st != nil {
			queue[f.split] += st.Stats().InFlight
		}
	}
	gauge(descSession, float64(len(sessions)))
	for split, n := range queue {
		gauge(descQueue, float64(n), split)
	}
	for word, n := range waiting {
		gauge(descWaiting, float64(n), word)
	}
	gauge(descSlots, float64(free), "free")
	gauge(descSlots, float64(lent), "lent")
	gauge(descSlots, float64(max(0, all-free-lent)), "work")
}

// Handler serves /metrics for Prometheus, /healthz for supervisors (200 while the server accepts sessions, 503 when it
// stops; behind "ok", what of the data is damaged, a line each: a restart would not mend it) and, at /, what the server is
// doing in words.
func (s *Server) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if s.stopping.Load() {
			http.Error(w, "stopping", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n")
		for _, err := range s.problems() {
			fmt.Fprintf(w, "damaged: %v\n", err)
		}
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, s.Status())
	})
	return mux
}

// MetricsAddr completes an address for [Server.Handler]: a port alone, or without a host, means this machine only.
func MetricsAddr(addr string) (string, error) {
	if !strings.Contains(addr, ":") {
		addr = ":" + addr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("metrics address: %w", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}
