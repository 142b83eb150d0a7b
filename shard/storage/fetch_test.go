package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testReads prepares reads of ranges anywhere in a file of random bytes, of which the page cache keeps nothing.
func testReads(t *testing.T, count int) (*Folder, File, []*Fetch, func(i int, got []byte) bool) {
	t.Helper()
	const size, longest = 4 << 20, 100 << 10
	folder, f, data := testFolder(t, size, 0)
	rng := rand.New(rand.NewPCG(3, 4))
	fetches := make([]*Fetch, count)
	for i := range fetches {
		length := 1 + rng.Int64N(longest)
		fetches[i] = new(Fetch)
		fetches[i].Prepare(f, testMemory(t, longest+FetchRoom+sector), rng.Int64N(size-length), length)
	}
	return folder, f, fetches, func(i int, got []byte) bool {
		return bytes.Equal(got, data[fetches[i].Offset:][:fetches[i].Length])
	}
}

// TestManyReads has more reads under way than the system takes of the process, and waits for them by several goroutines.
func TestManyReads(t *testing.T) {
	_, f, fetches, right := testReads(t, 300)
	var landed atomic.Int64
	for range 4 {
		var all sync.WaitGroup
		for part := range 3 {
			all.Go(func() {
				for i := part; i < len(fetches); i += 3 {
					if got, ok, err := fetches[i].Wait(t.Context()); err != nil || !ok || !right(i, got) {
						t.Errorf("read %d: %v, landed %v", i, err, ok)
					}
				}
			})
		}
		for _, r := range fetches {
			r.Landed = func() { landed.Add(1) }
			r.Begin()
		}
		all.Wait()
		for _, r := range fetches {
			r.Prepare(f, r.Buf, r.Offset, r.Length)
		}
	}
	if n := landed.Load(); n != 4*300 {
		t.Errorf("%d reads have landed, want %d", n, 4*300)
	}
}

// TestWaitIsCancelled leaves a read that hangs, in either way of reading, and waits for it again.
func TestWaitIsCancelled(t *testing.T) {
	_, _, fetches, right := testReads(t, 2)
	fetches[1].system.Store(processAIO()) // which was never asked to read
	for i, r := range fetches {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		began := time.Now()
		if _, landed, _ := r.Wait(ctx); landed || time.Since(began) > 5*time.Second {
			t.Errorf("read %d: landed %v after %v", i, landed, time.Since(began))
		}
		cancel()
		r.system.Store(nil)
		r.Begin()
		if got, landed, err := r.Wait(t.Context()); err != nil || !landed || !right(i, got) {
			t.Errorf("read %d: %v, landed %v", i, err, landed)
		}
	}
}

// TestReadsThatTheSystemRefuses come from a goroutine: where there are no asynchronous reads, no more of them, or none of this file.
func TestReadsThatTheSystemRefuses(t *testing.T) {
	for name, refuse := range map[string]func(*Folder, *localFile, *Fetch){
		"begun slowly":  func(_ *Folder, f *localFile, r *Fetch) { f.blocked.Store(blockedMax); r.Begin() },
		"no direct":     func(folder *Folder, _ *localFile, r *Fetch) { folder.direct.Store(false); r.Begin() },
		"failed":        func(_ *Folder, _ *localFile, r *Fetch) { r.sectorsRead(-int64(unix.EIO)) },
		"short":         func(_ *Folder, _ *localFile, r *Fetch) { r.sectorsRead(r.Offset & (sector - 1)) },
		"nothing there": func(_ *Folder, _ *localFile, r *Fetch) { r.sectorsRead(0) },
	} {
		folder, f, fetches, right := testReads(t, 1)
		refuse(folder, f.(*localFile), fetches[0])
		if got, landed, err := fetches[0].Wait(t.Context()); err != nil || !landed || !right(0, got) {
			t.Errorf("%s: %v, landed %v", name, err, landed)
		}
	}
}

// TestReadsOfAFileThatChanges reports one that was cut short, and one that has been closed, as often as it is asked.
func TestReadsOfAFileThatChanges(t *testing.T) {
	folder, f, _ := testFolder(t, 1<<20, 0)
	buf := testMemory(t, 256<<10)
	path := filepath.Join(folder.dir, "rank-0000", "a")
	if err := os.Truncate(path, 600_000); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := fetch(f, buf, 100_001, 100_000); err != nil || len(got) != 100_000 {
			t.Errorf("%d bytes of what is left: %v", len(got), err)
		}
		for _, offset := range []int64{550_001, 700_000} {
			if got, err := fetch(f, buf, offset, 100_000); !errors.Is(err, io.EOF) || got != nil {
				t.Errorf("%d bytes at %d beyond the end: %v", len(got), offset, err)
			}
		}
	}
	f.Close()
	if _, err := fetch(f, buf, 100_001, 100_000); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a file that was closed: %v", err)
	}
}

// TestAnErrorNamesTheFile of a read that fails.
func TestAnErrorNamesTheFile(t *testing.T) {
	folder, f, _ := testFolder(t, 1<<20, 0)
	path := filepath.Join(folder.dir, "rank-0000", "a")
	for range 2 {
		folder.pool.evict()
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(f, testMemory(t, 256<<10), 0, 1000); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Error(err)
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
			if folder.keeps(k*100_000, c.slow) && k >= waitedOf {
				kept++
			}
		}
		if kept < c.keepsOf-1 || kept > c.keepsOf+1 {
			t.Errorf("slow %v, %d of %d reads waited for: %d of 1,600 ranges are kept, want %d", c.slow, c.waits, waitedOf, kept, c.keepsOf)
		}
	}
}
