package storage

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const directFlag = unix.O_DIRECT

var (
	errNotCached = errors.New("shard: not in the page cache")
	pageSize     = int64(os.Getpagesize())
)

// isUnsupported reports whether err says that a file system has no direct reads.
func isUnsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)
}

// adviseWillNeed starts reading the part of the file into the page cache.
func (c *call) adviseWillNeed(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), c.offset, c.length, unix.FADV_WILLNEED)
}

// adviseRandom has reads of the file bring what they ask for into the page cache, and nothing beyond it.
func adviseRandom(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) }

// countCached returns errNotCached if a page of the part is not in the page cache. It returns another error where the system does not
// tell: before Linux 6.5, and for files of other users.
func (c *call) countCached(f *os.File) error {
	part := [2]uint64{uint64(c.offset), uint64(c.length)}
	var pages [5]uint64 // in the cache; dirty; being written; evicted; evicted lately
	_, _, errno := unix.Syscall6(unix.SYS_CACHESTAT, f.Fd(), uintptr(unsafe.Pointer(&part)), uintptr(unsafe.Pointer(&pages)), 0, 0, 0)
	switch {
	case errno != 0:
		return errno
	case int64(pages[0]) <= (c.offset+c.length-1)/pageSize-c.offset/pageSize:
		return errNotCached
	}
	return nil
}

// tryRead returns errNotCached if the first byte of the part is not in the page cache. Some kernels then begin to read its page.
func (c *call) tryRead(f *os.File) error {
	_, err := unix.Preadv2(int(f.Fd()), c.into[:], c.offset, unix.RWF_NOWAIT)
	if err == unix.EAGAIN {
		return errNotCached
	}
	return err
}

// NewMemory returns memory to fetch into, which costs less where its pages are large. Nothing is taken of the machine before it is used.
func NewMemory(bytes int) ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil {
		unix.Madvise(memory, unix.MADV_HUGEPAGE)
		unix.Madvise(memory, unix.MADV_DONTFORK)
	}
	return memory, err
}

// mapFile maps length bytes of a file for reading, from offset on, where a page begins.
func mapFile(f *os.File, offset, length int64) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), offset, int(length), unix.PROT_READ, unix.MAP_SHARED)
}
