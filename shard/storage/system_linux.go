package storage

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openDirect opens the same file again, for direct reads.
func openDirect(f *os.File) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY|unix.O_DIRECT, 0)
}

// localSystems are file systems of this machine that have no way to read what is in memory alone: of memory, layers, ZFS, FAT and others.
var localSystems = []int64{
	unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, 0x2fc12fc1, unix.SQUASHFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1,
	unix.ISOFS_SUPER_MAGIC, unix.UDF_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, 0x7366746e, unix.HUGETLBFS_MAGIC,
}

// isLocal reports whether a file lies on one of them.
func isLocal(f *os.File) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &s) == nil && slices.Contains(localSystems, int64(s.Type))
}

// prepare makes the functions of a call.
func (c *call) prepare() {
	// Reads of the file then bring what they ask for into the page cache, and nothing beyond it.
	c.adviseRandom = func(fd uintptr) { c.err = unix.Fadvise(int(fd), 0, 0, unix.FADV_RANDOM) }
	// It starts reading the part of the file into the page cache.
	c.adviseWillNeed = func(fd uintptr) { c.err = unix.Fadvise(int(fd), c.offset, c.length, unix.FADV_WILLNEED) }
	c.countCached = func(fd uintptr) { c.err = countCached(fd, c.offset, c.length) }
	// The error is errNotCached if the first byte of the part is not in the page cache. Some kernels then begin to read its page.
	c.tryRead = func(fd uintptr) {
		if _, c.err = unix.Preadv2(int(fd), c.into[:], c.offset, unix.RWF_NOWAIT); c.err == unix.EAGAIN {
			c.err = errNotCached
		}
	}
}

// countCached returns errNotCached if a page of the part is not in the page cache. It returns another error where the system does not
// tell: before Linux 6.5, and for files of other users.
func countCached(fd uintptr, offset, length int64) error {
	part, pageSize := [2]uint64{uint64(offset), uint64(length)}, int64(os.Getpagesize())
	var pages [5]uint64 // cached; dirty; being written; evicted; recently evicted
	_, _, errno := unix.Syscall6(unix.SYS_CACHESTAT, fd, uintptr(unsafe.Pointer(&part)), uintptr(unsafe.Pointer(&pages)), 0, 0, 0)
	switch {
	case errno != 0:
		return errno
	case int64(pages[0]) <= (offset+length-1)/pageSize-offset/pageSize:
		return errNotCached
	}
	return nil
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
