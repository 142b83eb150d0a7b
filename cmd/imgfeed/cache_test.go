package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/shard/storage/cache"
)

// TestCacheCommand lists and removes what a cache has, a name that would change the terminal's colours among it, and a file that is not its own.
func TestCacheCommand(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, 9000)))
	}))
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "cache")
	run := func(args ...string) string {
		t.Helper()
		return testenv.Must(runCommand(append([]string{"cache"}, args...)...))(t)
	}
	kept := testenv.Must(cache.Open(dir, 1<<20))(t)
	client := storage.NewClient()
	client.Cache = kept
	at := testenv.Must(client.At(server.URL))(t)
	f := testenv.Must(at.Open("red\x1b[31m", 9000, "claimed"))(t)
	testenv.Must(f.ReadAt(make([]byte, 9000), 0))(t)
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "notes\x1b.txt"), make([]byte, 9000), 0o600))
	listed := run("ls", dir)
	for _, want := range []string{`red\x1b[31m"` + "\n", `"notes\x1b.txt", a file that is not the cache's`} {
		if !strings.Contains(listed, want) || strings.Contains(listed, "\x1b") {
			t.Errorf("%q is not in %q", want, listed)
		}
	}
	if text := run("rm", dir, "http://elsewhere"); run("ls", dir) != listed {
		t.Errorf("removed what is not named: %s", text)
	}
	if text := run("rm", dir); !strings.Contains(text, "stays: another process uses it") || strings.Contains(run("ls", dir), "notes") {
		t.Errorf("while it is used: %s", text)
	}
	kept.Close()
	run("rm", dir)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v are left, %v", left, err)
	}
}
