package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/status"
)

// TestReload has a server see changed, missing and damaged sets.
func TestReload(t *testing.T) {
	t.Parallel()
	path, dir := socketPath(t), oneSet(t)
	fails(t, "no server answers on "+path, "reload", "--socket", path)
	serve := imgfeed("serve", dir, "--socket", path)
	start(t, serve)
	if out, err := imgfeed("reload", "--socket", path).CombinedOutput(); err != nil || string(out) != status.Unchanged+"\n" {
		t.Errorf("%v, %s", err, out)
	}
	set := filepath.Join(dir, "train-shards")
	testenv.OK(t, os.Rename(set, filepath.Join(dir, ".away")))
	second := oneSet(t)
	testenv.OK(t, os.Rename(filepath.Join(second, "train-shards"), filepath.Join(dir, "val-shards")))
	// What is in val-shards is a set of split train, the same as before.
	if out, err := imgfeed("reload", "--socket", path).CombinedOutput(); err != nil {
		t.Errorf("%v, %s", err, out)
	}
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "val-shards")))
	fails(t, "nothing has changed: ", "reload", "--socket", path)
	testenv.OK(t, os.Rename(filepath.Join(dir, ".away"), set))
	testenv.OK(t, os.Remove(filepath.Join(set, "rank-0000", "00000.imgshard")))
	out, err := imgfeed("reload", "--socket", path).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "00000.imgshard is missing") || !strings.Contains(string(out), "still served") {
		t.Errorf("with a damaged set: %v, %s", err, out)
	}
	serve.Process.Signal(unix.SIGTERM)
	if err := serve.Wait(); err != nil {
		t.Error(err)
	}
}
