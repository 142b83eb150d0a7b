package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// report runs info --json on a path.
func report(t *testing.T, path string) infoReport {
	t.Helper()
	text, diag, status := imgshard(t, "info", "--json", path)
	var r infoReport
	if err := json.Unmarshal([]byte(text), &r); status != 0 || diag != "" || err != nil {
		t.Fatalf("status %d, %v, %q\n%s", status, err, diag, text)
	}
	return r
}

func TestInfoOfSets(t *testing.T) {
	r := report(t, trainSet)
	if len(r.Sets) != 1 || r.Sources == nil || len(r.Sources) != 0 {
		t.Fatalf("%+v", r)
	}
	s := r.Sets[0]
	if s.Split != "train" || s.Path != trainSet || s.Samples != 5 || s.Partitions != 2 || len(s.Fingerprint) != 64 || s.Encoding.Name != "jpeg" {
		t.Errorf("%+v", s)
	}
	if !slices.Equal(s.Classes, report(t, filepath.Dir(trainSet)).Sets[0].Classes) || len(s.Classes) == 0 {
		t.Errorf("the set, and the folder that holds it: %+v", s)
	}
	text, _, status := imgshard(t, "info", trainSet)
	if status != 0 || !strings.HasPrefix(text, "train: set of 5 images in ") || !strings.Contains(text, "2 partitions, at "+trainSet) {
		t.Errorf("status %d: %s", status, text)
	}
}

func TestInfoOfADataset(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"train/cat/a.jpg", "train/dog/b.jpg", "val/cat/c.jpg"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := report(t, dir)
	if r.Sets == nil || len(r.Sets) != 0 || len(r.Sources) != 2 {
		t.Fatalf("%+v", r)
	}
	if s := r.Sources[0]; s.Split != "train" || s.Path != filepath.Join(dir, "train") || s.Output != s.Path+"-shards" || s.Layout == "" {
		t.Errorf("%+v", s)
	}
	text, _, status := imgshard(t, "info", dir)
	if status != 0 || strings.Count(text, "not packed yet") != 2 {
		t.Errorf("status %d: %s", status, text)
	}
}

func TestInfoOfNeither(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		text, diag, status := imgshard(t, "info", path)
		if status != 1 || text != "" || !strings.Contains(diag, path) {
			t.Errorf("%s: status %d, %q, %q", path, status, text, diag)
		}
	}
	damaged := copySet(t)
	if err := os.WriteFile(filepath.Join(damaged, "manifest.json"), []byte(`{"format": "imgshard", "crc32c": "00000000"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, diag, status := imgshard(t, "info", damaged); status != 1 || !strings.Contains(diag, "manifest") {
		t.Errorf("damaged: status %d, %q", status, diag)
	}
}
