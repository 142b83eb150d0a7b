package cache

import (
	"errors"
	"sync"
	"testing"
	"time"
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
	if there := c.Used(); max(used-there, there-used) > 2*diskBlock {
		t.Errorf("%d bytes are on the disk, %d are said to be", there, used)
	}
}

// TestCacheFailureEnds has a disk refuse a write, and take the next ones after the pause: the status no longer says that nothing is kept.
func TestCacheFailureEnds(t *testing.T) {
	_, c, f := cachedStore(t, numbered(64<<10), t.TempDir(), 1<<20)
	full := errors.New("no space left on device")
	c.noteWrite(full)
	if _, _, failure := c.Status(); failure != full {
		t.Errorf("the failure is %v", failure)
	}
	c.measureAt = time.Now()
	keepAll(t, f)
	if _, _, failure := c.Status(); failure != nil || c.Used() < 64<<10 {
		t.Errorf("%d bytes are kept, and the status says: %v", c.Used(), failure)
	}
}
