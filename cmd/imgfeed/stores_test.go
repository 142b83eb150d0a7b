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

// TestDefaultPaths checks where a command without SET finds its sets.
func TestDefaultPaths(t *testing.T) {
	set, damaged, empty, beside := oneSet(t), oneSet(t), t.TempDir(), oneSet(t)
	testenv.OK(t, os.WriteFile(filepath.Join(damaged, "train-shards", "manifest.json"), []byte(`{"format": "imgshard"}`), 0o600))
	testenv.OK(t, os.Mkdir(filepath.Join(beside, "train"), 0o700))
	for _, tt := range []struct {
		args              []string
		env, folder, want string
	}{
		{[]string{"a", "b"}, set, set, "a + b"},
		{nil, empty, set, empty + " ($IMGFEED_DATA)"},
		{nil, "", set, set + " (the working folder)"},
		{nil, "", filepath.Join(set, "train-shards"), filepath.Join(set, "train-shards") + " (the working folder)"},
		{nil, "", damaged, damaged + " (the working folder)"},
		{nil, "", filepath.Join(beside, "train"), filepath.Join(beside, "train-shards") + " (beside the working folder)"},
	} {
		t.Chdir(tt.folder)
		t.Setenv(dataEnv, tt.env)
		got, err := setPathsOf(tt.args)
		testenv.Check(t, err == nil && got.String() == tt.want,
			"%v in %s, $%s is %q: %v, %v; want %s", tt.args, tt.folder, dataEnv, tt.env, got, err, tt.want)
	}
	write(t, filepath.Join(empty, "notes.txt"), nil)
	t.Chdir(empty)
	t.Setenv(dataEnv, "")
	if _, err := os.Stat(usualFolder); err == nil {
		t.Skip("this machine has the usual folder")
	}
	_, err := setPathsOf(nil)
	for _, want := range []string{"name the shard set", "as SET, or in $IMGFEED_DATA", empty + " (the working folder): shard: ",
		"it holds notes.txt", "\n  /data (the usual folder): file does not exist"} {
		testenv.Says(t, "no set", err, want)
	}
}

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
		testenv.Check(t, strings.Contains(listed, want) && !strings.Contains(listed, "\x1b"), "%q is not in %q", want, listed)
	}
	run("rm", dir, "http://elsewhere")
	testenv.Equal(t, run("ls", dir), listed, "after a removal of what is not there")
	text := run("rm", dir)
	testenv.Check(t, strings.Contains(text, "stays: another process uses it") && !strings.Contains(run("ls", dir), "notes"),
		"while it is used: %s", text)
	kept.Close()
	run("rm", dir)
	left, err := os.ReadDir(dir)
	testenv.Check(t, err == nil && len(left) == 1, "%v are left, %v", left, err)
}
