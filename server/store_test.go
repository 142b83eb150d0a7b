package server

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// TestLogStore tells what an epoch asks of a web server, and that it asks nothing once all is in a cache.
func TestLogStore(t *testing.T) {
	folder := http.FileServer(http.Dir(oneSet(t, 900, 1)))
	web := httptest.NewServer(folder)
	defer web.Close()
	cache, err := storage.OpenCache(filepath.Join(t.TempDir(), "cache"), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	storage.Remote.Cache = cache
	defer func() { storage.Remote.Cache = nil }()
	set, err := shard.OpenSet(web.URL + "/train-shards")
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	p, err := plan.New(plan.Config{Samples: set.Len(), World: 1, BatchSize: 2, Epoch: 3})
	if err != nil {
		t.Fatal(err)
	}
	said := func() string {
		var text bytes.Buffer
		logStore(context.Background(), slog.New(slog.NewTextHandler(&text, nil)), set, p)
		return text.String()
	}
	if got := said(); !strings.Contains(got, "epoch=3 rank=0 requests=") || strings.Contains(got, "requests=0 ") || !strings.Contains(got, `price="requests are not billed"`) {
		t.Error(got)
	}
	for i := range set.Len() {
		if _, _, err := set.Read(i, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := said(); !strings.Contains(got, `requests=0 bytes="0 bytes"`) {
		t.Error(got)
	}
	if set.Store() != web.URL+"/train-shards" {
		t.Error(set.Store())
	}
}
