//go:build !linux

package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const directFlag = 0

var errNotCached = errors.New("shard: not in the page cache")

func isUnsupported(error) bool { return false }

func (*call) adviseWillNeed(*os.File) error { return nil }

func adviseRandom(*os.File) error { return nil }

func (*call) countCached(*os.File) error { return nil }

func (*call) tryRead(*os.File) error { return nil }

// NewMemory returns memory to fetch into.
func NewMemory(bytes int) ([]byte, error) {
	return unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func mapFile(*os.File, int64, int64) ([]byte, error) { return nil, ErrNotMapped }
