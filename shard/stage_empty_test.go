package shard

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestEmptyFolderIsTaken commits a set to a place where an empty folder is, and to one that something was put into meanwhile.
func TestEmptyFolderIsTaken(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "set")
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		w, err := NewSetWriter(dir, SetOptions{Encoding: Encoding{Name: "jpeg"}})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		if err := w.Append(Sample{Key: "a", Image: []byte("x"), Width: 1, Height: 1, Format: 1}); err != nil {
			t.Fatal(err)
		}
		if meanwhile {
			if err := errors.Join(os.Mkdir(dir, 0o777), os.WriteFile(filepath.Join(dir, "mine"), nil, 0o666)); err != nil {
				t.Fatal(err)
			}
		}
		_, err = w.Commit()
		if (err != nil) != meanwhile {
			t.Errorf("something there: %t, error %v", meanwhile, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "mine")); meanwhile && err != nil {
			t.Error(err)
		}
	}
}
