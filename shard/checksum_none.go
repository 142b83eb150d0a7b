//go:build !goexperiment.simd || !amd64

package shard

import "github.com/imgfeed/imgfeed/internal/kernel"

// checksumOf returns the checksum function for a level.
func checksumOf(kernel.Level) func([]byte) uint32 { return checksumGeneric }
