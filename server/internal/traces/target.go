package traces

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Target is where spans are sent, and how.
type Target struct {
	URL     string // of the collector's endpoint for traces
	Headers map[string]string
	Timeout time.Duration // of a request
}

// String returns the URL, without a password.
func (t Target) String() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return "a URL that cannot be read"
	}
	return u.Redacted()
}

// timeoutUsual is OpenTelemetry's.
const timeoutUsual = 10 * time.Second

// ParseTarget reads a collector's address, http://HOST:4318 for instance, to which the protocol's path is added. Without http:// it has a port:
// a word alone is a slip rather than a host.
// getenv gives headers and timeout, as [FromEnvironment] has them.
func ParseTarget(address string, getenv func(string) string) (Target, error) {
	short := !strings.Contains(address, "://")
	if short {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || short && u.Port() == "" || u.Scheme != "http" && u.Scheme != "https" || !isPort(cmp.Or(u.Port(), "80")) {
		return Target{}, fmt.Errorf("want a collector's address, as http://localhost:4318")
	}
	if !strings.HasSuffix(u.Path, "/v1/traces") {
		u = u.JoinPath("v1/traces")
	}
	return Target{URL: u.String()}.completed(getenv)
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

// FromEnvironment returns what OpenTelemetry's variables say of traces, as its specification
// (https://opentelemetry.io/docs/specs/otel/protocol/exporter) has them: OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT and _PROTOCOL,
// each before it with TRACES_ for traces alone; and OTEL_SDK_DISABLED and OTEL_TRACES_EXPORTER, which switch off. Without an endpoint
// the target's URL is "".
func FromEnvironment(getenv func(string) string) (Target, error) {
	endpoint, exact := getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if endpoint == "" && exact == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return Target{}, nil
	}
	if exporter := getenv("OTEL_TRACES_EXPORTER"); exporter != "" && exporter != "otlp" {
		return Target{}, nil
	}
	if name, protocol := variable(getenv, "PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return Target{}, fmt.Errorf("%s is %q, and only http/protobuf is spoken here", name, protocol)
	}
	name := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	if exact == "" {
		name = "OTEL_EXPORTER_OTLP_ENDPOINT"
	}
	to, err := ParseTarget(cmp.Or(exact, endpoint), getenv)
	if err != nil {
		return Target{}, fmt.Errorf("%s is %q: %w", name, cmp.Or(exact, endpoint), err)
	}
	if exact != "" {
		to.URL = exact // to the letter, other than the endpoint of all signals
	}
	return to, nil
}

// completed reads headers and timeout.
func (t Target) completed(getenv func(string) string) (Target, error) {
	t.Timeout, t.Headers = timeoutUsual, map[string]string{}
	if name, text := variable(getenv, "TIMEOUT"); text != "" {
		milliseconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return Target{}, fmt.Errorf("%s is %q, want milliseconds", name, text)
		}
		t.Timeout = time.Duration(milliseconds) * time.Millisecond
	}
	name, text := variable(getenv, "HEADERS")
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || err != nil || key == "" {
			return Target{}, fmt.Errorf("%s: want NAME=VALUE,NAME=VALUE, with %%-escapes in values", name) // it may hold a secret
		}
		t.Headers[key] = value
	}
	return t, nil
}

// variable returns a variable of the exporter: that for traces, else that for all signals.
func variable(getenv func(string) string, name string) (string, string) {
	if text := getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); text != "" {
		return "OTEL_EXPORTER_OTLP_TRACES_" + name, text
	}
	return "OTEL_EXPORTER_OTLP_" + name, getenv("OTEL_EXPORTER_OTLP_" + name)
}
