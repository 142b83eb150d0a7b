package shard

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

var errNotResident = errors.New("shard: not in memory")

// adviseWillNeed starts reading the part of the file into the page cache.
func (h *hint) adviseWillNeed(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), h.offset, h.length, unix.FADV_WILLNEED)
}

// adviseRandom has reads of the file bring what they ask for into the page cache, and nothing beyond it.
func adviseRandom(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) }

// isCached returns errNotResident if a page of the part is not in the page cache, and another error where the system does not tell:
// before Linux 6.5, and of files that are not the user's own.
func (h *hint) isCached(f *os.File) error {
	part := [2]uint64{uint64(h.offset), uint64(h.length)}
	var pages [5]uint64 // in the cache; dirty; being written; evicted; evicted lately
	_, _, errno := unix.Syscall6(unix.SYS_CACHESTAT, f.Fd(), uintptr(unsafe.Pointer(&part)), uintptr(unsafe.Pointer(&pages)), 0, 0, 0)
	switch {
	case errno != 0:
		return errno
	case int64(pages[0]) <= (h.offset+h.length-1)/pageSize-h.offset/pageSize:
		return errNotResident
	}
	return nil
}

// readNowait returns errNotResident if the first byte of the part is not in the page cache. Some kernels then begin to read its page.
func (h *hint) readNowait(f *os.File) error {
	_, err := unix.Preadv2(int(f.Fd()), h.into[:], h.offset, unix.RWF_NOWAIT)
	if err == unix.EAGAIN {
		return errNotResident
	}
	return err
}
