package main

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// classFolders writes a folder of class folders, two images in each.
func classFolders(t *testing.T, classes ...string) string {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewRGBA(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, class := range classes {
		for _, name := range []string{"a.png", "b.png"} {
			write(t, filepath.Join(dir, class, name), file.Bytes())
		}
	}
	return dir
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func testIndexer(t *testing.T) (x *indexer, progress *bytes.Buffer) {
	progress = &bytes.Buffer{}
	return &indexer{client: storage.Default, log: slog.New(slog.NewTextHandler(io.Discard, nil)), progress: progress}, progress
}

// TestUnpackedDataset is indexed once, and again when a file comes, or a list changes. Its labels are those of ImageFolder.
func TestUnpackedDataset(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := classFolders(t, "2", "10")
	write(t, filepath.Join(dir, "notes.txt"), []byte("1"))
	x, progress := testIndexer(t)
	seen := map[string]bool{}
	for _, change := range []struct {
		make    func()
		samples int
	}{
		{func() {}, 4},
		{func() { write(t, filepath.Join(dir, "notes.txt"), []byte("12")) }, 4},
		{func() { os.Rename(filepath.Join(dir, "2", "b.png"), filepath.Join(dir, "2", "c.png")) }, 4},
		{func() { os.Remove(filepath.Join(dir, "2", "c.png")) }, 3},
	} {
		change.make()
		for again := range 2 {
			progress.Reset()
			set, err := x.set(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if indexed := progress.Len() > 0; indexed != (again == 0) || seen[set] != (again == 1) {
				t.Errorf("time %d: %s, and printed %q", again, set, progress)
			}
			seen[set] = true
			m, err := shard.ReadManifest(set)
			if err != nil || m.Samples != change.samples || !slices.Equal(m.Classes, []string{"10", "2"}) {
				t.Errorf("%+v, %v", m, err)
			}
		}
	}
	if note := x.notes[0]; !strings.Contains(note, "imgshard build --class-order string "+dir) {
		t.Error(note)
	}
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "imgfeed/indexes/*.partial")); len(left) > 0 {
		t.Error(left)
	}
}

// TestUnpackedTogether has several processes ask for the same dataset, and one that was killed before them.
func TestUnpackedTogether(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := classFolders(t, "cat", "dog")
	name, err := indexName(storage.Default, dir)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(os.Getenv("XDG_CACHE_HOME"), "imgfeed/indexes", name+".partial/half"), nil)
	var printed [4]int
	var all sync.WaitGroup
	for i := range printed {
		all.Go(func() {
			x, progress := testIndexer(t)
			set, err := x.set(t.Context(), dir)
			if err != nil || filepath.Base(set) != name {
				t.Errorf("%s, %v", set, err)
			}
			printed[i] = min(progress.Len(), 1)
		})
	}
	all.Wait()
	if slices.Sort(printed[:]); printed != [4]int{0, 0, 0, 1} {
		t.Errorf("who indexed: %v", printed)
	}
}

// TestNotADataset leaves sets and missing folders to those who open them, and says why a dataset cannot be indexed.
func TestNotADataset(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	x, _ := testIndexer(t)
	for _, place := range []string{oneSet(t), filepath.Join(t.TempDir(), "missing")} {
		if set, err := x.set(t.Context(), place); set != place || err != nil {
			t.Errorf("%s: %s, %v", place, set, err)
		}
	}
	dir := classFolders(t, "cat")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.set(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	t.Setenv("XDG_CACHE_HOME", "relative")
	if _, err := x.set(t.Context(), dir); err == nil || !strings.Contains(err.Error(), dir+" is not packed, and there is no folder for its index") {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "x.tar")
	write(t, file, []byte("not a tar"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := x.set(t.Context(), file); err == nil || !strings.Contains(err.Error(), file+" is not packed, and cannot be indexed: ") {
		t.Error(err)
	}
}
