//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package jpeg

import "github.com/imgfeed/imgfeed/internal/kernel"

func accelerate(k *kernels, level kernel.Level) {
	switch level {
	case kernel.AVX2:
		k.idct, k.idctLow, k.idctDC = idctAVX2, idctLowAVX2, idctDCAVX2
		k.upsampleH2V1, k.upsampleH1V2, k.upsampleH2V2 = upsampleH2V1AVX2, upsampleH1V2AVX2, upsampleH2V2AVX2
		k.ycbcrToRGB, k.grayToRGB = ycbcrToRGBAVX2, grayToRGBAVX2
	case kernel.AVX512:
		k.idct, k.idctLow, k.idctDC = idctAVX512, idctLowAVX512, idctDCAVX512
		k.upsampleH2V1, k.upsampleH1V2, k.upsampleH2V2 = upsampleH2V1AVX512, upsampleH1V2AVX512, upsampleH2V2AVX512
		k.ycbcrToRGB, k.grayToRGB = ycbcrToRGBAVX512, grayToRGBAVX512
	}
}

// words2 repeats a pair of 16-bit factors, as VPMADDWD multiplies the pairs of interleaved rows by, over 512 bits.
func words2(a, b int32) (t [16]int32) {
	for i := range t {
		t[i] = int32(uint32(uint16(a)) | uint32(b)<<16)
	}
	return t
}

var firstWord = func() (t [64]int8) { // VPSHUFB: the first word of each 128 bits, eight times
	for i := range t {
		t[i] = int8(i & 1)
	}
	return t
}()

// Factors of the colour conversion. Those of jdcolor.c have 16 fractional bits and do not fit 16-bit words, so the whole
// part is added apart: R takes 1.402 as 1 + 26345/2^16, B takes 1.772 as 2 - 14942/2^16 (both of the doubled chroma, and
// halved with rounding), G takes -0.71414 as -1 + 18734/2^16.
const (
	factorR = 26345
	factorB = -14942
)

var factorsG = words2(-22554, 18734)
