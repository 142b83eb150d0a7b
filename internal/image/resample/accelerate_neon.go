//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package resample

import (
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/lanes/neon"
)

var neon = kernels{
	doubles: 2 * lanes.Count, weights: weightsNEON, split: lanes.SplitWeight,
	prepare: preparePixelsNEON, vertical: &verticalsNEON, take: takeNEON,
	verticalFirst: [3]verticalFirstKernel{verticalFirstNEON[clipped], verticalFirstNEON[topByte], verticalFirst2NEON},
	splitPlanes:   splitPlanesNEON, mirror: mirrorNEON, bytes: 16 * lanes.Count,
}

// kernelsOf returns the kernels of a level, nil for the generic code.
func kernelsOf(level kernel.Level) *kernels {
	if level == kernel.NEON {
		return &neon
	}
	return nil
}
