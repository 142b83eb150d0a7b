//go:build !goexperiment.simd || !go1.27 || go1.28 || !(amd64 || arm64)

package crc32c

import "github.com/imgfeed/imgfeed/internal/kernel"

func checksumOf(kernel.Level) func([]byte) uint32 { return checksumGeneric }
