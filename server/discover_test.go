package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// findByMarker stands in for shard.FindSets: a folder with a manifest.json is one set.
func findByMarker(dir string) (map[string]string, error) {
	if _, err := os.Stat(filepath.Join(dir, "manifest.json")); err != nil {
		return nil, nil
	}
	return map[string]string{"train": dir}, nil
}

func TestDiscoverOrder(t *testing.T) {
	with := func() string {
		dir := t.TempDir()
		os.WriteFile(filepath.Join(dir, "manifest.json"), []byte("{}"), 0o600)
		return dir
	}
	arg, env, cwd, empty := with(), with(), with(), t.TempDir()
	t.Chdir(cwd)
	for _, tt := range []struct{ arg, env, want, why string }{
		{arg, env, arg, "argument"},
		{"", env, env, "$IMGFEED_DATA"},
		{"", "", cwd, "current folder"},
		{"", empty, cwd, "current folder"},
	} {
		t.Setenv(DataEnv, tt.env)
		sets, at, skipped, err := Discover(tt.arg, findByMarker)
		if err != nil || at.Path != tt.want || at.Why != tt.why || sets["train"] != tt.want {
			t.Errorf("%+v: %v at %+v, %v", tt, sets, at, err)
		}
		if tt.env == empty && (len(skipped) != 1 || skipped[0].Saw != "is an empty folder") {
			t.Errorf("skipped %+v", skipped)
		}
	}
}

func TestDiscoverSaysWhatItSaw(t *testing.T) {
	t.Chdir(t.TempDir())
	env := t.TempDir()
	os.MkdirAll(filepath.Join(env, "n01440764"), 0o700)
	os.WriteFile(filepath.Join(env, "n01440764", "n01440764_10026.JPEG"), nil, 0o600)
	t.Setenv(DataEnv, env)
	var nf *NotFoundError
	if _, _, _, err := Discover("", findByMarker); !errors.As(err, &nf) {
		t.Skip("this machine has a set in /data")
	}
	if len(nf.Places) != 3 {
		t.Fatalf("looked in %+v, want three places", nf.Places)
	}
	for _, want := range []string{env, "$IMGFEED_DATA", "n01440764/", "imgshard build", "is an empty folder", "/data"} {
		if !strings.Contains(nf.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, nf)
		}
	}
	file := filepath.Join(env, "f")
	os.WriteFile(file, []byte("x"), 0o600)
	for path, want := range map[string]string{file: "not a folder", filepath.Join(env, "nothing"): "does not exist"} {
		if _, _, _, err := Discover(path, findByMarker); !errors.As(err, &nf) || len(nf.Places) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("Discover(%s): %v", path, err)
		}
	}
}
