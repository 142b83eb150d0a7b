package cache

import (
	"sync"
	"testing"
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
