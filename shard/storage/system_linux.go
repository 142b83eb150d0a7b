package storage

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

var (
	errNotCached = errors.New("shard: not in the page cache")
	pageSize     = int64(os.Getpagesize())
)

// isUnsupported reports whether err says that a file system has no direct reads.
func isUnsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)
}

// openDirect opens the same file again, for direct reads.
func openDirect(f *os.File) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY|unix.O_DIRECT, 0)
}

// The next four give the system hints, or ask it. A file that is closed meanwhile, and its number another one's, does no harm.

// adviseRandom has reads of the file bring what they ask for into the page cache, and nothing beyond it.
func adviseRandom(f *os.File) { unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) }

// adviseWillNeed starts reading a range into the page cache.
func adviseWillNeed(f *os.File, offset, length int64) {
	unix.Fadvise(int(f.Fd()), offset, length, unix.FADV_WILLNEED)
}

// countCached returns errNotCached if a page of the range is not in the page cache. It returns another error where the system does not
// tell: before Linux 6.5, and for files of other users.
func countCached(f *os.File, offset, length int64) error {
	part := [2]uint64{uint64(offset), uint64(length)}
	var pages [5]uint64 // in the cache; dirty; being written; evicted; evicted lately
	_, _, errno := unix.Syscall6(unix.SYS_CACHESTAT, f.Fd(), uintptr(unsafe.Pointer(&part)), uintptr(unsafe.Pointer(&pages)), 0, 0, 0)
	switch {
	case errno != 0:
		return errno
	case int64(pages[0]) <= (offset+length-1)/pageSize-offset/pageSize:
		return errNotCached
	}
	return nil
}

// tryRead returns errNotCached if the byte at an offset is not in the page cache. Some kernels then begin to read its page.
func tryRead(f *os.File, offset int64) error {
	var b [1]byte
	part := unix.Iovec{Base: &b[0], Len: 1}
	_, _, errno := unix.Syscall6(unix.SYS_PREADV2, f.Fd(), uintptr(unsafe.Pointer(&part)), 1, uintptr(offset), 0, unix.RWF_NOWAIT)
	switch errno {
	case 0:
		return nil
	case unix.EAGAIN:
		return errNotCached
	}
	return errno
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

// mapFile maps a whole file for reading.
func mapFile(f *os.File, size int64) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}
