package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestProfiles asks for profiles from this machine and from elsewhere, and for what was there before.
func TestProfiles(t *testing.T) {
	h := withProfiles(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the page") }))
	for _, c := range []struct {
		path, from string
		status     int
		want       string
	}{
		{"/debug/pprof/", "127.0.0.1:1", 200, "goroutine"},
		{"/debug/pprof/heap?debug=1", "[::1]:1", 200, "heap profile"},
		{"/debug/pprof/cmdline", "127.0.0.1:1", 200, "test"},
		{"/debug/pprof/profile", "10.0.0.1:1", 403, "ssh -L"},
		{"/debug/pprof/", "[2001:db8::1]:1", 403, "ssh -L"},
		{"/debug/pprof/", "@", 403, "ssh -L"},
		{"/", "10.0.0.1:1", 200, "the page"},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		r.RemoteAddr = c.from
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s from %s: %d, %.200s", c.path, c.from, w.Code, w.Body)
		}
	}
}
