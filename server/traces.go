package server

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/imgfeed/imgfeed/loader"
)

// Traces say which batches are traced, by OpenTelemetry's spans. Each epoch of a session is a trace: a span "epoch", below it a span
// "batch" for some batches, and below that one for each stage on a batch's way:
//
//	slot wait  until a slot was free for it: for the client
//	queued     until a worker took its first sample: behind other batches
//	work       until its last sample was finished; what workers spent reading, decoding and resampling is an attribute each
//	ready      until it was handed over: behind the batch before it
//	held       until the client released the slot; or
//	send       until it was written, where the transport is the socket
type Traces struct {
	Provider trace.TracerProvider
	// Share of the batches, above 0 and up to 1, is chosen at random.
	Share float64
}

// chooser decides for each batch whether it is traced; it is nil where none is.
func (t *Traces) chooser() func() bool {
	if t == nil {
		return nil
	}
	return func() bool { return rand.Float64() < t.Share }
}

// A slotTraces has the traces of the batches that a client holds, by slot; nil where nothing is traced.
type slotTraces []atomic.Pointer[batchTrace]

// put notes the trace, if any, of a batch that is about to be lent.
func (s slotTraces) put(slot int, t *batchTrace) {
	if t != nil {
		s[slot].Store(t)
	}
}

// end ends the trace of a slot that comes back.
func (s slotTraces) end(slot int, released bool) {
	if s == nil {
		return
	}
	if t := s[slot].Swap(nil); t != nil {
		t.end("held", attribute.Bool("imgfeed.released", released))
	}
}

// An epochTrace is the span of an epoch, until it ends and after. Every method of a nil one does nothing.
type epochTrace struct {
	tracer  trace.Tracer
	context context.Context // spans of batches are the span's children
	span    trace.Span
	of      []attribute.KeyValue // session and epoch
}

// traceEpoch begins the span of an epoch; nil where nothing is traced.
func (s *session) traceEpoch(m startRequest, batches int) *epochTrace {
	traces := s.server.cfg.Traces
	if traces == nil {
		return nil
	}
	t := &epochTrace{tracer: traces.Provider.Tracer("github.com/imgfeed/imgfeed/server"), of: []attribute.KeyValue{
		attribute.Int64("imgfeed.session", int64(s.connection.id)),
		attribute.String("imgfeed.dataset", s.set.Dir()),
		attribute.String("imgfeed.split", s.split),
		attribute.Int("imgfeed.rank", s.plan.Rank),
		attribute.Int("imgfeed.world", s.plan.World),
		attribute.String("imgfeed.transform", s.transformName),
		attribute.Int64("imgfeed.epoch", m.Epoch),
	}}
	t.context, t.span = t.tracer.Start(context.Background(), "epoch", trace.WithAttributes(t.of...), trace.WithAttributes(
		attribute.Int("imgfeed.batches", batches), attribute.Int64("imgfeed.consumed", m.Consumed), attribute.Int("imgfeed.batch_size", s.plan.BatchSize)))
	return t
}

// end ends the span of an epoch that came to its end or, with an error, did not: the client has stopped it, or it failed.
func (t *epochTrace) end(err error, stopped bool) {
	switch {
	case t == nil:
		return
	case err != nil && stopped:
		t.span.SetAttributes(attribute.Bool("imgfeed.stopped", true))
	case err != nil:
		t.span.SetStatus(codes.Error, err.Error())
	}
	t.span.End()
}

// A batchTrace is what is known of a traced batch when it is handed over.
type batchTrace struct {
	epoch *epochTrace
	times *loader.BatchTimes
	taken time.Time
	of    []attribute.KeyValue
}

// batch returns the trace of a batch that is handed over at taken; nil if it is not traced.
func (t *epochTrace) batch(b loader.Batch, bytes int64, taken time.Time) *batchTrace {
	if t == nil || b.Times == nil {
		return nil
	}
	d := countsOf(b, bytes)
	return &batchTrace{epoch: t, times: b.Times, taken: taken, of: []attribute.KeyValue{
		attribute.Int("imgfeed.batch", b.Number),
		attribute.Int64("imgfeed.samples", d.Images),
		attribute.Int64("imgfeed.bytes", d.Bytes),
		attribute.Int64("imgfeed.blanks", d.Blanks),
		attribute.Int64("imgfeed.substitutes", d.Substitutes),
	}}
}

// end makes the spans of a batch, the last stage of which ends now. It does nothing to a nil trace.
func (t *batchTrace) end(last string, of ...attribute.KeyValue) {
	if t == nil {
		return
	}
	// Spans bear times of day: the first one's, and what a clock that nobody sets has counted since.
	b := t.times
	first := b.Asked.Round(0)
	at := func(moment time.Time) trace.SpanEventOption {
		return trace.WithTimestamp(first.Add(moment.Sub(b.Asked)))
	}
	now := time.Now()
	tracer := t.epoch.tracer
	ctx, batch := tracer.Start(t.epoch.context, "batch", at(b.Asked), trace.WithAttributes(t.epoch.of...), trace.WithAttributes(t.of...))
	stage := func(name string, from, to time.Time, of ...attribute.KeyValue) {
		_, span := tracer.Start(ctx, name, at(from), trace.WithAttributes(of...))
		span.End(at(to))
	}
	stage("slot wait", b.Asked, b.Published)
	stage("queued", b.Published, b.Begun)
	stage("work", b.Begun, b.Finished,
		attribute.Float64("imgfeed.read_seconds", b.Read.Seconds()), attribute.Float64("imgfeed.decode_seconds", b.Decode.Seconds()),
		attribute.Float64("imgfeed.resample_seconds", b.Resample.Seconds()), attribute.Int64("imgfeed.read_bytes", b.BytesRead))
	stage("ready", b.Finished, t.taken)
	stage(last, t.taken, now, of...)
	batch.End(at(now))
}
