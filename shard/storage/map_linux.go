//go:build linux && (amd64 || arm64)

package storage

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps length bytes of a file for reading, from offset on, where a page begins.
func mapFile(f *os.File, offset, length int64) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), offset, int(length), unix.PROT_READ, unix.MAP_SHARED)
}
