//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package crc32c

import (
	"golang.org/x/sys/cpu"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

func checksumOf(level kernel.Level) func([]byte) uint32 {
	if level == kernel.NEON && cpu.ARM64.HasCRC32 && cpu.ARM64.HasPMULL {
		return checksumStretches
	}
	return checksumGeneric
}
