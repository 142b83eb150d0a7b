package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/server"
)

// metricsFlags are the flags of the HTTP server.
type metricsFlags struct {
	metrics      string
	metricsHosts []string
	pprof        bool
}

func (f *metricsFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.metricsHosts, "metrics-host", nil, "further host name of the status page, e.g. a proxy's")
	flags.Var(addressFlag(&f.metrics), "metrics", "address of the status page, /metrics and /healthz; a port alone: only this machine")
}

// serve starts the HTTP server, if --metrics is given, and returns its address.
func (f *metricsFlags) serve(ctx context.Context, srv *server.Server, log *slog.Logger) (string, error) {
	if f.metrics == "" {
		return "", nil
	}
	l, err := net.Listen("tcp", f.metrics)
	if err != nil {
		return "", fmt.Errorf("metrics: %w: choose another address, or port 0 for any free one", err)
	}
	handler := srv.Handler()
	if f.pprof {
		handler = withProfiles(handler)
	}
	names := f.metricsHosts
	if host, _, err := net.SplitHostPort(f.metrics); err == nil {
		names = append(names, host)
	}
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	hs := &http.Server{Handler: onlyHosts(handler, names), ReadHeaderTimeout: 10 * time.Second, ErrorLog: errorLog}
	srv.SetPage("http://" + l.Addr().String() + "/")
	context.AfterFunc(ctx, func() { hs.Close() })
	go func() {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "err", err)
		}
	}()
	return l.Addr().String(), nil
}

// withProfiles adds Go's profiles to h, at /debug/pprof/, for clients on this machine only: profiling slows the server
// down, and profiles reveal more than the page. A refusal explains how to connect from here.
func withProfiles(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	for path, profile := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.HandleFunc("/debug/pprof/"+path, func(w http.ResponseWriter, r *http.Request) {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
				http.Error(w, "profiles are for this machine only: use ssh -L, or connect from inside the container", http.StatusForbidden)
				return
			}
			profile(w, r)
		})
	}
	return mux
}
