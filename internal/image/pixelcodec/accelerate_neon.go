//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package pixelcodec

import "github.com/imgfeed/imgfeed/internal/kernel"

// acceleratedKernels returns the kernels for a level above Generic. There are none that write past the caches: processors with
// NEON notice by themselves that lines are written as a whole, and don't read them first.
func acceleratedKernels(kernel.Level) kernels {
	return kernels{
		measure:    measureNEON,
		unpack:     unpackNEON,
		predict:    predictNEON,
		interleave: interleaveNEON,
		planar:     planarNEON,
		split:      splitNEON,
		residuals:  residualsNEON,
		pack:       packNEON,
	}
}
