package server

import (
	"math/rand/v2"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/traces"
	"github.com/imgfeed/imgfeed/server/status"
)

// Traces say which batches are traced, by OpenTelemetry's spans, and where the spans go. Each epoch of a session is a trace: a
// span "epoch", below it a span "batch" for some batches, and below that one for each stage on a batch's way:
//
//	slot wait  until a slot was free for it: for the client
//	queued     until a worker took its first sample: behind other batches
//	work       until its last sample was finished; what workers spent reading, decoding and resampling is an attribute each
//	ready      until it was handed over: behind the batch before it
//	held       until the client released the slot; or
//	send       until it was written, where the transport is the socket
type Traces struct {
	// To is the collector that spans are sent to, unless the program has a Provider of its own.
	To       TraceTarget
	Provider trace.TracerProvider
	// Share of the batches, above 0 and up to 1, is chosen at random.
	Share float64
}

// A TraceTarget is a collector, and how spans are sent to it.
type TraceTarget = traces.Target

// ParseTraceTarget reads the address of a collector that takes OTLP over HTTP, such as http://localhost:4318. OpenTelemetry's
// variables give headers and timeout.
func ParseTraceTarget(address string) (TraceTarget, error) {
	return traces.ParseTarget(address, os.Getenv)
}

// TraceTargetFromEnv returns the collector that OpenTelemetry's variables name; its URL is "" if they name none.
func TraceTargetFromEnv() (TraceTarget, error) { return traces.FromEnvironment(os.Getenv) }

// impossible says whether there is nowhere to send spans, or no share of the batches to trace.
func (t *Traces) impossible() bool {
	return t != nil && (t.Provider == nil && t.To.URL == "" || !(t.Share > 0 && t.Share <= 1))
}

// startTraces has batches traced as the configuration says.
func (s *Server) startTraces() (err error) {
	t := s.cfg.Traces
	if t == nil {
		return nil
	}
	if s.tracer = t.Provider; s.tracer == nil {
		if s.sender, err = traces.New(t.To, "imgfeed", version.Get().String(), s.log); err != nil {
			return err
		}
		s.tracer = s.sender.Provider()
	}
	s.chosen = func() bool { return rand.Float64() < t.Share }
	return nil
}

// spanCounters are the metrics of what is sent to a collector.
func spanCounters(sender *traces.Sender) []prometheus.Collector {
	counter := func(what, help string, count func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "imgfeed_trace_spans_" + what + "_total", Help: help}, func() float64 { return float64(count()) })
	}
	return []prometheus.Collector{
		counter("sent", "Spans of traces that the collector has taken.", sender.Sent),
		counter("dropped", "Spans of traces that were given up: there were too many, or the collector did not take them.", sender.Dropped),
	}
}

// traceEpoch begins the span of an epoch; nil where nothing is traced.
func (s *session) traceEpoch(m startRequest, batches int) *traces.Epoch {
	if s.server.tracer == nil {
		return nil
	}
	return traces.Begin(s.server.tracer, []attribute.KeyValue{
		attribute.Int64("imgfeed.session", int64(s.connection.id)),
		attribute.String("imgfeed.dataset", s.set.Dir()),
		attribute.String("imgfeed.split", s.split),
		attribute.Int("imgfeed.rank", s.plan.Rank),
		attribute.Int("imgfeed.world", s.plan.World),
		attribute.String("imgfeed.transform", s.transformName),
		attribute.Int64("imgfeed.epoch", m.Epoch),
	}, attribute.Int("imgfeed.batches", batches), attribute.Int64("imgfeed.consumed", m.Consumed), attribute.Int("imgfeed.batch_size", s.plan.BatchSize))
}

// traceBatch returns the trace of a batch that is handed over at taken; nil if it is not traced.
func (e *epoch) traceBatch(b loader.Batch, of status.Counts, taken time.Time) *traces.Batch {
	if e.trace == nil || b.Times == nil {
		return nil
	}
	return e.trace.Batch(b.Times, taken, attribute.Int("imgfeed.batch", b.Number), attribute.Int64("imgfeed.samples", of.Images),
		attribute.Int64("imgfeed.bytes", of.Bytes), attribute.Int64("imgfeed.blanks", of.Blanks), attribute.Int64("imgfeed.substitutes", of.Substitutes))
}
