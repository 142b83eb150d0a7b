package shard

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

var errNotResident = errors.New("shard: not in memory")

// adviseWillNeed starts reading the part of the file into the page cache.
func (h *hint) adviseWillNeed(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), h.offset, h.length, unix.FADV_WILLNEED)
}

// isResident returns errNotResident if the first byte of the part is not in the page cache.
func (h *hint) isResident(f *os.File) error {
	_, err := unix.Preadv2(int(f.Fd()), h.into[:], h.offset, unix.RWF_NOWAIT)
	switch err {
	case unix.EAGAIN:
		return errNotResident
	case unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL:
		h.known = false
	}
	return err
}
