package shard

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// openPooled opens a set whose files share few descriptors.
func openPooled(t *testing.T, dir string, most int) (*Set, *storage.FilePool) {
	t.Helper()
	pool := storage.NewFilePool(most)
	s, err := openAt(storage.NewFolder(dir, pool), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, pool
}

// TestFewDescriptors reads many shards through few, by many goroutines at once.
func TestFewDescriptors(t *testing.T) {
	samples := makeSamples(120) // in 30 shards
	s, pool := openPooled(t, writeSet(t, samples, testOptions(2)), 3)
	if n := pool.Open(); n > 3 {
		t.Errorf("%d files are open once the set is", n)
	}
	var group sync.WaitGroup
	for first := range 8 {
		group.Go(func() {
			var buf []byte
			for i := range samples {
				i = (7*i + 13*first) % len(samples)
				if _, err := s.WillNeed(i); err != nil {
					t.Error(err)
					return
				}
				var err error
				if buf, err = compareSample(s, i, &samples[i], buf); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if n := pool.Open(); n > 3+8 {
		t.Errorf("%d files are open, for 8 readers", n)
	}
	if err := s.Close(); err != nil || pool.Open() != 0 {
		t.Errorf("closed: %v, %d files are open", err, pool.Open())
	}
	if _, _, err := s.Read(0, nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("reading after that: %v", err)
	}
}

// TestReplacedWhileClosed puts other files in the place of those that have no descriptor now.
func TestReplacedWhileClosed(t *testing.T) {
	samples := makeSamples(40) // in 10 shards
	dir := writeSet(t, samples, testOptions(1))
	s, _ := openPooled(t, dir, 1)
	if _, err := compareSample(s, 39, &samples[39], nil); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "rank-0000", "*"))
	if err != nil || len(paths) != 10 {
		t.Fatal(paths, err)
	}
	content, err := os.ReadFile(paths[2])
	if err != nil {
		t.Fatal(err)
	}
	replace := func(path string, content []byte) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", content, 0o666), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	replace(paths[0], content)
	if _, _, err := s.Read(0, nil); !errors.Is(err, storage.ErrReplaced) || !strings.Contains(err.Error(), paths[0]) {
		t.Errorf("another shard: %v", err)
	}
	replace(paths[1], nil)
	if _, _, err := s.Read(4, nil); err == nil || !strings.Contains(err.Error(), paths[1]) {
		t.Errorf("an empty file: %v", err)
	}
	replace(paths[2], content)
	if _, err := compareSample(s, 8, &samples[8], nil); err != nil {
		t.Errorf("a copy: %v", err)
	}
	if err := os.Remove(paths[3]); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Read(12, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that was removed: %v", err)
	}
}

// TestNoDescriptorIsLeft has somebody else take them all: a file that was read gives up its own.
func TestNoDescriptorIsLeft(t *testing.T) {
	samples := makeSamples(40)
	s, pool := openPooled(t, writeSet(t, samples, testOptions(1)), 5)
	limitDescriptors(t, 0)
	buf := make([]byte, 1000)
	for i := range samples {
		if _, err := compareSample(s, i, &samples[i], buf); err == nil {
			continue
		} else if pool.Open() > 0 {
			t.Errorf("sample %d: %v, and %d files are open", i, err, pool.Open())
		}
		return
	}
	t.Error("files are opened without a descriptor")
}
