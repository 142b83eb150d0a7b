//go:build !linux

package shard

import (
	"errors"
	"os"
)

var errNotResident = errors.New("shard: not in memory")

func (*hint) adviseWillNeed(*os.File) error { return nil }

func adviseRandom(*os.File) error { return nil }

func (*hint) isCached(*os.File) error { return nil }

func (*hint) readNowait(*os.File) error { return nil }
