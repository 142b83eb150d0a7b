//go:build linux && (amd64 || arm64)

package shard

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps length bytes of a file for reading, from offset on, where a page begins.
func mapFile(file shardFile, offset, length int64) ([]byte, error) {
	var bytes []byte
	err := withFile(file, func(f *os.File) error {
		conn, err := f.SyscallConn()
		if err != nil {
			return err
		}
		var mapErr error
		err = conn.Control(func(fd uintptr) {
			bytes, mapErr = unix.Mmap(int(fd), offset, int(length), unix.PROT_READ, unix.MAP_SHARED)
		})
		return errors.Join(err, mapErr)
	})
	return bytes, err
}

func unmapFile(bytes []byte) error {
	if bytes == nil {
		return nil
	}
	return unix.Munmap(bytes)
}
