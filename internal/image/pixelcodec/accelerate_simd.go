//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pixelcodec

import "github.com/imgfeed/imgfeed/internal/kernel"

// acceleratedKernels returns the kernels for a level above Generic.
func acceleratedKernels(level kernel.Level) kernels {
	if level == kernel.AVX512 {
		return avx512Kernels
	}
	return avx2Kernels
}

var avx2Kernels = kernels{
	measure:    measureAVX2,
	unpack:     unpackAVX2,
	predict:    predictAVX2,
	interleave: interleaveAVX2,
	stream:     streamAVX2,
	streamCopy: streamCopy,
	fence:      fence,
	planar:     planarAVX2,
	split:      splitAVX2,
	residuals:  residualsAVX2,
	pack:       packAVX2,
}

var avx512Kernels = kernels{
	measure:    measureAVX2,
	unpack:     unpackAVX512,
	predict:    predictAVX2,
	interleave: interleaveAVX512,
	stream:     streamAVX512,
	streamCopy: streamCopy,
	fence:      fence,
	planar:     planarAVX512,
	split:      splitAVX2,
	residuals:  residualsAVX2,
	pack:       packAVX512,
}
