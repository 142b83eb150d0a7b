package storage

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestFetchWithoutDirectReads reads through the page cache where the file system has no direct reads.
func TestFetchWithoutDirectReads(t *testing.T) {
	folder, f, data := testFolder(t, 1<<20, 0)
	folder.direct.Store(false)
	if got, err := f.Fetch(testMemory(t, 100_000+FetchRoom), 5_001, 100_000); err != nil || !bytes.Equal(got, data[5_001:105_001]) {
		t.Error(err)
	}
}

// TestReadsOfAFileThatChanges reports one that was cut short, as often as it is asked.
func TestReadsOfAFileThatChanges(t *testing.T) {
	folder, f, _ := testFolder(t, 1<<20, 0)
	buf := testMemory(t, 256<<10)
	path := filepath.Join(folder.dir, "rank-0000", "a")
	if err := os.Truncate(path, 600_000); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := f.Fetch(buf, 100_001, 100_000); err != nil || len(got) != 100_000 {
			t.Errorf("%d bytes of what is left: %v", len(got), err)
		}
		for _, offset := range []int64{550_001, 700_000} {
			if got, err := f.Fetch(buf, offset, 100_000); !errors.Is(err, io.EOF) || got != nil {
				t.Errorf("%d bytes at %d beyond the end: %v", len(got), offset, err)
			}
		}
	}
}

// TestWhatThePageCacheKeeps counts the ranges of a set that it has room for, by what is waited for.
func TestWhatThePageCacheKeeps(t *testing.T) {
	for _, c := range []struct {
		slow    bool
		waits   int64 // of waitedOf reads
		keepsOf int   // of 1,600
	}{{false, 0, 400}, {false, waitsMin, 1600}, {true, waitsMin - 1, 100}, {true, waitedOf, 800}} {
		folder, _, _ := testFolder(t, 1<<20, 1<<40)
		kept := 0
		for k := range int64(1600 + waitedOf) {
			if k%waitedOf == 0 {
				folder.waits.Store(c.waits)
			}
			if folder.keepsCached(k*100_000, c.slow) && k >= waitedOf {
				kept++
			}
		}
		if kept < c.keepsOf-1 || kept > c.keepsOf+1 {
			t.Errorf("slow %v, %d of %d reads waited for: %d of 1,600 ranges are kept, want %d", c.slow, c.waits, waitedOf, kept, c.keepsOf)
		}
	}
}
