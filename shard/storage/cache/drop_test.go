package cache

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestCacheDropsWhileItKeeps drops all ranges of a file again and again while others are kept. Each read gives the right bytes. In the end
// the tally has the bytes that are on the disk, but for the blocks of a file system's own.
func TestCacheDropsWhileItKeeps(t *testing.T) {
	data := numbered(100_001)
	_, c, f := cachedStore(t, data, t.TempDir(), 1<<22)
	readRecords(t, f, data)
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for range 20 {
				readRecords(t, f, data)
			}
		})
	}
	for range 200 {
		f.(*file).Forget(0, f.Size())
		f.(*file).Forget(cachedRecords[5][0], cachedRecords[5][1])
	}
	readers.Wait()
	readRecords(t, f, data)
	used, _, _ := c.Status()
	testenv.Between(t, c.Used(), used-2*diskBlock, used+2*diskBlock, "bytes on the disk, of which %d are said to be there", used)
}

// TestCacheFailureEnds has a disk refuse a write, and take the next ones after the pause: the status no longer says that nothing is kept.
func TestCacheFailureEnds(t *testing.T) {
	_, c, f := cachedStore(t, numbered(64<<10), t.TempDir(), 1<<20)
	full := errors.New("no space left on device")
	c.noteWrite(full)
	_, _, failure := c.Status()
	testenv.Equal(t, failure, full, "the failure")
	c.measureAt = time.Now()
	keepAll(t, f)
	_, _, failure = c.Status()
	testenv.Check(t, failure == nil && c.Used() >= 64<<10, "%d bytes are kept, and the status says: %v", c.Used(), failure)
}

// TestCacheKeepsTheOthers has one of two files that cannot be kept: the status says that nothing is kept only while that is so.
func TestCacheKeepsTheOthers(t *testing.T) {
	dir := t.TempDir()
	c := testenv.Must(Open(dir, 1<<20))(t)
	another(c)
	path := c.path(onlyID(c))
	testenv.OK(t, errors.Join(c.Close(), os.Remove(path), os.Mkdir(path, 0o700)))
	c = testenv.Must(Open(dir, 1<<20))(t)
	defer c.Close()
	s := &store{data: numbered(64 << 10)}
	testenv.Require(t, c.Cached(s, "https://host/b", "b") == s, "a folder stands for an object")
	_, _, failure := c.Status()
	testenv.Check(t, failure != nil, "nothing is kept, and the status does not say why")
	keepAll(t, c.Cached(s, "https://host/a", "a"))
	_, _, failure = c.Status()
	testenv.OK(t, failure, "a file is kept, and the status says")
}
