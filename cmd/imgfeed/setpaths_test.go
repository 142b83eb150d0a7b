package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
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
		if got, err := setPathsOf(tt.args); err != nil || got.String() != tt.want {
			t.Errorf("%v in %s, $%s is %q: %v, %v; want %s", tt.args, tt.folder, dataEnv, tt.env, got, err, tt.want)
		}
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
