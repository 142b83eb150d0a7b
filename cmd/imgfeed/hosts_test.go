package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

func TestOnlyHosts(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	h := onlyHosts(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), []string{"feed.example.com", ""})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:9090": 200, "127.0.0.1:9090": 200, "[::1]:9090": 200, "::1": 200, "10.1.2.3": 200, own: 200, own + ":1": 200,
		"feed.example.com": 200, "FEED.example.com:80": 200, "evil.example.com": 403, "evil.example.com:9090": 403, "localhost.evil.com": 403, "": 403,
	} {
		for _, path := range []string{"/", "/status.json", "/sessions/1/batch.json", "/metrics", "/healthz"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			open := path == "/metrics" || path == "/healthz"
			if got := w.Code; got != want && !(open && got == 200) {
				t.Errorf("%s of %q: %d, want %d", path, host, got, want)
			}
		}
	}
}
