//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/lanes/avx2"
	lanes512 "github.com/imgfeed/imgfeed/internal/lanes/avx512"
)

var avx2 = kernels{
	doubles: 2 * lanes.Count, weights: weightsAVX2, split: lanes.SplitWeight,
	prepare: preparePixelsAVX2, vertical: &verticalsAVX2, take: takeAVX2,
	verticalFirst: [3]verticalFirstKernel{verticalFirstAVX2[clipped], verticalFirstAVX2[topByte], verticalFirst2AVX2},
	splitPlanes:   splitPlanesAVX2, mirror: mirrorAVX2, bytes: 16 * lanes.Count,
}

var avx512 = kernels{
	doubles: 2 * lanes512.Count, weights: weightsAVX512, split: lanes512.SplitWeight,
	prepare: prepareWindowsAVX512, vertical: &verticalsAVX512, take: takeAVX512,
	verticalFirst: [3]verticalFirstKernel{verticalFirstAVX512[clipped], verticalFirstAVX512[topByte], verticalFirst2AVX512},
	splitPlanes:   splitPlanesAVX512, mirror: mirrorAVX512, bytes: 16 * lanes512.Count, narrow: &avx2,
}

// kernelsOf returns the kernels of a level, nil for the generic code.
func kernelsOf(level kernel.Level) *kernels {
	switch level {
	case kernel.AVX2:
		return &avx2
	case kernel.AVX512:
		return &avx512
	}
	return nil
}
