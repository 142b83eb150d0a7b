package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/shard/storage"
)

func TestDiscoverOrder(t *testing.T) {
	arg, env, cwd, empty := oneSet(t), oneSet(t), oneSet(t), t.TempDir()
	t.Chdir(cwd)
	for _, tt := range []struct{ arg, env, want, why string }{
		{arg, env, arg, "argument"},
		{"", env, env, "$IMGFEED_DATA"},
		{"", "", cwd, "current folder"},
		{"", empty, cwd, "current folder"},
	} {
		t.Setenv(dataEnv, tt.env)
		found, at, skipped, err := discover(storage.Default, tt.arg)
		if err != nil || at.path != tt.want || at.why != tt.why || found.Sets["train"] != filepath.Join(tt.want, "train-shards") {
			t.Errorf("%+v: %v at %+v, %v", tt, found, at, err)
		}
		if tt.env == empty && (len(skipped) != 1 || !strings.Contains(skipped[0].err.Error(), "it holds nothing")) {
			t.Errorf("skipped %+v", skipped)
		}
	}
}

func TestDiscoverSaysWhatItFound(t *testing.T) {
	t.Chdir(t.TempDir())
	env := t.TempDir()
	write(t, filepath.Join(env, "notes.txt"), nil)
	t.Setenv(dataEnv, env)
	var nf *notFoundError
	if _, _, _, err := discover(storage.Default, ""); !errors.As(err, &nf) {
		t.Skip("this machine has a set in /data")
	}
	if len(nf.places) != 3 {
		t.Fatalf("looked in %+v, want three places", nf.places)
	}
	for _, want := range []string{"$IMGFEED_DATA: ", env, "it holds notes.txt", "current folder: ", "it holds nothing", "/data"} {
		if !strings.Contains(nf.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, nf)
		}
	}
	for path, want := range map[string]string{filepath.Join(env, "notes.txt"): "not a directory", filepath.Join(env, "nothing"): "no such file"} {
		if _, _, _, err := discover(storage.Default, path); !errors.As(err, &nf) || len(nf.places) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("discover(%s): %v", path, err)
		}
	}
}

func TestDiscoverStopsAtADamagedSet(t *testing.T) {
	dir := oneSet(t)
	t.Chdir(dir)
	t.Setenv(dataEnv, "")
	if err := os.WriteFile(filepath.Join(dir, "train-shards", "manifest.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var nf *notFoundError
	if _, _, _, err := discover(storage.Default, ""); err == nil || errors.As(err, &nf) || !strings.Contains(err.Error(), "manifest.json") {
		t.Errorf("a damaged manifest: %v", err)
	}
}
