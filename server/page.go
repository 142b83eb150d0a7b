package server

import (
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/imgfeed/imgfeed/internal/style"
	"github.com/imgfeed/imgfeed/server/status"
)

// page holds the status page, and uPlot (https://github.com/leeoniya/uPlot, MIT), which draws its plots.
//
//go:embed page
var page embed.FS

// Handler serves the status page at /, as sentences if the request does not accept HTML; the [status.Status] at /status.json;
// /metrics for Prometheus; and /healthz for supervisors. Its status is 200 while the server accepts sessions, and 503 once it
// stops. After "ok" comes a line for each damaged set or partition, since a restart would not mend it.
func (s *Server) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(status.Metrics(s.sample), s.totals.batchWait, s.totals.slotHeld)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", s.serveHealth)
	mux.HandleFunc("GET /{$}", s.servePage)
	files, _ := page.ReadDir("page") // it is embedded
	for _, f := range files {
		path := "page/" + f.Name()
		mux.HandleFunc("GET /"+path, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, page, path) })
	}
	mux.HandleFunc("GET /page/style.css", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "style.css", time.Time{}, strings.NewReader(style.CSS))
	})
	mux.HandleFunc("GET /status.json", s.serveStatus)
	mux.HandleFunc("GET /sessions/{session}/batch.json", s.serveBatch)
	return mux
}

func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if s.stopping.Load() {
		http.Error(w, "stopping", http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ok\n")
	for _, err := range s.catalog.Load().problems() {
		fmt.Fprintf(w, "damaged: %v\n", err)
	}
}

func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, s.Status(0).String())
		return
	}
	// All comes from here, and no other page may show this one in a frame.
	w.Header().Set("Content-Security-Policy",
		"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'")
	http.ServeFileFS(w, r, page, "page/index.html")
}

func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	since, err := strconv.ParseFloat(r.FormValue("since"), 64)
	if err != nil && r.FormValue("since") != "" {
		http.Error(w, "since is no number of seconds since 1970", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(s.Status(since)) // fails where the asker has gone
}
