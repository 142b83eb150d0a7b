package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/server"
)

// metricsFlags are the flags of the HTTP server.
type metricsFlags struct {
	metrics      string
	metricsHosts []string
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
	names := f.metricsHosts
	if host, _, err := net.SplitHostPort(f.metrics); err == nil {
		names = append(names, host)
	}
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	hs := &http.Server{Handler: onlyHosts(srv.Handler(), names), ReadHeaderTimeout: 10 * time.Second, ErrorLog: errorLog}
	srv.SetPage("http://" + l.Addr().String() + "/")
	context.AfterFunc(ctx, func() { hs.Close() })
	go func() {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "err", err)
		}
	}()
	return l.Addr().String(), nil
}

// onlyHosts refuses requests under other names than this machine's. Otherwise a foreign web page could point its own
// name to this address (DNS rebinding) and read the page through a browser here. Requests by address pass. So do
// /metrics and /healthz, which show no data and which monitors may request under any name.
func onlyHosts(h http.Handler, names []string) http.Handler {
	own, _ := os.Hostname()
	short, _, _ := strings.Cut(own, ".")
	allowed := append([]string{"localhost", own, short}, names...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.ToLower(strings.Trim(host, "[]"))
		open := r.URL.Path == "/metrics" || r.URL.Path == "/healthz"
		known := slices.ContainsFunc(allowed, func(name string) bool { return name != "" && strings.EqualFold(name, host) })
		if !open && !known && net.ParseIP(host) == nil {
			text := fmt.Sprintf("not served under the name %.80q: use an IP address, or imgfeed serve --metrics-host NAME", host)
			http.Error(w, text, http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
