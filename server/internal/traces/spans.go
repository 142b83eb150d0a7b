package traces

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/imgfeed/imgfeed/loader"
)

// An Epoch is the span of an epoch, until it ends and after. Every method of a nil one does nothing.
type Epoch struct {
	tracer  trace.Tracer
	context context.Context // spans of batches are the span's children
	span    trace.Span
	of      []attribute.KeyValue // what each of its batches bears too
}

// Begin begins the span of an epoch. Its batches bear the attributes of, too.
func Begin(provider trace.TracerProvider, of []attribute.KeyValue, own ...attribute.KeyValue) *Epoch {
	e := &Epoch{tracer: provider.Tracer("github.com/imgfeed/imgfeed/server"), of: of}
	e.context, e.span = e.tracer.Start(context.Background(), "epoch", trace.WithAttributes(of...), trace.WithAttributes(own...))
	return e
}

// End ends the span of an epoch that came to its end or, with an error, did not: the client has stopped it, or it failed.
func (e *Epoch) End(err error, stopped bool) {
	switch {
	case e == nil:
		return
	case err != nil && stopped:
		e.span.SetAttributes(attribute.Bool("imgfeed.stopped", true))
	case err != nil:
		e.span.SetStatus(codes.Error, err.Error())
	}
	e.span.End()
}

// A Batch is what is known of a traced batch when it is handed over.
type Batch struct {
	epoch *Epoch
	times *loader.BatchTimes
	taken time.Time
	of    []attribute.KeyValue
}

// Batch returns the trace of a batch that is handed over at taken.
func (e *Epoch) Batch(times *loader.BatchTimes, taken time.Time, of ...attribute.KeyValue) *Batch {
	return &Batch{e, times, taken, of}
}

// End makes the spans of a batch, the last stage of which ends now. It does nothing to a nil trace.
func (b *Batch) End(last string, of ...attribute.KeyValue) {
	if b == nil {
		return
	}
	// Spans bear times of day: the first one's, and what a clock that nobody sets has counted since.
	t, now, tracer := b.times, time.Now(), b.epoch.tracer
	first := t.Asked.Round(0)
	at := func(moment time.Time) trace.SpanEventOption {
		return trace.WithTimestamp(first.Add(moment.Sub(t.Asked)))
	}
	ctx, batch := tracer.Start(b.epoch.context, "batch", at(t.Asked), trace.WithAttributes(b.epoch.of...), trace.WithAttributes(b.of...))
	stage := func(name string, from, to time.Time, of ...attribute.KeyValue) {
		_, span := tracer.Start(ctx, name, at(from), trace.WithAttributes(of...))
		span.End(at(to))
	}
	stage("slot wait", t.Asked, t.Published)
	stage("queued", t.Published, t.Begun)
	stage("work", t.Begun, t.Finished,
		attribute.Float64("imgfeed.read_seconds", t.Read.Seconds()), attribute.Float64("imgfeed.decode_seconds", t.Decode.Seconds()),
		attribute.Float64("imgfeed.resample_seconds", t.Resample.Seconds()), attribute.Int64("imgfeed.read_bytes", t.BytesRead))
	stage("ready", t.Finished, b.taken)
	stage(last, b.taken, now, of...)
	batch.End(at(now))
}

// Slots has the traces of the batches that a client holds, by slot; nil where nothing is traced.
type Slots []atomic.Pointer[Batch]

// Put notes the trace, if any, of a batch that is about to be lent.
func (s Slots) Put(slot int, b *Batch) {
	if b != nil {
		s[slot].Store(b)
	}
}

// End ends the trace of a slot that comes back.
func (s Slots) End(slot int, released bool) {
	if s != nil {
		s[slot].Swap(nil).End("held", attribute.Bool("imgfeed.released", released))
	}
}
