package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// FuzzHandler asks the status page's server anything: it answers, in the type that it says, and nothing that a question says is an
// error of the server's own.
func FuzzHandler(f *testing.F) {
	for _, target := range []string{
		"/", "/healthz", "/metrics", "/status.json", "/status.json?since=1.5", "/status.json?since=NaN", "/status.json?since=-Inf", "/status.json?since=1e400",
		"/sessions/1/batch.json", "/sessions/99/batch.json", "/sessions/18446744073709551616/batch.json", "/sessions/-1/batch.json?view=7",
		"/page/index.html", "/page/", "/page/../handler.go", "/page/%2e%2e/page.go", "/page//", "/page/%ff.js", "/page/%ED%A0%80", "/none",
	} {
		f.Add(http.MethodGet, target, "text/html", "")
	}
	f.Add(http.MethodHead, "/", "*/*", "")
	f.Add(http.MethodPost, "/status.json", "", "since=nan")
	f.Add(http.MethodGet, "/page/index.html", "bytes=1-0", "")
	ts := startServer(f, oneSet(f, 8, 2), nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 2})
	c.epoch(0, 0)
	handler := ts.Handler()
	f.Fuzz(func(t *testing.T, method, target, header, body string) {
		to, err := url.ParseRequestURI(target)
		if err != nil {
			t.Skip() // net/http answers such ones by itself
		}
		r := &http.Request{
			Method: method, URL: to, RequestURI: target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "localhost",
			Header: http.Header{"Accept": {header}, "Range": {header}, "Content-Type": {"application/x-www-form-urlencoded"}},
			Body:   http.NoBody,
		}
		if body != "" {
			r.Body = httptest.NewRequest(http.MethodPost, "/", bytes.NewBufferString(body)).Body
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		testenv.Check(t, w.Code != http.StatusInternalServerError, "%s %q: status %d: %s", method, target, w.Code, w.Body)
		if w.Header().Get("Content-Type") == "application/json" && w.Code == http.StatusOK && method != http.MethodHead && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %q: no JSON: %.200q", method, target, w.Body)
		}
	})
}
