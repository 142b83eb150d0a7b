package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Status describes the server and its sessions for people, a line each.
func (s *Server) Status() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d threads, %s of %s for batches in use\n", s.cfg.Name, s.pool.Threads(), formatBytes(s.memory.inUse()), formatBytes(s.memory.max))
	found := s.catalog.Load().found
	for _, set := range s.Sets() {
		fmt.Fprintf(&b, "split %s: %d samples of %d classes in %s\n", set.Split, set.Samples, set.Classes, found.Sets[set.Split])
	}
	for _, err := range s.catalog.Load().problems() {
		fmt.Fprintf(&b, "damaged, and not served: %v\n", err)
	}
	sessions := s.openSessions()
	for _, sess := range sessions {
		_, verdict := sess.verdict()
		fmt.Fprintf(&b, "session %d: %s, rank %d of %d, %d images in %d batches: %s\n",
			sess.connection.id, sess.split, sess.plan.Rank, sess.plan.World, sess.images.Load(), sess.batches.Load(), verdict)
	}
	if len(sessions) == 0 {
		b.WriteString("no sessions\n")
	}
	return b.String()
}

// list returns the connections in the order in which they came.
func (s *Server) list() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*connection, 0, len(s.connections))
	for _, c := range s.connections {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *connection) int { return int(a.id) - int(b.id) })
	return list
}

// openSessions returns the sessions in the order in which their connections came.
func (s *Server) openSessions() (sessions []*session) {
	for _, c := range s.list() {
		if sess := c.session.Load(); sess != nil {
			sessions = append(sessions, sess)
		}
	}
	return sessions
}

// Handler serves /metrics for Prometheus, /healthz for supervisors (200 while the server accepts sessions, 503 when it
// stops; after "ok", what of the data is damaged, a line each: a restart would not mend it) and, at /, what the server is
// doing as sentences.
func (s *Server) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.metrics()...)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if s.stopping.Load() {
			http.Error(w, "stopping", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n")
		for _, err := range s.catalog.Load().problems() {
			fmt.Fprintf(w, "damaged: %v\n", err)
		}
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, s.Status())
	})
	return mux
}

// MetricsAddr completes an address for [Server.Handler]: a port alone, or without a host, means this machine only.
func MetricsAddr(addr string) (string, error) {
	if !strings.Contains(addr, ":") {
		addr = ":" + addr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("metrics address: %w", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}
