package cache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
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

func (s *store) Size() int64                  { return int64(len(s.data)) }
func (s *store) ReadsMax() int                { return 1 }
func (s *store) Blocks() bool                 { return false }
func (s *store) Hangs() (bool, time.Duration) { return true, 0 }
func (s *store) Close() error                 { return nil }
func (s *store) WillNeed(int64, int64) bool   { return false }

func (s *store) Fetch(buf []byte, offset, length int64) ([]byte, error) {
	_, err := s.ReadAt(buf[:length], offset)
	return buf[:length], err
}

// cachedStore returns a file with some content behind a cache of so many bytes.
func cachedStore(t testing.TB, data []byte, dir string, max int64) (*store, *Cache, storage.File) {
	t.Helper()
	c := testenv.Must(Open(dir, max))(t)
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
	m := testenv.Must(storage.NewMemory(length + storage.FetchRoom))(t)
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

// reads checks that a file gives the bytes of a range.
func reads(t *testing.T, f storage.File, data []byte, offset, length int64) {
	t.Helper()
	got := make([]byte, length)
	if _, err := f.ReadAt(got, offset); err != nil || !bytes.Equal(got, data[offset:offset+length]) {
		t.Errorf("%d bytes at %d: %v", length, offset, err) // in any goroutine
	}
}

// fetches checks that a file gives the bytes of a range ahead.
func fetches(t *testing.T, f storage.File, data []byte, offset, length int64) {
	t.Helper()
	got := testenv.Must(f.Fetch(memory(t, int(length)), offset, length))(t)
	testenv.Same(t, got, data[offset:offset+length], "%d bytes ahead, at %d", length, offset)
}

// readRecords reads all records, and compares them.
func readRecords(t *testing.T, f storage.File, data []byte) {
	t.Helper()
	for _, r := range cachedRecords {
		reads(t, f, data, r[0], r[1])
	}
}

// TestCacheReads asks for each record once, and finds all of them after a restart, and the beginning of each.
func TestCacheReads(t *testing.T) {
	data, dir := numbered(100_001), t.TempDir()
	s, c, f := cachedStore(t, data, dir, 1<<20)
	for range 2 {
		readRecords(t, f, data)
	}
	testenv.Equal(t, s.requests, len(cachedRecords), "requests for the records")
	used := c.Used()
	testenv.Between(t, used, int64(len(data)), int64(len(data))*5/4, "bytes of the disk")
	c.Close()
	s, c, f = cachedStore(t, data, dir, 1<<20)
	readRecords(t, f, data)
	reads(t, f, data, 0, 16)
	testenv.Check(t, s.requests == 0 && c.Used() == used, "%d requests after a restart, %d bytes", s.requests, c.Used())
	for _, offset := range []int64{99_990, 100_001, 200_000} {
		n, err := f.ReadAt(make([]byte, 100), offset)
		testenv.Check(t, n == max(0, 100_001-int(offset)) && err == io.EOF, "%d bytes, %v beyond the end", n, err)
	}
}

// TestCacheDamage harms the file of an object before it is opened, and while it is open. Each read gives the right bytes.
func TestCacheDamage(t *testing.T) {
	flip := func(path string) error {
		sourcetest.Flip(t, path, 3, 97)
		return nil
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
				testenv.OK(t, harm(path))
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
			reads(t, f, data, int64(i*7+k)%100*5000, 5000)
		}
	}
	read(f, 0, 10)
	read(g, 0, 10)
	testenv.Equal(t, b.HitBytes.Load(), 50_000, "bytes that were found")
	var group sync.WaitGroup
	for k := range 8 {
		group.Go(func() { read([]storage.File{f, g}[k%2], k*10, 100) })
	}
	group.Wait()
	testenv.Between(t, a.Used(), room/2, room+8*3*diskBlock, "bytes that are kept")
	testenv.Equal(t, b.Used(), a.Used(), "bytes that the other cache finds")
}

// keepAll reads a file of 64 KiB as one range.
func keepAll(t *testing.T, f storage.File) {
	t.Helper()
	reads(t, f, numbered(64<<10), 0, 64<<10)
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
	testenv.OK(t, os.Chtimes(c.path(c.Objects()[0].id), hourAgo, hourAgo))
	other := testenv.Opened(Open(dir, oneFile))(t)
	g := another(other)
	keepAll(t, g)
	list := other.Objects()
	testenv.Require(t, len(list) == 2 && list[0].URL == "https://host/a" && list[0].Kept >= 64<<10 && list[1].Kept <= 2*diskBlock, "%+v", list)
	testenv.Says(t, "removed", other.Remove(list[0]), ErrInUse)
	c.Close()
	other.measureAt = time.Time{}
	keepAll(t, g)
	list = other.Objects()
	testenv.Check(t, len(list) == 1 && list[0].URL == "https://host/b" && list[0].Kept >= 64<<10, "%+v", list)
}

// TestCacheAwaitsRemoval opens an object that another process is just removing: it is kept all the same.
func TestCacheAwaitsRemoval(t *testing.T) {
	dir := t.TempDir()
	c, other := testenv.Must(Open(dir, 1<<20))(t), testenv.Must(Look(dir))(t)
	defer other.Close()
	id := another(c).info.id
	testenv.OK(t, c.Close())
	testenv.OK(t, other.lockByte(objectByte(id), unix.F_WRLCK))
	c = testenv.Must(Open(dir, 1<<20))(t)
	defer c.Close()
	opened := make(chan storage.File, 1)
	go func() { opened <- c.Cached(&store{data: numbered(64 << 10)}, "https://host/b", "b") }()
	testenv.Until(t, func() bool {
		locks := testenv.Must(os.ReadFile("/proc/locks"))(t)
		return bytes.Contains(locks, []byte("-> OFDLCK")) || len(opened) == 1
	})
	testenv.OK(t, other.lockByte(objectByte(id), unix.F_UNLCK))
	_, kept := (<-opened).(*file)
	testenv.Check(t, kept, "the object is not kept")
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
		fetches(t, f, numbered(64<<10), 0, 64<<10)
		for i, file := range []*file{unread.(*file), f} {
			testenv.Equal(t, file.readKept(make([]byte, 64<<10), 0, keptAt(0)), want.kept[i], "after %v: file %d is kept", want.since, i)
		}
	}
}

// TestCacheOfABadDisk goes on without the cache, and says why.
func TestCacheOfABadDisk(t *testing.T) {
	_, c, f := cachedStore(t, numbered(64<<10), t.TempDir(), 1<<20)
	testenv.OK(t, f.(*file).local.Close())
	for range 2 {
		keepAll(t, f)
	}
	used, _, failure := c.Status()
	testenv.Check(t, failure != nil && used <= diskBlock, "%v, %d bytes", failure, used)
}

// TestCacheFetch fetches ahead from the store, and then from the disk.
func TestCacheFetch(t *testing.T) {
	data := numbered(1 << 20)
	s, _, f := cachedStore(t, data, t.TempDir(), 8<<20)
	for round := range 2 {
		for _, offset := range []int64{5, 166_666, 333_333, 820_000} {
			fetches(t, f, data, offset, 150_000)
		}
		testenv.Equal(t, s.requests, 4, "round %d: requests for 4 ranges", round)
	}
	buf := memory(t, 150_000)
	s.err = os.ErrPermission
	testenv.Fails(f.Fetch(buf, 600_000, 150_000))(t, os.ErrPermission)
}

// logged has the test's log in a buffer.
func logged(t *testing.T) *bytes.Buffer {
	var text bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &text
}

// TestCacheFolderIsOwn refuses folders that others can write to, and touches no file that is not a regular one of this user alone.
func TestCacheFolderIsOwn(t *testing.T) {
	const precious = "precious"
	open := filepath.Join(t.TempDir(), "open")
	testenv.OK(t, errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o720)))
	testenv.Fails(Open(open, 1<<20))(t, "chmod go-w") // a folder of a group
	if os.Geteuid() == 0 {
		testenv.OK(t, errors.Join(os.Chmod(open, 0o700), os.Chown(open, 65534, -1)))
		testenv.Fails(Look(open))(t, "owner 65534")
	}
	for name, plant := range map[string]func(victim, path string) error{
		"link":      os.Symlink,
		"hard link": os.Link,
		"pipe":      func(_, path string) error { return unix.Mkfifo(path, 0o600) },
		"folder":    func(_, path string) error { return os.Mkdir(path, 0o700) },
	} {
		for _, object := range []bool{true, false} {
			text, dir, victim := logged(t), t.TempDir(), filepath.Join(t.TempDir(), "victim")
			path := filepath.Join(dir, "lock")
			if object {
				c := testenv.Must(Open(dir, 1<<20))(t)
				another(c)
				path = c.path(onlyID(c))
				os.Remove(path)
				c.Close()
			}
			testenv.OK(t, errors.Join(os.WriteFile(victim, []byte(precious), 0o600), plant(victim, path)))
			c, err := Open(dir, 1<<20)
			if says := path + " is not a regular file"; !object {
				testenv.Says(t, name+" for the lock", err, says)
			} else {
				testenv.OK(t, err)
				keepAll(t, c.Cached(&store{data: numbered(64 << 10)}, "https://host/b", "b"))
				_, _, failure := c.Status()
				testenv.Says(t, name, failure, says)
				testenv.Contains(t, text.String(), "level=WARN")
				c.Close()
			}
			testenv.Equal(t, string(testenv.Must(os.ReadFile(victim))(t)), precious, "%s: the file that it leads to", name)
		}
	}
}

// onlyID returns the id of the only object that is open.
func onlyID(c *Cache) string {
	for id := range c.objects {
		return id
	}
	return ""
}

// TestCacheLimitOfAll fills a cache from 16 processes' caches at once. They keep no more than one may. One with a lower limit shrinks it, and
// others keep to that too. Promises of one that was killed are forgotten.
func TestCacheLimitOfAll(t *testing.T) {
	const limit = 2 << 20
	dir, data := t.TempDir(), numbered(1<<20)
	var caches []*Cache
	var all sync.WaitGroup
	fill := func(c *Cache, k int) {
		f := c.Cached(&store{data: data}, "https://host/x", fmt.Sprint(k))
		for i := range int64(32) {
			reads(t, f, data, i*32<<10, 30_000)
		}
	}
	for k := range 16 {
		c := testenv.Must(Open(dir, limit))(t)
		caches = append(caches, c)
		all.Go(func() { fill(c, k) })
	}
	all.Wait()
	testenv.Between(t, caches[0].Used(), limit*3/4, limit, "bytes that are kept")
	lower := testenv.Opened(Open(dir, limit/4))(t)
	testenv.Between(t, lower.Used(), 0, limit/4+17*keptName, "bytes that are kept by the lower limit")
	for k, c := range caches {
		fill(c, k+16)
		c.Close()
	}
	used, shown, _ := lower.Status()
	testenv.Between(t, lower.Used(), 0, min(used, limit/4+17*keptName), "bytes that are kept at last")
	testenv.Equal(t, shown, limit/4, "the limit that is shown")
	testenv.Check(t, !lower.makeRoom(1<<30), "there is room for a gigabyte")
	lower.countLocked(func(t *tally) { t.Used, t.Promised = t.Used+1<<20, 1<<20 })
	lower.Close()
	next := testenv.Opened(Open(dir, limit))(t)
	used, shown, _ = next.Status()
	testenv.Check(t, used == next.Used() && shown == limit && next.last.Promised == 0,
		"after the last one: %d bytes of %d, are said to be %d of %d", next.Used(), limit, used, shown)
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "lock"), []byte("damaged, and longer than a tally is"), 0o600))
	fill(next, 99)
	testenv.Between(t, next.Used(), 0, limit, "bytes that are kept with a damaged tally")
}

// TestCacheSettles asks for room that is not there while bytes of a promise are on the disk already: they count once.
func TestCacheSettles(t *testing.T) {
	c := testenv.Opened(Open(t.TempDir(), 1<<20))(t)
	const bytes = 600 << 10
	testenv.Require(t, c.makeRoom(bytes), "an empty cache has no room")
	testenv.OK(t, os.WriteFile(c.path("0123"), make([]byte, bytes), 0o600))
	testenv.Check(t, !c.makeRoom(bytes), "there is room for more than the limit")
	c.settle(bytes, bytes)
	used, _, _ := c.Status()
	testenv.Equal(t, used, c.Used(), "bytes that are said to be kept")
	testenv.Check(t, c.makeRoom(300<<10), "the room that is left is not given")
}

// TestCacheSmallRecords reads records shorter than a range of their own may be: each request brings a block of them, and the next epochs none.
func TestCacheSmallRecords(t *testing.T) {
	const records, length = 800, 100
	data, dir := numbered(records*length+5000), t.TempDir()
	s, c, f := cachedStore(t, data, dir, 1<<22)
	read := func() {
		for i := range int64(records) {
			fetches(t, f, data, i*37%records*length, length)
		}
	}
	read()
	most := records*length/diskBlock + 2
	testenv.Check(t, s.requests <= most, "%d requests for %d records, want %d at most", s.requests, records, most)
	f.(*file).Forget(100, 100)
	got := make([]byte, length)
	testenv.Check(t, !f.(*file).ReadKept(got, 100) && f.(*file).ReadKept(got, 5000) && bytes.Equal(got, data[5000:5100]),
		"it reads what is not kept, or not what is")
	for range 2 {
		testenv.Check(t, f.WillNeed(5000, 100) && !f.WillNeed(100, 100), "it does not know which are on the disk")
		c.Close()
		s, c, f = cachedStore(t, data, dir, 1<<22)
		read()
		testenv.Check(t, s.requests <= 1, "%d requests after the first epoch", s.requests)
		f.(*file).Forget(100, 100)
	}
}

// TestCacheOtherFiles lists and counts files that are not the cache's, and removes them when asked to.
func TestCacheOtherFiles(t *testing.T) {
	dir := t.TempDir()
	_, c, f := cachedStore(t, numbered(64<<10), dir, 1<<20)
	keepAll(t, f)
	before := c.Used()
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "notes.txt"), numbered(1<<20), 0o600))
	used, _, _ := c.Status()
	testenv.Between(t, used, before, before+1<<20-1, "bytes of the status, which does not measure the folder")
	list := c.Objects()
	testenv.Require(t, len(list) == 2 && list[1].Name == "notes.txt" && list[1].URL == "" && c.Used() >= before+1<<20,
		"%+v, %d bytes", list, c.Used())
	c.Close()
	look := testenv.Opened(Look(dir))(t)
	testenv.OK(t, look.Remove(list[1]))
	testenv.Equal(t, look.Used(), before, "bytes without the file")
	used, _, _ = look.Status()
	testenv.Equal(t, used, before, "bytes that are said to be kept")
}
