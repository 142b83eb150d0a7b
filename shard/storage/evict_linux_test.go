package storage

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// evict puts a file out of the page cache.
func evict(t *testing.T, f *localFile) {
	t.Helper()
	if err := f.buffered.use(func(file *os.File) error {
		file.Sync() // dirty pages stay
		return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
	}); err != nil {
		t.Fatal(err)
	}
}
