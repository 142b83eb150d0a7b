package server

import (
	"embed"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/imgfeed/imgfeed/loader"
)

// page holds the status page, and uPlot (https://github.com/leeoniya/uPlot, MIT), which draws its plots.
//
//go:embed page
var page embed.FS

// Handler serves, for people, the status page at / (as sentences to whoever does not ask for HTML); for programs, the [Status] at
// /status.json; /metrics for Prometheus; and /healthz for supervisors: 200 while the server accepts sessions, 503 when it stops; after "ok",
// what of the data is damaged, a line each, since a restart would not mend it.
func (s *Server) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.metrics()...)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", s.serveHealth)
	mux.HandleFunc("GET /{$}", s.servePage)
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux.Handle("GET /page/", http.StripPrefix("/page/", http.FileServerFS(files)))
	mux.HandleFunc("GET /status.json", s.serveStatus)
	mux.HandleFunc("GET /sessions/{session}/batch.png", s.serveBatch)
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
	w.Header().Set("Content-Security-Policy", "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'")
	http.ServeFileFS(w, r, page, "page/index.html")
}

func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	since, err := strconv.ParseFloat(r.FormValue("since"), 64)
	if err != nil && r.FormValue("since") != "" {
		http.Error(w, "since is no number of seconds since 1970", http.StatusBadRequest)
		return
	}
	writeJSON(w, s.Status(since))
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(value) // fails where the asker has gone
}

// previewSamples is how many samples of a batch are shown, previewColumns how many beside each other.
const (
	previewSamples = 16
	previewColumns = 8
)

// A batchPreview is the samples of a session's last batch, as batch.json describes them; batch.png has the pictures, in rows of Columns.
type batchPreview struct {
	Epoch   int             `json:"epoch"`
	Batch   int             `json:"batch"`
	Columns int             `json:"columns"`
	Samples []previewSample `json:"samples"`

	height, width int
	pictures      []loader.Preview
}

type previewSample struct {
	Index int    `json:"index"`
	Key   string `json:"key"`
	Label int32  `json:"label"`
	Class string `json:"class"`
	Error string `json:"error,omitempty"`
}

// serveBatch shows the last batch that a session was sent. It is made once for all who look.
func (s *Server) serveBatch(w http.ResponseWriter, r *http.Request) {
	sessions := s.openSessions()
	i := slices.IndexFunc(sessions, func(sess *session) bool { return strconv.FormatUint(sess.connection.id, 10) == r.PathValue("session") })
	if i < 0 {
		http.Error(w, "there is no such session any more", http.StatusNotFound)
		return
	}
	p, err := sessions[i].preview()
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if strings.HasSuffix(r.URL.Path, ".json") {
		writeJSON(w, p)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	w.Header().Set("Cache-Control", "no-store")
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	encoder.Encode(w, p.sheet()) // fails where the asker has gone
}

// forgetStream ends what others may do with the running epoch's stream: after it, its set may be closed.
func (s *session) forgetStream() {
	s.previewMu.Lock()
	defer s.previewMu.Unlock()
	s.stream.Store(nil)
	s.lastPreview = nil
}

// preview makes the session's last batch once more, unless it has just done so.
func (s *session) preview() (*batchPreview, error) {
	s.previewMu.Lock()
	defer s.previewMu.Unlock()
	stream := s.stream.Load()
	if stream == nil {
		return nil, badRequest("no epoch is running")
	}
	p := &batchPreview{Epoch: stream.Plan().Config().Epoch, Batch: stream.Stats().Batches - 1, Columns: previewColumns}
	if p.Batch < 0 {
		return nil, badRequest("the epoch's first batch is not sent yet")
	}
	if last := s.lastPreview; last != nil && last.Epoch == p.Epoch && last.Batch == p.Batch {
		return last, nil
	}
	var err error
	if p.pictures, err = stream.Preview(p.Batch, previewSamples); err != nil {
		return nil, err
	}
	p.height, p.width = s.views[0].OutputSize()
	classes := s.set.Manifest().Classes
	for _, sample := range p.pictures {
		shown := previewSample{Index: sample.Index, Key: sample.Key, Label: sample.Label}
		if sample.Label >= 0 && int(sample.Label) < len(classes) {
			shown.Class = classes[sample.Label]
		}
		if sample.Err != nil {
			shown.Error = sample.Err.Error()
		}
		p.Samples = append(p.Samples, shown)
	}
	s.lastPreview = p
	return p, nil
}

// sheet lays the pictures out in rows.
func (p *batchPreview) sheet() image.Image {
	columns := min(len(p.pictures), previewColumns)
	rows := (len(p.pictures) + previewColumns - 1) / previewColumns
	sheet := image.NewNRGBA(image.Rect(0, 0, columns*p.width, rows*p.height))
	for i, picture := range p.pictures {
		if picture.Pix == nil {
			continue
		}
		left, top := i%previewColumns*p.width, i/previewColumns*p.height
		for y := range p.height {
			to := sheet.Pix[sheet.PixOffset(left, top+y):]
			from := picture.Pix[3*y*p.width:]
			for x := range p.width {
				to[4*x], to[4*x+1], to[4*x+2], to[4*x+3] = from[3*x], from[3*x+1], from[3*x+2], 255
			}
		}
	}
	return sheet
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
