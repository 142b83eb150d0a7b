//go:build !linux

package storage

import "os"

// aio is for Linux.
type aio struct{}

func processAIO() *aio { return nil }

func (*aio) submit(*os.File, *Fetch) bool { return false }

func (*aio) await(*Fetch, bool) {}
