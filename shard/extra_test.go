package shard

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCreateFileGoesWithTheSet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	w, err := NewSetWriter(dir, SetOptions{Split: "train", Encoding: Encoding{Name: "jpeg"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, name := range []string{"manifest.json", "rank-0000", "scratch", ".hidden", "a/b", "..", ""} {
		if f, err := w.CreateFile(name); err == nil {
			f.Close()
			t.Errorf("a file %q is made", name)
		}
	}
	f, err := w.CreateFile("rejects.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("{}\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the set is there before Commit")
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "rejects.jsonl")); err != nil || string(data) != "{}\n" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := w.CreateFile("late"); err == nil {
		t.Error("a file is made after Commit")
	}
}
