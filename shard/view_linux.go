//go:build linux && (amd64 || arm64)

package shard

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file of length bytes for reading.
func mapFile(file shardFile, length int64) ([]byte, error) {
	var bytes []byte
	err := withFile(file, func(f *os.File) error {
		conn, err := f.SyscallConn()
		if err != nil {
			return err
		}
		var mapErr error
		err = conn.Control(func(fd uintptr) {
			bytes, mapErr = unix.Mmap(int(fd), 0, int(length), unix.PROT_READ, unix.MAP_SHARED)
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

var pageSize = int64(os.Getpagesize())

// populate brings part of a mapping into memory. Kernels before 5.14 don't know how; the pages then come by faults.
func populate(mapping []byte, offset, length int64) error {
	first := offset &^ (pageSize - 1)
	err := unix.Madvise(mapping[first:offset+length], unix.MADV_POPULATE_READ)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}
