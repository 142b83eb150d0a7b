//go:build linux && (amd64 || arm64)

package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps length bytes of a file for reading, from offset on, where a page begins.
func mapFile(f *os.File, offset, length int64) ([]byte, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var bytes []byte
	var mapErr error
	err = conn.Control(func(fd uintptr) {
		bytes, mapErr = unix.Mmap(int(fd), offset, int(length), unix.PROT_READ, unix.MAP_SHARED)
	})
	return bytes, errors.Join(err, mapErr)
}
