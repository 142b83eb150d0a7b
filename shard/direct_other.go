//go:build !linux

package shard

import "os"

const directFlag = 0

type aioEvent struct {
	data uint64
	res  int64
}

// aioRing holds the reads that are under way: none, on this platform.
type aioRing struct{ next directRead }

func newAIORing(int) (*aioRing, error) { return nil, errNotDirect }

func (*aioRing) submit(*os.File) error { return errNotDirect }

func (*aioRing) wait(int) []aioEvent { return nil }

func (*aioRing) close() {}

func newArena(int) ([]byte, error) { return nil, errNotDirect }

func freeArena([]byte) {}
