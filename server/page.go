package server

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/imgfeed/imgfeed/internal/page"
	"github.com/imgfeed/imgfeed/server/status"
)

// The status page, and uPlot (https://github.com/leeoniya/uPlot, MIT), which draws its plots.
var (
	//go:embed page/body.html
	pageBody string
	//go:embed page/page.js
	pageScript string
	//go:embed page/uplot.js
	plotScript string
	//go:embed page/uplot.css
	plotCSS string
)

// SetPage says at which URL the status page is. Call it before anything is served: it is read without a lock.
func (s *Server) SetPage(url string) { s.page = url }

// SetPath says on which socket clients connect, by which [Running] names this server. Call it before anything is served.
func (s *Server) SetPath(path string) { s.path = path }

// Handler serves the status page at /, as sentences if the request does not accept HTML; the [status.Status] at /status.json;
// /metrics for Prometheus; and /healthz for supervisors. Its status is 200 while the server accepts sessions, and 503 once it
// stops. After "ok" comes a line for each damaged set or partition, since a restart would not mend it.
func (s *Server) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(status.Metrics(func() status.Status { return s.Status(math.Inf(1)) }), s.totals.BatchWait, s.totals.SlotHeld)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", s.serveHealth)
	mux.HandleFunc("GET /{$}", s.servePage)
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
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "frame-ancestors 'none'") // No other page may show this one in a frame.
	p := page.Begin(w, "imgfeed", "status", `"use strict";`+plotScript+pageScript)
	p.WriteString("<style>" + plotCSS + "</style>\n" + pageBody)
	p.End()
}

func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	since, err := strconv.ParseFloat(r.FormValue("since"), 64)
	if err != nil && r.FormValue("since") != "" {
		http.Error(w, "since must be a Unix time in seconds", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(s.Status(since)) // fails where the asker has gone
}
