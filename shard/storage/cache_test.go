package storage

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// cachedStore is a store of one file behind a cache of so many bytes.
func cachedStore(t *testing.T, data []byte, dir string, max int64) (*store, *Cache, File) {
	within(t, 5*time.Second)
	s := newStore(t)
	s.files["bucket/set/a"] = data
	c, err := OpenCache(dir, max)
	if err != nil {
		t.Fatal(err)
	}
	Remote.Cache = c
	f, err := s.places(t)["http"].Open("a", int64(len(data)), "identity")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close(); c.Close() })
	return s, c, f
}

// TestCacheReads asks for each block once, whatever the ranges are, and finds all of it after a restart.
func TestCacheReads(t *testing.T) {
	data, dir := numbered(100_001), t.TempDir()
	read := func(f File) {
		t.Helper()
		for _, r := range [][2]int{{5000, 20}, {4090, 9000}, {99_990, 11}, {0, 100_001}, {50_000, 1}, {8191, 2}} {
			got := make([]byte, r[1])
			if n, err := f.ReadAt(got, int64(r[0])); n != r[1] || err != nil || !bytes.Equal(got, data[r[0]:r[0]+r[1]]) {
				t.Fatalf("range %v: %d bytes, %v", r, n, err)
			}
		}
	}
	s, c, f := cachedStore(t, data, dir, 1<<20)
	read(f)
	want := []string{
		"/bucket/set/a bytes=4608-5119", "/bucket/set/a bytes=3584-13311", // whose last missing block lies behind one that is here
		"/bucket/set/a bytes=99840-100000", "/bucket/set/a bytes=0-99839",
	}
	if got := s.asked(); !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
	if used := c.Used(); used != 196*blockBytes {
		t.Errorf("%d bytes are kept, want %d", used, 196*blockBytes)
	}
	f.Close()
	c.Close()
	s, c, f = cachedStore(t, data, dir, 1<<20)
	read(f)
	if got := s.asked(); len(got) > 0 || c.Used() != 196*blockBytes {
		t.Errorf("requests %q after a restart, %d bytes", got, c.Used())
	}
	if n, err := f.ReadAt(make([]byte, 100), 99_990); n != 11 || err == nil {
		t.Errorf("%d bytes, %v beyond the end", n, err)
	}
}

// TestCacheForgets reads blocks again whose bytes are wrong, and those of a data file that somebody has removed or cut short.
func TestCacheForgets(t *testing.T) {
	data := numbered(64 << 10)
	for name, harm := range map[string]func(path string) error{
		"removed": os.Remove,
		"cut":     func(path string) error { return os.Truncate(path, 10) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, c, f := cachedStore(t, data, dir, 1<<20)
			got := make([]byte, len(data))
			f.ReadAt(got, 0)
			f.Close()
			c.Close()
			names, _ := filepath.Glob(filepath.Join(dir, "*.data"))
			if len(names) != 1 || harm(names[0]) != nil {
				t.Fatal(names)
			}
			s, _, f := cachedStore(t, data, dir, 1<<20)
			clear(got)
			f.ReadAt(got, 0)
			if !bytes.Equal(got, data) { // holes, which only a checksum can tell
				if forgot := f.(Forgetter).Forget(0, int64(len(data))); !forgot {
					t.Error("nothing was kept")
				}
				f.ReadAt(got, 0)
			}
			if !bytes.Equal(got, data) || len(s.asked()) == 0 {
				t.Errorf("wrong bytes, after requests %q", s.asked())
			}
		})
	}
}

// TestCacheIsShared fills a cache from many goroutines of two processes' caches: each block counts once, and no more is kept than may be.
func TestCacheIsShared(t *testing.T) {
	data, dir := numbered(512<<10), t.TempDir()
	s, a, f := cachedStore(t, data, dir, 256<<10)
	b, err := OpenCache(dir, 256<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	Remote.Cache = b
	g, err := s.places(t)["http"].Open("a", int64(len(data)), "identity")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var group sync.WaitGroup
	for k := range 8 {
		group.Go(func() {
			file := []File{f, g}[k%2]
			for i := range 200 {
				offset := (i*7919 + k*104729) % (len(data) - 5000)
				got := make([]byte, 5000)
				if _, err := file.ReadAt(got, int64(offset)); err != nil || !bytes.Equal(got, data[offset:offset+5000]) {
					t.Errorf("offset %d: %v", offset, err)
				}
			}
		})
	}
	group.Wait()
	list, err := a.Objects()
	if err != nil || len(list) != 1 || list[0].Kept != a.Used() || a.Used() != b.Used() {
		t.Errorf("%+v, %v, %d and %d bytes are kept", list, err, a.Used(), b.Used())
	}
	if most := int64(256<<10 + 8*4*blockBytes); a.Used() > most { // each goroutine may find the last room
		t.Errorf("%d bytes are kept, want at most %d", a.Used(), most)
	}
}

// TestCacheMakesRoom drops what other runs have left for what is read now.
func TestCacheMakesRoom(t *testing.T) {
	data, dir := numbered(64<<10), t.TempDir()
	s, c, f := cachedStore(t, data, dir, 64<<10)
	f.ReadAt(make([]byte, len(data)), 0)
	f.Close()
	c.Close()
	c, err := OpenCache(dir, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	Remote.Cache = c
	s.files["bucket/set/b"] = data
	g, err := s.places(t)["http"].Open("b", int64(len(data)), "another")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.ReadAt(make([]byte, len(data)), 0)
	list, err := c.Objects()
	if err != nil || len(list) != 1 || list[0].Place != s.URL+"/bucket/set/b" || list[0].Kept != 64<<10 || c.Used() != 64<<10 {
		t.Errorf("%+v, %v, %d bytes", list, err, c.Used())
	}
	if err := c.Remove(list[0]); err != nil || c.Used() != 0 {
		t.Errorf("%v, %d bytes", err, c.Used())
	}
}

// TestCacheLeavesWhatOthersUse drops nothing of an object that another process uses.
func TestCacheLeavesWhatOthersUse(t *testing.T) {
	data, dir := numbered(64<<10), t.TempDir()
	s, c, f := cachedStore(t, data, dir, 64<<10)
	f.ReadAt(make([]byte, len(data)), 0)
	other, err := OpenCache(dir, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	Remote.Cache = other
	s.files["bucket/set/b"] = data
	g, err := s.places(t)["http"].Open("b", int64(len(data)), "another")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	got := make([]byte, len(data))
	if _, err := g.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
		t.Fatal(err)
	}
	list, err := other.Objects()
	if err != nil || len(list) != 2 || list[0].Kept != int64(len(data)) || list[1].Kept != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := other.Remove(list[0]); !errors.Is(err, ErrInUse) {
		t.Errorf("removed: %v", err)
	}
	c.Close()
	if err := other.Remove(list[0]); err != nil || other.Used() != 0 {
		t.Errorf("after its end: %v, %d bytes", err, other.Used())
	}
}

// TestCacheDropsWhatIsNotRead makes room among the files that are open, of which this run has read no record for a while.
func TestCacheDropsWhatIsNotRead(t *testing.T) {
	data := numbered(64 << 10)
	s, c, unread := cachedStore(t, data, t.TempDir(), 64<<10)
	unread.ReadAt(make([]byte, len(data)), 0)
	s.files["bucket/set/b"] = data
	f, err := s.places(t)["http"].Open("b", int64(len(data)), "another")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	memory, err := NewMemory(len(data) + FetchRoom)
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(memory)
	for _, want := range []struct {
		since time.Duration
		kept  [2]bool
	}{{0, [2]bool{true, false}}, {2 * pauseFor, [2]bool{false, true}}} {
		c.opened, c.cleared = time.Now().Add(-want.since), time.Time{}
		if got, err := f.Fetch(memory, 0, int64(len(data))); err != nil || !bytes.Equal(got, data) {
			t.Fatal(err)
		}
		for i, file := range []File{unread, f} {
			if first, last := file.(*cachedFile).object.missing(0, int64(len(data))); (first > last) != want.kept[i] {
				t.Errorf("after %v: file %d is kept: %v, want %v", want.since, i, first > last, want.kept[i])
			}
		}
	}
}

// TestCacheOfAFullDisk goes on without the cache, and says why.
func TestCacheOfAFullDisk(t *testing.T) {
	data, dir := numbered(64<<10), t.TempDir()
	_, c, f := cachedStore(t, data, dir, 1<<20)
	names, _ := filepath.Glob(filepath.Join(dir, "*.data"))
	if err := os.Symlink("/dev/full", names[0]+".full"); err != nil {
		t.Skip(err)
	}
	os.Remove(names[0])
	os.Rename(names[0]+".full", names[0])
	got := make([]byte, len(data))
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
		t.Fatal(err)
	}
	if err := c.Failure(); err == nil || c.Used() != 0 {
		t.Errorf("%v, %d bytes", err, c.Used())
	}
}

// TestCacheFetch fetches ahead from the store, and then from the disk.
func TestCacheFetch(t *testing.T) {
	data := numbered(1 << 20)
	s, _, f := cachedStore(t, data, t.TempDir(), 8<<20)
	memory, err := NewMemory(200<<10 + FetchRoom)
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(memory)
	for round := range 2 {
		for _, offset := range []int64{5, 4096, 333_333, 820_000} {
			got, err := f.Fetch(memory, offset, 150_000)
			if err != nil || !bytes.Equal(got, data[offset:offset+150_000]) {
				t.Fatalf("round %d, offset %d: %v", round, offset, err)
			}
		}
		if n := len(s.asked()); round == 1 && n != 0 {
			t.Errorf("%d requests for what is kept", n)
		}
		s.fail()
	}
	s.fail(status(http.StatusForbidden))
	if _, err := f.Fetch(memory, 600_000, 150_000); !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
}
