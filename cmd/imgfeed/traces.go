package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/internal/traces"
	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/imgfeed/imgfeed/server"
)

// traceFlags say where batches are traced to, and how many of them.
type traceFlags struct {
	to    traces.Target
	share float64
}

func (f *traceFlags) register(flags *pflag.FlagSet) {
	f.share = 0.01
	flags.Var(targetFlag(&f.to), "traces", "send OpenTelemetry traces of batches to the collector at this URL, as http://localhost:4318, by OTLP over HTTP (default $OTEL_EXPORTER_OTLP_ENDPOINT, else none; none switches them off)")
	flags.Var(shareFlag(&f.share), "traces-share", "share of the batches that are traced, chosen at random")
}

// fromEnvironment takes the target from OpenTelemetry's variables, which are meant for other programs too: what is wrong in them is said,
// and no reason not to serve.
func (f *traceFlags) fromEnvironment(log *slog.Logger) {
	to, err := traces.FromEnvironment(os.Getenv)
	if err != nil {
		log.Warn("no traces are sent", "err", err)
	}
	f.to = to
}

// start has c trace batches, if that was asked for, and returns what ends it.
func (f *traceFlags) start(c *server.Config, log *slog.Logger) (end func(), err error) {
	if f.to.URL == "" {
		return func() {}, nil
	}
	sender, err := traces.New(f.to, "imgfeed", version.Get().String(), log)
	if err != nil {
		return nil, err
	}
	c.Traces = &server.Traces{Provider: sender.Provider(), Share: f.share}
	c.Metrics = append(c.Metrics,
		spanCounter("sent", "Spans of traces that the collector has taken.", sender.Sent),
		spanCounter("dropped", "Spans of traces that were given up: there were too many, or the collector did not take them.", sender.Dropped))
	return sender.Close, nil
}

func spanCounter(what, help string, count func() int64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "imgfeed_trace_spans_" + what + "_total", Help: help}, func() float64 { return float64(count()) })
}

// String says where traces go, and of what.
func (f *traceFlags) String() string {
	if f.share == 1 {
		return fmt.Sprintf("traces of all batches to %v", f.to)
	}
	return fmt.Sprintf("traces of %.4g %% of the batches to %v", 100*f.share, f.to)
}

// targetFlag is the address of a collector of traces, or none.
func targetFlag(to *traces.Target) checkedFlag[traces.Target] {
	return checkedFlag[traces.Target]{to, "URL", func(text string) (traces.Target, error) {
		if text == "none" {
			return traces.Target{}, nil
		}
		return traces.ParseTarget(text, os.Getenv)
	}, func(to traces.Target) string { return to.URL }}
}
