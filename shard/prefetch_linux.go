package shard

import (
	"os"

	"golang.org/x/sys/unix"
)

// adviseWillNeed starts reading a part of a file into the page cache.
func adviseWillNeed(f *os.File, offset, length int64) {
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	conn.Control(func(fd uintptr) {
		unix.Fadvise(int(fd), offset, length, unix.FADV_WILLNEED)
	})
}
