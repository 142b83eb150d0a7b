package server

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/imgfeed/imgfeed/shard"
)

// tracesOf has a server trace a share of the batches, and returns where the spans come to.
func tracesOf(t testing.TB, share float64) (change func(*Config), spans *tracetest.InMemoryExporter) {
	spans = tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { provider.Shutdown(context.Background()) })
	return func(c *Config) { c.Traces = &Traces{Provider: provider, Share: share} }, spans
}

// of returns the spans of a name, by their start.
func named(spans *tracetest.InMemoryExporter, name string) (list []tracetest.SpanStub) {
	for _, s := range spans.GetSpans() {
		if s.Name == name {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return list
}

// waitFor returns the spans of a name once there are n.
func waitFor(t *testing.T, spans *tracetest.InMemoryExporter, name string, n int) []tracetest.SpanStub {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
		if list := named(spans, name); len(list) >= n {
			return list
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d spans %q, want %d", len(named(spans, name)), name, n)
		}
	}
}

// attr returns an attribute of a span.
func attr(s tracetest.SpanStub, name string) attribute.Value {
	for _, a := range s.Attributes {
		if string(a.Key) == "imgfeed."+name {
			return a.Value
		}
	}
	return attribute.Value{}
}

// checkStages fails unless the stages of a batch follow each other without a gap and fill it, and returns the last.
func checkStages(t *testing.T, spans *tracetest.InMemoryExporter, batch tracetest.SpanStub, last string) tracetest.SpanStub {
	t.Helper()
	var stage tracetest.SpanStub
	at := batch.StartTime
	for _, name := range []string{"slot wait", "queued", "work", "ready", last} {
		i := slices.IndexFunc(spans.GetSpans(), func(s tracetest.SpanStub) bool {
			return s.Name == name && s.Parent.SpanID() == batch.SpanContext.SpanID()
		})
		if i < 0 {
			t.Fatalf("batch %v has no %q", attr(batch, "batch").String(), name)
		}
		stage = spans.GetSpans()[i]
		if !stage.StartTime.Equal(at) || stage.EndTime.Before(at) {
			t.Errorf("%q is from %v to %v, want it to begin at %v", name, stage.StartTime, stage.EndTime, at)
		}
		at = stage.EndTime
		if name == "work" && (attr(stage, "read_bytes").AsInt64() <= 0 || attr(stage, "read_seconds").AsFloat64() <= 0 || attr(stage, "decode_seconds").AsFloat64() <= 0) {
			t.Errorf("work: %v", stage.Attributes)
		}
	}
	if !at.Equal(batch.EndTime) {
		t.Errorf("the stages end at %v, the batch at %v", at, batch.EndTime)
	}
	return stage
}

// TestTracesOfBatches follows each batch of two epochs from the wish for a slot to its release.
func TestTracesOfBatches(t *testing.T) {
	change, spans := tracesOf(t, 1)
	dir := oneSet(t, 10, 1)
	ts := startServer(t, dir, change)
	c := ts.dial().hello().open(openRequest{BatchSize: 4, Slots: 1, Rank: of(0), World: of(1)})
	c.epoch(0, 0)
	c.epoch(1, 4)
	epochs, batches := waitFor(t, spans, "epoch", 2), waitFor(t, spans, "batch", 5)
	for i, b := range batches {
		number, epoch := int64(i), epochs[0]
		if i >= 3 {
			number, epoch = int64(i-3), epochs[1]
		}
		if b.Parent.SpanID() != epoch.SpanContext.SpanID() || attr(b, "batch").AsInt64() != number || attr(b, "epoch").AsInt64() != attr(epoch, "epoch").AsInt64() {
			t.Errorf("batch %d: %v below %v", i, b.Attributes, epoch.Attributes)
		}
		samples := int64(4)
		if i == 2 || i == 4 {
			samples = 2
		}
		if attr(b, "samples").AsInt64() != samples || attr(b, "bytes").AsInt64() != samples*(3+8+8) || attr(b, "split").AsString() != "train" || attr(b, "rank").AsInt64() != 0 ||
			attr(b, "dataset").AsString() != filepath.Join(dir, "train-shards") || attr(b, "session").AsInt64() != int64(c.opened.Session) || !strings.Contains(attr(b, "transform").AsString(), "CenterCrop") {
			t.Errorf("batch %d: %v", i, b.Attributes)
		}
		if held := checkStages(t, spans, b, "held"); !attr(held, "released").AsBool() {
			t.Errorf("batch %d: held %v", i, held.Attributes)
		}
	}
	if e := epochs[1]; attr(e, "batches").AsInt64() != 2 || attr(e, "consumed").AsInt64() != 4 || attr(e, "world").AsInt64() != 1 || e.Status.Code != codes.Unset || attr(e, "stopped").AsBool() {
		t.Errorf("epoch: %v, %v", e.Attributes, e.Status)
	}
}

// TestTracesEnd traces epochs that end in other ways: over the socket, by a client that leaves with a batch, by a sample that cannot be read.
func TestTracesEnd(t *testing.T) {
	change, spans := tracesOf(t, 1)
	dir := oneSet(t, 10, 1)
	damage(t, filepath.Join(dir, "train-shards"), 7)
	ts := startServer(t, dir, change)

	c := ts.dial().hello().open(openRequest{BatchSize: 5, Transport: transportSocket, OnError: onErrorBlank, Transform: json.RawMessage(`"eval"`)})
	c.send(startRequest{})
	expect[startedReply](c)
	c.raw(expect[batchMessage](c).Bytes)
	c.raw(expect[batchMessage](c).Bytes)
	expect[endMessage](c)
	batch := waitFor(t, spans, "batch", 2)[1]
	checkStages(t, spans, batch, "send")
	if attr(batch, "blanks").AsInt64() != 1 || attr(batch, "transform").AsString() != "eval" {
		t.Errorf("batch %v", batch.Attributes)
	}

	leaves := ts.dial().hello().open(openRequest{BatchSize: 5, Slots: 1})
	leaves.send(startRequest{})
	expect[startedReply](leaves)
	expect[batchMessage](leaves)
	leaves.close()
	batch = waitFor(t, spans, "batch", 3)[2]
	if held := checkStages(t, spans, batch, "held"); attr(held, "released").AsBool() {
		t.Errorf("held %v", held.Attributes)
	}
	if e := waitFor(t, spans, "epoch", 2)[1]; !attr(e, "stopped").AsBool() || e.Status.Code != codes.Unset {
		t.Errorf("epoch of a client that left: %v, %v", e.Attributes, e.Status)
	}

	fails := ts.dial().hello().open(openRequest{BatchSize: 10})
	fails.send(startRequest{})
	expect[startedReply](fails)
	expect[errorMessage](fails)
	if e := waitFor(t, spans, "epoch", 3)[2]; e.Status.Code != codes.Error || !strings.Contains(e.Status.Description, "CRC-32C") {
		t.Errorf("epoch that failed: %v, %v", e.Attributes, e.Status)
	}
}

// TestShareOfTraces traces a tenth of 1000 batches: 60 to 140, but for one run in 10,000.
func TestShareOfTraces(t *testing.T) {
	change, spans := tracesOf(t, 0.1)
	ts := startServer(t, oneSet(t, 200, 1), change)
	c := ts.dial().hello().open(openRequest{BatchSize: 1})
	for e := range int64(5) {
		c.epoch(e, 0)
	}
	c.close()
	ts.checkIdle()
	if n := len(named(spans, "batch")); n < 60 || n > 140 {
		t.Errorf("%d of 1000 batches are traced", n)
	}
	if n := len(named(spans, "epoch")); n != 5 {
		t.Errorf("%d epochs are traced", n)
	}
}

// TestBadTraces makes servers whose traces could not be.
func TestBadTraces(t *testing.T) {
	for _, bad := range []Traces{{Share: 0.5}, {Provider: noop.NewTracerProvider()}, {Provider: noop.NewTracerProvider(), Share: 1.5}} {
		if s, err := New(Config{Found: shard.Found{Sets: map[string]string{"train": t.TempDir()}}, Traces: &bad}); err == nil || !strings.Contains(err.Error(), "share") {
			t.Errorf("%+v: %v, %v", bad, s, err)
		}
	}
}

// TestSpansAreCounted has a collector that is away, and looks for the counters among the metrics.
func TestSpansAreCounted(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	to, err := ParseTraceTarget("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	ts := startServer(t, oneSet(t, 10, 1), func(c *Config) { c.Traces = &Traces{To: to, Share: 1} })
	_, span := ts.tracer.Tracer("test").Start(t.Context(), "lost")
	span.End()
	want := "imgfeed_trace_spans_dropped_total 1\n"
	until(t, "the span is counted", func() bool { return strings.Contains(ts.get("/metrics").Body.String(), want) })
	if text := ts.get("/metrics").Body.String(); !strings.Contains(text, "imgfeed_trace_spans_sent_total 0\n") {
		t.Error(text)
	}
}
