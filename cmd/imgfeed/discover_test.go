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
		if tt.env == empty && (len(skipped) != 1 || skipped[0].found != "is an empty folder") {
			t.Errorf("skipped %+v", skipped)
		}
	}
}

func TestDiscoverSaysWhatItFound(t *testing.T) {
	t.Chdir(t.TempDir())
	env := t.TempDir()
	os.MkdirAll(filepath.Join(env, "n01440764"), 0o700)
	os.WriteFile(filepath.Join(env, "n01440764", "n01440764_10026.JPEG"), nil, 0o600)
	t.Setenv(dataEnv, env)
	var nf *notFoundError
	if _, _, _, err := discover(storage.Default, ""); !errors.As(err, &nf) {
		t.Skip("this machine has a set in /data")
	}
	if len(nf.places) != 3 {
		t.Fatalf("looked in %+v, want three places", nf.places)
	}
	for _, want := range []string{env, "$IMGFEED_DATA", "n01440764/", "imgshard build", "is an empty folder", "/data"} {
		if !strings.Contains(nf.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, nf)
		}
	}
	splits := t.TempDir()
	os.MkdirAll(filepath.Join(splits, "train", "cat"), 0o700)
	os.WriteFile(filepath.Join(splits, "train", "cat", "1.jpg"), nil, 0o600)
	if _, _, _, err := discover(storage.Default, splits); err == nil || !strings.Contains(err.Error(), "imgshard build "+splits) {
		t.Errorf("a folder with train/: %v", err)
	}
	file := filepath.Join(env, "f")
	os.WriteFile(file, []byte("x"), 0o600)
	for path, want := range map[string]string{file: "not a folder", filepath.Join(env, "nothing"): "does not exist"} {
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
