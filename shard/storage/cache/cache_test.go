package cache

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// A store is a file of a network.
type store struct {
	data []byte
	err  error // of all reads

	mu       sync.Mutex
	requests int
}

func (s *store) ReadAt(p []byte, offset int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if s.err != nil {
		return 0, s.err
	}
	return bytes.NewReader(s.data).ReadAt(p, offset)
}

func (s *store) Size() int64                { return int64(len(s.data)) }
func (s *store) ReadsMax() int              { return 1 }
func (s *store) Blocks() bool               { return false }
func (s *store) Close() error               { return nil }
func (s *store) WillNeed(int64, int64) bool { return false }

func (s *store) Fetch(buf []byte, offset, length int64) ([]byte, error) {
	_, err := s.ReadAt(buf[:length], offset)
	return buf[:length], err
}

// cachedStore returns a file with some content behind a cache of so many bytes.
func cachedStore(t *testing.T, data []byte, dir string, max int64) (*store, *Cache, storage.File) {
	t.Helper()
	c, err := Open(dir, max)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s := &store{data: data}
	return s, c, c.Cached(s, "https://host/a", "a")
}

// numbered returns bytes of which no two stretches are alike.
func numbered(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 ^ i>>8*31 ^ i>>16)
	}
	return data
}

// memory returns memory to fetch into.
func memory(t *testing.T, length int) []byte {
	t.Helper()
	m, err := storage.NewMemory(length + storage.FetchRoom)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { storage.Unmap(m) })
	return m
}

// Records of the file that tests read: each begins where the one before it ends.
var cachedRecords = func() (records [][2]int64) {
	for offset, length := int64(0), int64(300); offset+length < 100_000; offset, length = offset+length, length*13%9973+256 {
		records = append(records, [2]int64{offset, length})
	}
	return records
}()

// readRecords reads all records, and compares them.
func readRecords(t *testing.T, f storage.File, data []byte) {
	t.Helper()
	for _, r := range cachedRecords {
		got := make([]byte, r[1])
		if n, err := f.ReadAt(got, r[0]); n != len(got) || err != nil || !bytes.Equal(got, data[r[0]:r[0]+r[1]]) {
			t.Fatalf("record %v: %d bytes, %v", r, n, err)
		}
	}
}

// TestCacheReads asks for each record once, and finds all of them after a restart, and the beginning of each.
func TestCacheReads(t *testing.T) {
	data, dir := numbered(100_001), t.TempDir()
	s, c, f := cachedStore(t, data, dir, 1<<20)
	for range 2 {
		readRecords(t, f, data)
	}
	if s.requests != len(cachedRecords) {
		t.Errorf("%d requests for %d records", s.requests, len(cachedRecords))
	}
	used := c.Used()
	if sum := int64(len(data)); used < sum || used > sum*5/4 {
		t.Errorf("%d bytes of the disk for %d", used, sum)
	}
	c.Close()
	s, c, f = cachedStore(t, data, dir, 1<<20)
	readRecords(t, f, data)
	begin := make([]byte, 16)
	if _, err := f.ReadAt(begin, 0); err != nil || !bytes.Equal(begin, data[:16]) {
		t.Error(err)
	}
	if s.requests > 0 || c.Used() != used {
		t.Errorf("%d requests after a restart, %d bytes", s.requests, c.Used())
	}
	for _, offset := range []int64{99_990, 100_001, 200_000} {
		if n, err := f.ReadAt(make([]byte, 100), offset); n != max(0, 100_001-int(offset)) || err != io.EOF {
			t.Errorf("%d bytes, %v beyond the end", n, err)
		}
	}
}

// TestCacheDamage harms the file of an object before it is opened, and while it is open. Each read gives the right bytes.
func TestCacheDamage(t *testing.T) {
	flip := func(path string) error {
		kept, err := os.ReadFile(path)
		for i := 3; i < len(kept); i += 97 {
			kept[i] ^= 0x55
		}
		return errors.Join(err, os.WriteFile(path, kept, 0o600))
	}
	for name, harm := range map[string]func(path string) error{
		"removed":       os.Remove,
		"cut":           func(path string) error { return os.Truncate(path, 50_001) },
		"empty":         func(path string) error { return os.Truncate(path, 0) },
		"longer":        func(path string) error { return os.Truncate(path, 1<<40) },
		"flipped bytes": flip,
		"a folder":      func(path string) error { return errors.Join(os.Remove(path), os.MkdirAll(path+"/x", 0o700)) },
	} {
		for _, when := range []string{"before", "open"} {
			t.Run(name+" "+when, func(t *testing.T) {
				data, dir := numbered(100_001), t.TempDir()
				_, c, f := cachedStore(t, data, dir, 1<<20)
				readRecords(t, f, data)
				path := c.path(c.Objects()[0].id)
				if when == "before" {
					c.Close()
				}
				if err := harm(path); err != nil {
					t.Fatal(err)
				}
				if when == "before" {
					_, _, f = cachedStore(t, data, dir, 1<<20)
				}
				for range 2 {
					readRecords(t, f, data)
				}
			})
		}
	}
}

// TestCacheForgets reads ranges again of which the store gave wrong bytes.
func TestCacheForgets(t *testing.T) {
	wrong, data, dir := bytes.Repeat([]byte{1}, 100_001), numbered(100_001), t.TempDir()
	_, _, f := cachedStore(t, wrong, dir, 1<<20)
	readRecords(t, f, wrong)
	_, _, f = cachedStore(t, data, dir, 1<<20)
	for _, r := range cachedRecords {
		f.(*file).Forget(r[0], r[1])
	}
	readRecords(t, f, data)
	_, _, f = cachedStore(t, wrong, dir, 1<<20)
	f.(*file).Forget(0, f.Size())
	readRecords(t, f, wrong)
}

// TestCacheIsShared fills a cache from many goroutines of two processes' caches: no more is kept than may be, and each finds what the other
// has read.
func TestCacheIsShared(t *testing.T) {
	const room = 256 << 10
	data, dir := numbered(512<<10), t.TempDir()
	_, a, f := cachedStore(t, data, dir, room)
	_, b, g := cachedStore(t, data, dir, room)
	read := func(f storage.File, k, records int) {
		for i := range records {
			offset, got := (i*7+k)%100*5000, make([]byte, 5000)
			if _, err := f.ReadAt(got, int64(offset)); err != nil || !bytes.Equal(got, data[offset:offset+5000]) {
				t.Errorf("offset %d: %v", offset, err)
			}
		}
	}
	read(f, 0, 10)
	read(g, 0, 10)
	if b.HitBytes.Load() != 50_000 {
		t.Errorf("%d bytes were found", b.HitBytes.Load())
	}
	var group sync.WaitGroup
	for k := range 8 {
		group.Go(func() { read([]storage.File{f, g}[k%2], k*10, 100) })
	}
	group.Wait()
	if used := a.Used(); used > room+8*3*diskBlock || used < room/2 || used != b.Used() {
		t.Errorf("%d bytes are kept, want about %d", used, room)
	}
}

// keepAll reads a file of 64 KiB as one range.
func keepAll(t *testing.T, f storage.File) {
	t.Helper()
	got := make([]byte, 64<<10)
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, numbered(64<<10)) {
		t.Fatal(err)
	}
}

// another opens a second file of 64 KiB through a cache.
func another(c *Cache) *file {
	return c.Cached(&store{data: numbered(64 << 10)}, "https://host/b", "b").(*file)
}

// oneFile is room for one file of 64 KiB.
const oneFile = 64<<10 + 6*diskBlock

// TestCacheMakesRoom drops what other runs have left for what is read now, but nothing of an object that another process uses.
func TestCacheMakesRoom(t *testing.T) {
	dir := t.TempDir()
	_, c, f := cachedStore(t, numbered(64<<10), dir, oneFile)
	keepAll(t, f)
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(c.path(c.Objects()[0].id), hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	other, err := Open(dir, oneFile)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	g := another(other)
	keepAll(t, g)
	list := other.Objects()
	if len(list) != 2 || list[0].Place != "https://host/a" || list[0].Kept < 64<<10 || list[1].Kept > 2*diskBlock {
		t.Fatalf("%+v", list)
	}
	if err := other.Remove(list[0]); !errors.Is(err, ErrInUse) {
		t.Errorf("removed: %v", err)
	}
	c.Close()
	other.measureAt = time.Time{}
	keepAll(t, g)
	if list := other.Objects(); len(list) != 1 || list[0].Place != "https://host/b" || list[0].Kept < 64<<10 {
		t.Errorf("%+v", list)
	}
}

// TestCacheDropsWhatIsNotRead makes room among the files that are open, of which this run has read no record for a while.
func TestCacheDropsWhatIsNotRead(t *testing.T) {
	_, c, unread := cachedStore(t, numbered(64<<10), t.TempDir(), oneFile)
	keepAll(t, unread)
	f := another(c)
	for _, want := range []struct {
		since time.Duration
		kept  [2]bool
	}{{0, [2]bool{true, false}}, {2 * pauseFor, [2]bool{false, true}}} {
		c.opened, c.measureAt = time.Now().Add(-want.since), time.Time{}
		if got, err := f.Fetch(memory(t, 64<<10), 0, 64<<10); err != nil || !bytes.Equal(got, numbered(64<<10)) {
			t.Fatal(err)
		}
		for i, file := range []*file{unread.(*file), f} {
			if kept := file.readKept(make([]byte, 64<<10), 0); kept != want.kept[i] {
				t.Errorf("after %v: file %d is kept: %v, want %v", want.since, i, kept, want.kept[i])
			}
		}
	}
}

// TestCacheOfABadDisk goes on without the cache, and says why.
func TestCacheOfABadDisk(t *testing.T) {
	_, c, f := cachedStore(t, numbered(64<<10), t.TempDir(), 1<<20)
	if err := f.(*file).local.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		keepAll(t, f)
	}
	if used, _, failure := c.Status(); failure == nil || used > diskBlock {
		t.Errorf("%v, %d bytes", failure, used)
	}
}

// TestCacheFetch fetches ahead from the store, and then from the disk.
func TestCacheFetch(t *testing.T) {
	data := numbered(1 << 20)
	s, _, f := cachedStore(t, data, t.TempDir(), 8<<20)
	buf := memory(t, 150_000)
	for round := range 2 {
		for _, offset := range []int64{5, 166_666, 333_333, 820_000} {
			got, err := f.Fetch(buf, offset, 150_000)
			if err != nil || !bytes.Equal(got, data[offset:offset+150_000]) {
				t.Fatalf("round %d, offset %d: %v", round, offset, err)
			}
		}
		if s.requests != 4 {
			t.Errorf("round %d: %d requests for 4 ranges", round, s.requests)
		}
	}
	s.err = os.ErrPermission
	if _, err := f.Fetch(buf, 600_000, 150_000); !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
}
