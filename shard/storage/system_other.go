//go:build !linux

package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func openDirect(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

func isLocal(*os.File) bool { return true }

func (c *call) prepare() {
	none := func(uintptr) {}
	c.adviseRandom, c.adviseWillNeed, c.countCached, c.tryRead = none, none, none, none
}

// NewMemory returns memory to fetch into.
func NewMemory(bytes int) ([]byte, error) {
	return unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}
