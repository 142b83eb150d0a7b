//go:build !linux

package shard

import "os"

func adviseWillNeed(*os.File, int64, int64) {}
