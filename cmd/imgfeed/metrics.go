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

// metricsFlags are the flags of what serves HTTP.
type metricsFlags struct {
	metrics      string
	metricsHosts []string
	pprof        bool
}

func (f *metricsFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.metricsHosts, "metrics-host", nil, "also serve the status page under this name, beside addresses, localhost and this machine's own name")
	flags.Var(addressFlag(&f.metrics), "metrics", "serve a status page, /status.json, Prometheus metrics and /healthz at this address; a port alone means this machine only")
}

// serve serves HTTP beside the sessions, if it was asked for, and returns its address.
func (f *metricsFlags) serve(ctx context.Context, srv *server.Server, log *slog.Logger) (string, error) {
	if f.metrics == "" {
		return "", nil
	}
	l, err := net.Listen("tcp", f.metrics)
	if err != nil {
		return "", fmt.Errorf("metrics: %w: choose another address, or port 0 for any that is free", err)
	}
	handler := srv.Handler()
	if f.pprof {
		handler = withProfiles(handler)
	}
	names := f.metricsHosts
	if host, _, err := net.SplitHostPort(f.metrics); err == nil {
		names = append(names, host)
	}
	hs := &http.Server{Handler: onlyHosts(handler, names), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	srv.SetPage("http://" + l.Addr().String() + "/")
	context.AfterFunc(ctx, func() { hs.Close() })
	go func() {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "err", err)
		}
	}()
	return l.Addr().String(), nil
}

// withProfiles adds Go's profiles to what h serves, at /debug/pprof/. They are for this machine alone: a profile slows the
// server down while it is taken, and says more about it than a page does. A refusal says how to ask from here.
func withProfiles(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	for path, profile := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.HandleFunc("/debug/pprof/"+path, func(w http.ResponseWriter, r *http.Request) {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
				http.Error(w, "profiles are given to this machine only: come through ssh -L, or from inside the container", http.StatusForbidden)
				return
			}
			profile(w, r)
		})
	}
	return mux
}
