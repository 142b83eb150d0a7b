// Package traces sends OpenTelemetry's spans to a collector by OTLP over HTTP, as https://opentelemetry.io/docs/specs/otlp says.
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

// waitingMax bounds the spans that wait to be sent. Further ones are dropped: whoever makes spans never waits.
const waitingMax = 2048

// sendMax is how many spans are sent at a time.
const sendMax = 512

// sendEvery is OTEL_BSP_SCHEDULE_DELAY's default.
const sendEvery = 5 * time.Second

// goodbye is how long the end of the program waits for a collector to take what is left.
const goodbye = 2 * time.Second

// A Sender sends spans while the program does something else. What the collector does not take is dropped, and counted; the log
// has a line when it begins to refuse and one when it takes spans again.
type Sender struct {
	provider *sdktrace.TracerProvider
	log      *slog.Logger
	to       Target
	cancel   context.CancelFunc // of requests under way

	waiting, sent, dropped atomic.Int64
	down                   atomic.Bool
}

// New begins to send spans of the program name in the given version. What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say of it
// takes the place of what it says itself.
func New(to Target, name, version string, log *slog.Logger) (*Sender, error) {
	ctx, cancel := context.WithCancel(context.Background())
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", name), attribute.String("service.version", version)),
		resource.WithHost(), resource.WithProcessPID(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		cancel()
		return nil, fmt.Errorf("traces: %w", err)
	}
	exporter, err := otlptrace.New(ctx, &client{to: to, ctx: ctx, http: &http.Client{Timeout: to.Timeout}})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("traces: %w", err)
	}
	s := &Sender{log: log, to: to, cancel: cancel}
	// The library takes numbers below 1 of its variables as they are: it panics, or sends without a pause.
	options := []sdktrace.BatchSpanProcessorOption{sdktrace.WithMaxQueueSize(waitingMax), sdktrace.WithMaxExportBatchSize(sendMax)}
	if ms, err := strconv.Atoi(os.Getenv("OTEL_BSP_SCHEDULE_DELAY")); err == nil && ms < 1 {
		options = append(options, sdktrace.WithBatchTimeout(sendEvery))
	}
	gather := sdktrace.NewBatchSpanProcessor(counted{exporter, s}, options...)
	s.provider = sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithSpanProcessor(bounded{gather, s}))
	return s, nil
}

// Provider has the tracers whose spans are sent.
func (s *Sender) Provider() trace.TracerProvider { return s.provider }

// Sent returns how many spans the collector has taken, Dropped how many were given up.
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

// bounded drops spans that would wait behind too many others. The SDK would as well, but without telling how many.
type bounded struct {
	sdktrace.SpanProcessor
	sender *Sender
}

// OnEnd implements [sdktrace.SpanProcessor].
func (b bounded) OnEnd(span sdktrace.ReadOnlySpan) {
	if b.sender.waiting.Add(1) > waitingMax {
		b.sender.waiting.Add(-1)
		b.sender.dropped.Add(1)
		return
	}
	b.SpanProcessor.OnEnd(span)
}

// counted counts the spans that are sent. Errors end here: the SDK would write a line to stderr for each.
type counted struct {
	sdktrace.SpanExporter
	sender *Sender
}

// ExportSpans implements [sdktrace.SpanExporter].
func (c counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	c.sender.note(len(spans), c.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// A client is OTLP over HTTP, for [otlptrace.New].
type client struct {
	to   Target
	ctx  context.Context // ends with the sender
	http *http.Client
}

// Start implements [otlptrace.Client].
func (c *client) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (c *client) Stop(context.Context) error { return nil }

// answerMax bounds what is read of an answer.
const answerMax = 64 << 10

// UploadTraces implements [otlptrace.Client]. It does not try again what was refused: a span is a sample of what happens, and the
// next one tells the same.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // on the wire the same as an ExportTraceServiceRequest
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.to.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range c.to.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	response, err := c.http.Do(request)
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
