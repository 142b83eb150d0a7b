package traces

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A collector is a receiver of OTLP over HTTP, decoded by the protocol's own definitions.
type collector struct {
	*httptest.Server
	answer atomic.Int64 // the status
	mu     sync.Mutex
	got    []*tracepb.ResourceSpans
	header http.Header
	path   string
}

func startCollector(t *testing.T) *collector {
	c := new(collector)
	c.answer.Store(http.StatusOK)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil {
			t.Errorf("a body that is no TracesData: %v", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.header, c.path = r.Header, r.URL.Path
		if status := int(c.answer.Load()); status != http.StatusOK {
			http.Error(w, "out of order", status)
			return
		}
		c.got = append(c.got, data.ResourceSpans...)
	}))
	t.Cleanup(c.Close)
	return c
}

// resource returns what is said of the program.
func (c *collector) resource() map[string]*commonpb.AnyValue {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := map[string]*commonpb.AnyValue{}
	for _, a := range c.got[0].Resource.Attributes {
		values[a.Key] = a.Value
	}
	return values
}

// spans returns what has come.
func (c *collector) spans() (spans []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.got {
		for _, scope := range r.ScopeSpans {
			spans = append(spans, scope.Spans...)
		}
	}
	return spans
}

// newSender sends to a URL, each span nearly at once, and returns its log.
func newSender(t *testing.T, address string) (*Sender, *syncBuffer) {
	t.Helper()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	to, err := ParseTarget(address, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	log := new(syncBuffer)
	s, err := New(to, "imgfeed", "1.2.3", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, log
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func makeSpan(s *Sender) {
	_, span := s.Provider().Tracer("test").Start(context.Background(), "batch", trace.WithAttributes(attribute.Int("n", 7)))
	span.End()
}

// until waits for something that is bound to happen.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what + " does not come")
		}
	}
}

// TestSpansArrive looks at spans, and at what is said of the program, as a collector gets them.
func TestSpansArrive(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x = y")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.version=4")
	c := startCollector(t)
	s, _ := newSender(t, c.URL)
	makeSpan(s)
	s.Close()
	spans := c.spans()
	if len(spans) != 1 || spans[0].Name != "batch" || spans[0].Attributes[0].Key != "n" || spans[0].Attributes[0].Value.GetIntValue() != 7 {
		t.Errorf("spans %v", spans)
	}
	if c.path != "/v1/traces" || c.header.Get("Content-Type") != "application/x-protobuf" || c.header.Get("Api-Key") != "a b" || c.header.Get("X") != "y" {
		t.Errorf("request for %s with %v", c.path, c.header)
	}
	about := c.resource()
	for name, want := range map[string]string{"service.name": "imgfeed", "service.version": "4", "deployment.environment.name": "test", "telemetry.sdk.name": "opentelemetry"} {
		if got := about[name].GetStringValue(); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if about["host.name"].GetStringValue() == "" || about["process.pid"].GetIntValue() != int64(os.Getpid()) {
		t.Errorf("resource %v", about)
	}
	if s.Sent() != 1 || s.Dropped() != 0 {
		t.Errorf("%d sent, %d dropped", s.Sent(), s.Dropped())
	}
}

// TestVariablesBelowOne: numbers for which the library panics, or would send without a pause.
func TestVariablesBelowOne(t *testing.T) {
	c := startCollector(t)
	for _, name := range []string{"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT"} {
		t.Setenv(name, "-5")
	}
	to, err := ParseTarget(c.URL, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(to, "imgfeed", "1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	makeSpan(s)
	s.Close()
	if spans := c.spans(); len(spans) != 1 {
		t.Errorf("%d spans come", len(spans))
	}
}

// TestCollectorFails has one answer 500, then take spans, and then end: what it did not take is counted, and said once.
func TestCollectorFails(t *testing.T) {
	c := startCollector(t)
	c.answer.Store(http.StatusInternalServerError)
	s, log := newSender(t, c.URL)
	for n := range int64(3) {
		makeSpan(s)
		until(t, "a refusal", func() bool { return s.Dropped() == n+1 })
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "500 Internal Server Error") || !strings.Contains(text, "out of order") || !strings.Contains(text, "4318") {
		t.Errorf("log after three refusals: %s", text)
	}
	c.answer.Store(http.StatusOK)
	makeSpan(s)
	until(t, "a span that is taken", func() bool { return s.Sent() == 1 })
	until(t, "the news of it", func() bool { return strings.Contains(log.String(), "traces are sent again") })
	c.CloseClientConnections()
	c.Server.Close()
	for n := range int64(2) {
		makeSpan(s)
		until(t, "a refusal", func() bool { return s.Dropped() == 3+n+1 })
	}
	s.Close()
	if text := log.String(); strings.Count(text, "\n") != 4 || strings.Count(text, "traces cannot be sent") != 2 || !strings.Contains(text, "sent=1 dropped=5") {
		t.Errorf("log: %s", text)
	}
}

// TestCollectorHangs makes more spans than may wait for one that answers nothing: none of them may wait for it, nor may the end.
func TestCollectorHangs(t *testing.T) {
	hang := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer hanging.Close()
	defer close(hang)
	s, log := newSender(t, hanging.URL)
	started := time.Now()
	const spans = 3 * waitingMax
	for range spans {
		makeSpan(s)
	}
	if took := time.Since(started); took > timeoutUsual/2 {
		t.Errorf("%d spans took %v", spans, took)
	}
	if s.Dropped() != spans-waitingMax || s.waiting.Load() != waitingMax {
		t.Errorf("%d dropped and %d waiting, of %d", s.Dropped(), s.waiting.Load(), spans)
	}
	started = time.Now()
	s.Close()
	if took := time.Since(started); took > 2*goodbye {
		t.Errorf("the end took %v", took)
	}
	if !strings.Contains(log.String(), "sent=0 dropped=6144") {
		t.Errorf("log: %s", log)
	}
}
