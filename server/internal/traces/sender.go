// Package traces makes OpenTelemetry's spans of batches, and sends them to a collector by OTLP over HTTP, as
// https://opentelemetry.io/docs/specs/otlp says.
//
// The SDK makes and gathers the spans. Its own exporter for HTTP is not used: it brings all of gRPC along, 9 MB of code, for a POST.
package traces

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	waitingMax = 2048            // spans that wait to be sent; further ones are dropped, as whoever makes spans never waits
	sendMax    = 512             // spans that are sent at a time
	sendEvery  = 5 * time.Second // OTEL_BSP_SCHEDULE_DELAY's default
	goodbye    = 2 * time.Second // how long the end of the program waits for a collector to take what is left
	answerMax  = 64 << 10        // bytes that are read of an answer
)

// A Sender sends spans while the program does something else. What the collector does not take is dropped, and counted; the log
// has a line when it begins to refuse and one when it takes spans again.
//
// It stands on both sides of the SDK's processor, which gathers spans and has a goroutine send them: in front of it, to drop and
// count those that are too many, which the SDK would not count; and behind it, as the client that posts them.
type Sender struct {
	sdktrace.SpanProcessor
	provider *sdktrace.TracerProvider
	log      *slog.Logger
	to       Target
	http     *http.Client
	requests context.Context // ends with the sender
	cancel   context.CancelFunc

	waiting, sent, dropped atomic.Int64
	down                   atomic.Bool
}

// New begins to send spans of the program name in the given version. What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say of it
// takes the place of what it says itself.
func New(to Target, name, version string, log *slog.Logger) (*Sender, error) {
	s := &Sender{log: log, to: to, http: &http.Client{Timeout: to.Timeout}}
	s.requests, s.cancel = context.WithCancel(context.Background())
	about, err := resource.New(s.requests,
		resource.WithAttributes(attribute.String("service.name", name), attribute.String("service.version", version)),
		resource.WithHost(), resource.WithProcessPID(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	var exporter *otlptrace.Exporter
	if err == nil {
		exporter, err = otlptrace.New(s.requests, client{s})
	}
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("traces: %w", err)
	}
	// The library takes numbers below 1 of its variables as they are: it panics, or sends without a pause.
	options := []sdktrace.BatchSpanProcessorOption{sdktrace.WithMaxQueueSize(waitingMax), sdktrace.WithMaxExportBatchSize(sendMax)}
	if ms, err := strconv.Atoi(os.Getenv("OTEL_BSP_SCHEDULE_DELAY")); err == nil && ms < 1 {
		options = append(options, sdktrace.WithBatchTimeout(sendEvery))
	}
	s.SpanProcessor = sdktrace.NewBatchSpanProcessor(exporter, options...)
	s.provider = sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithSpanProcessor(s))
	return s, nil
}

// Provider has the tracers whose spans are sent.
func (s *Sender) Provider() trace.TracerProvider { return s.provider }

// Sent returns how many spans the collector has taken.
func (s *Sender) Sent() int64 { return s.sent.Load() }

// Dropped returns how many spans were given up: there were too many, or the collector did not take them.
func (s *Sender) Dropped() int64 { return s.dropped.Load() }

// Close sends what is left, for two seconds at most.
func (s *Sender) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	s.provider.Shutdown(ctx) // its error is noted below
	s.cancel()
	if lost := s.Dropped() + s.waiting.Load(); lost > 0 {
		s.log.Warn("not all spans could be sent", "to", s.to, "sent", s.Sent(), "dropped", lost)
	}
}

// note counts what has become of n spans that were to be sent.
func (s *Sender) note(n int, err error) {
	s.waiting.Add(-int64(n))
	if err != nil {
		s.dropped.Add(int64(n))
		if !s.down.Swap(true) {
			s.log.Warn("traces cannot be sent, and are dropped until they can be: the collector must take OTLP over HTTP, as most do at port 4318", "to", s.to, "err", err)
		}
		return
	}
	s.sent.Add(int64(n))
	if s.down.Swap(false) {
		s.log.Info("traces are sent again", "to", s.to, "dropped", s.Dropped())
	}
}

// OnEnd implements [sdktrace.SpanProcessor]. It drops spans that would wait behind too many others.
func (s *Sender) OnEnd(span sdktrace.ReadOnlySpan) {
	if s.waiting.Add(1) > waitingMax {
		s.waiting.Add(-1)
		s.dropped.Add(1)
		return
	}
	s.SpanProcessor.OnEnd(span)
}

// A client is the sender's OTLP over HTTP, for [otlptrace.New].
type client struct{ *Sender }

// Start implements [otlptrace.Client].
func (client) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (client) Stop(context.Context) error { return nil }

// UploadTraces implements [otlptrace.Client]. It does not try again what was refused: a span is a sample of what happens, and the
// next one shows the same. Errors end here: the SDK would write a line to stderr for each.
func (c client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	n := 0
	for _, r := range spans {
		for _, scope := range r.ScopeSpans {
			n += len(scope.Spans)
		}
	}
	c.note(n, c.post(ctx, spans))
	return nil
}

func (s *Sender) post(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.requests, cancel)()
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // on the wire the same as an ExportTraceServiceRequest
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.to.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range s.to.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	response, err := s.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("the collector answers %s %.200q", response.Status, strings.TrimSpace(string(answer)))
	}
	return err
}
