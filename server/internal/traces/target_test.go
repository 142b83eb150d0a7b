package traces

import (
	"strings"
	"testing"
	"time"
)

// TestFromEnvironment reads OpenTelemetry's variables as its specification has them.
func TestFromEnvironment(t *testing.T) {
	const of = "OTEL_EXPORTER_OTLP_"
	for _, c := range []struct {
		env       map[string]string
		url, fail string
	}{
		{nil, "", ""},
		{map[string]string{of + "ENDPOINT": "http://c:4318"}, "http://c:4318/v1/traces", ""},
		{map[string]string{of + "ENDPOINT": "https://c/prefix/"}, "https://c/prefix/v1/traces", ""},
		{map[string]string{of + "ENDPOINT": "http://c:4318", of + "TRACES_ENDPOINT": "http://d/spans"}, "http://d/spans", ""},
		{map[string]string{of + "ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, "", ""},
		{map[string]string{of + "ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, "", ""},
		{map[string]string{of + "ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "otlp", of + "PROTOCOL": "http/protobuf"}, "http://c:4318/v1/traces", ""},
		{map[string]string{of + "ENDPOINT": "http://c:4317", of + "PROTOCOL": "grpc"}, "", `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc"`},
		{map[string]string{of + "ENDPOINT": "http://c:4317", of + "PROTOCOL": "grpc", of + "TRACES_PROTOCOL": "http/protobuf"}, "http://c:4317/v1/traces", ""},
		{map[string]string{of + "ENDPOINT": "grpc://c"}, "", `OTEL_EXPORTER_OTLP_ENDPOINT is "grpc://c"`},
		{map[string]string{of + "TRACES_ENDPOINT": "ftp://c"}, "", `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is "ftp://c"`},
		{map[string]string{of + "ENDPOINT": "http://c", of + "TIMEOUT": "10s"}, "", `OTEL_EXPORTER_OTLP_TIMEOUT is "10s", want milliseconds`},
		{map[string]string{of + "ENDPOINT": "http://c", of + "TRACES_HEADERS": "secret"}, "", "OTEL_EXPORTER_OTLP_TRACES_HEADERS: want NAME=VALUE"},
	} {
		to, err := FromEnvironment(func(name string) string { return c.env[name] })
		switch {
		case to.URL != c.url || (err == nil) != (c.fail == ""):
			t.Errorf("%v: %q, %v; want %q, %q", c.env, to.URL, err, c.url, c.fail)
		case err != nil && (!strings.Contains(err.Error(), c.fail) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%v: %v, want %q", c.env, err, c.fail)
		}
	}
}

// TestParseTarget reads addresses as they are given to a flag.
func TestParseTarget(t *testing.T) {
	env := map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "2500", "OTEL_EXPORTER_OTLP_HEADERS": "a=b"}
	for address, want := range map[string]string{
		"http://c:4318": "http://c:4318/v1/traces", "c:4318": "http://c:4318/v1/traces", "c:4318/": "http://c:4318/v1/traces",
		"https://c/v1/traces": "https://c/v1/traces", "http://u:p@c": "http://u:p@c/v1/traces", "": "", "://c": "", "ftp://c": "", "x": "", "x/y": "", "c:0": "", "http://c:70000": "", "http://": "",
	} {
		to, err := ParseTarget(address, func(name string) string { return env[name] })
		if to.URL != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", address, to.URL, err, want)
		}
		if err == nil && (to.Timeout != 2500*time.Millisecond || to.Headers["a"] != "b" || strings.Contains(to.String(), ":p@")) {
			t.Errorf("%q: %+v, %v", address, to, to)
		}
	}
}
